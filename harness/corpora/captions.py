"""Captions of images in the layouts in which they are published, told apart by their content.

- one caption a line, as MCSE publishes them, without images;
- Parquet with the columns image_id and captions (a list), or with other names in the profile;
- any table (`harness.tables`) with an image and one of its captions in each row, found by the names
  of columns;
- two columns without a header, image and caption, as in the token files of Flickr8k and Flickr30k,
  where a number follows the image's name (`10815824.jpg#0`);
- Flickr30k's results.csv, whose fields are separated by bars;
- COCO's captions_*.json, and the dataset_*.json of Karpathy and Fei-Fei (2015) with their splits.

Rows of one image need not be adjacent; images are in the order of their first rows, in COCO's JSON
in that of the list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from harness.errors import RESTORE, UserError
from harness.formatting import first_of
from harness.tables import (
    COLUMNAR,
    IMAGE_FILE,
    TableRow,
    cells_of,
    column_names,
    container_of,
    has_lists,
    is_json,
    lines_of,
    read_columns,
    read_json,
    read_rows,
    table_in,
    text_remarks,
    texts_of,
)

Layout = Literal["lines", "lists", "rows", "document"]
#: default names of the columns of a table of captions: the image's file name and the caption
COLUMNS = ("image", "caption")
#: names in published tables; numbered images have no ids
_HEADERS = (COLUMNS, ("image_id", "caption"), ("image_no", "caption"), ("image_name", "comment"))
_NUMBERED = "image_no"
_SPLIT = "split"
_NUMBER = re.compile(r"(?<=.)#\d+$")
#: the header of results.csv and its rows, of which one lacks the second bar
_BARS = re.compile(r"image_name\|\s*comment_number\|\s*comment\s*")
_BARRED = re.compile(r"([^|]+)\|\s*\d+(?:\s*\||\s)\s*([^|]+)")


@dataclass
class ReadCaptions:
    """Captions of each image with the images' ids, None if there are none, and what a user should
    know of them.
    """

    ids: list[str] | None
    texts: list[list[str]]
    remarks: list[str] = field(default_factory=list)


def layout_of(path: Path, columns: tuple[str, str] = COLUMNS) -> Layout:
    """How a file holds captions; a file of other named columns is a table. Raises UserError."""
    if container_of(path) in COLUMNAR:
        return (
            "lists" if has_lists(path, "captions" if columns == COLUMNS else columns[1]) else "rows"
        )
    if columns != COLUMNS:
        return "rows"
    if is_json(path):
        return "rows" if {*COLUMNS} <= {*column_names(path)} else "document"
    return "rows" if table_in(path) or _header(_first_cells(path)) else "lines"


def read_captions(
    path: Path, columns: tuple[str, str] = COLUMNS, split: str | None = None
) -> ReadCaptions:
    """Read the captions of each image; `split` selects rows of a table, or images of Karpathy's
    JSON.

    Raises UserError naming file and line, and the option that would read a file of another layout.
    """
    layout = layout_of(path, columns)
    if split is not None and layout in ("lines", "lists"):
        raise UserError(f"{path} has no splits; remove split = '{split}' from the profile")
    if layout == "lines":
        return _by_line(path)
    if layout == "lists":
        return _lists(path, ("image_id", "captions") if columns == COLUMNS else columns)
    remarks: list[str] = []
    if layout == "document":
        by_image, numbered = _document(path, split, remarks), False
    else:
        rows, numbered = _rows(path, columns, split, remarks)
        by_image = _by_image(rows, tidy=split is None)
    if not by_image:
        raise UserError(
            f"{path} has no captions of the split '{split}'; choose another, or {RESTORE}"
        )
    return _told(
        ReadCaptions(None if numbered else list(by_image), list(by_image.values()), remarks)
    )


def _by_image(rows: Iterator[TableRow], *, tidy: bool) -> dict[str, list[str]]:
    """The captions of each image; runs of blanks in a tidy one become one blank. Raises UserError."""
    by_image: dict[str, list[str]] = {}
    for where, (name, text) in rows:
        image, caption = (
            _NUMBER.sub("", name.strip()),
            " ".join(text.split()) if tidy else text.strip(),
        )
        if not image or not caption:
            what = "caption" if image else "file name of an image"
            raise UserError(f"{where}: no {what}; correct the line or remove it")
        by_image.setdefault(image, []).append(caption)
    return by_image


def _told(captions: ReadCaptions) -> ReadCaptions:
    """The captions, with remarks on repeated ones and on missing values spelled as texts."""
    repeated = sum(len(texts) - len({*texts}) for texts in captions.texts)
    if repeated:
        captions.remarks.append(f"{repeated} captions are given twice for their image")
    captions.remarks += text_remarks(chain.from_iterable(captions.texts), "captions")
    captions.remarks += text_remarks(captions.ids or [], "image ids")
    return captions


def _by_line(path: Path) -> ReadCaptions:
    lines = [line.strip() or " " for line in lines_of(path)]
    empty = lines.count(" ")
    remarks = [f"{empty} of {len(lines)} lines are empty, captions of one blank"] if empty else []
    return ReadCaptions(None, [[line] for line in lines], remarks + text_remarks(lines, "captions"))


def _lists(path: Path, names: tuple[str, str]) -> ReadCaptions:
    table = read_columns(path, *names)
    ids, captions = (
        texts_of(path, names[0], table.column(0), numbers=False),
        table.column(1).to_pylist(),
    )
    for name, texts in zip(ids, captions, strict=True):
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise UserError(
                f"{path}: the image {name} has no list of captions that are not empty; correct its row"
            )
    _refuse_twice(path, ids)
    return _told(ReadCaptions(ids, captions))


def _refuse_twice(path: Path, ids: Sequence[str]) -> None:
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise UserError(
            f"{path} has {len(twice)} images twice, such as {twice[0]}; merge their rows"
        )


def _header(there: Sequence[str]) -> tuple[str, str] | None:
    """The names of a header's columns of images and captions, if they are known."""
    names = {name.strip() for name in there}
    return next((header for header in _HEADERS if {*header} <= names), None)


def _first_cells(path: Path) -> list[str]:
    return re.split(r"[\t,;|]", next(lines_of(path), ""))


def _rows(
    path: Path, columns: tuple[str, str], split: str | None, remarks: list[str]
) -> tuple[Iterator[TableRow], bool]:
    """File name and caption of each row, and whether images are numbered instead. Raises UserError."""
    columnar = container_of(path) in COLUMNAR
    if not columnar and _BARS.fullmatch(next(lines_of(path), "")):
        return _barred(path), False
    there = column_names(path)
    names = columns if columns != COLUMNS else _header(there)
    if names is None:
        if columnar or len(there) != 2 or not IMAGE_FILE.fullmatch(there[0]):
            raise UserError(
                f"{path}, line 1: neither a header with the columns '{COLUMNS[0]}' and '{COLUMNS[1]}' nor an image's "
                f"file name and its caption, but {first_of([name.strip() for name in there], 10)}; name the columns in "
                "the profile: image = '...', caption = '...'"
            )
        return _without_header(path), False
    numbered = names[0] == _NUMBERED
    if split is not None:
        rows, wanted = read_rows(path, _SPLIT, *names), split.split("+")
        return (
            TableRow(where, (name, text)) for where, (which, name, text) in rows if which in wanted
        ), numbered
    splits = Counter(row.values[0] for row in read_rows(path, _SPLIT)) if _SPLIT in there else {}
    if len(splits) > 1:
        remarks.append(f"all splits are read, {_counted(splits)}; split = '...' chooses one")
    return read_rows(path, *names), numbered


def _counted(splits: Mapping[str, int]) -> str:
    return first_of([f"{name} ({count})" for name, count in splits.items()], 10)


def _barred(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(lines_of(path), 1):
        if number > 1 and line.strip():
            found = _BARRED.fullmatch(line)
            if found is None:
                raise UserError(
                    f"{path}, line {number}: not an image, a number and a caption; correct the line"
                )
            yield TableRow(f"{path}, line {number}", (found[1], found[2]))


def _without_header(path: Path) -> Iterator[TableRow]:
    for number, cells in cells_of(path):
        if len(cells) != 2:
            raise UserError(
                f"{path}, line {number}: {len(cells)} fields, the lines above have 2; correct the line"
            )
        yield TableRow(f"{path}, line {number}", (cells[0], cells[1]))


def _document(path: Path, split: str | None, remarks: list[str]) -> dict[str, list[str]]:
    """The captions of each image in COCO's or Karpathy's JSON. Raises UserError."""
    known = read_json(path)
    try:
        listed = known["images"]
        read = (
            _coco(path, known, split) if "annotations" in known else _karpathy(path, listed, split)
        )
        _refuse_twice(path, [name for name, _ in read])
    except (TypeError, KeyError, AttributeError) as error:
        keys = f"the keys {first_of([*known], 10)}" if isinstance(known, dict) else "no keys"
        raise UserError(
            f"{path}, line 1: JSON with {keys}, neither COCO's captions (images and annotations) nor Karpathy's "
            "(images with sentences); give an object a line, and name its keys in the profile: image = '...', "
            "caption = '...'"
        ) from error
    by_image = {name: [text for text in texts if text] for name, texts in read}
    empty = sum(len(texts) for _, texts in read) - sum(map(len, by_image.values()))
    bare = sum(not texts for texts in by_image.values())
    lines = {
        f"{empty} empty captions are left out": empty,
        f"{bare} images have no caption and are left out": bare,
    }
    remarks += [line for line, count in lines.items() if count]
    return {name: texts for name, texts in by_image.items() if texts}


def _coco(path: Path, known: Mapping[str, Any], split: str | None) -> list[tuple[str, list[str]]]:
    if split is not None:
        raise UserError(
            f"{path} is COCO's and has no splits; remove split = '{split}' from the profile"
        )
    texts: dict[Any, list[str]] = {image["id"]: [] for image in known["images"]}
    astray = [each["image_id"] for each in known["annotations"] if each["image_id"] not in texts]
    if astray:
        raise UserError(
            f"{path}: {len(astray)} captions name no image of the file, such as {astray[0]}; {RESTORE}"
        )
    for each in known["annotations"]:
        texts[each["image_id"]].append(" ".join(each["caption"].split()))
    return [(str(image["file_name"]), texts[image["id"]]) for image in known["images"]]


def _karpathy(path: Path, listed: Sequence[Any], split: str | None) -> list[tuple[str, list[str]]]:
    splits = Counter(str(image[_SPLIT]) for image in listed)
    if split is None and len(splits) > 1:
        raise UserError(
            f"{path} has the splits {_counted(splits)}; choose one in the profile: split = '...'"
        )
    wanted = splits if split is None else split.split("+")
    return [
        (
            str(image["filename"]),
            [" ".join(sentence["raw"].split()) for sentence in image["sentences"]],
        )
        for image in listed
        if image[_SPLIT] in wanted
    ]
