"""Captions of images in the layouts in which they are published, told apart by their content.

- one caption a line, as MCSE publishes them, without images;
- Parquet with the columns image_id and captions (a list), or with other names in the profile;
- any table (`harness.datarows`) with an image and one of its captions in each row, found by the names
  of columns;
- two columns without a header, image and caption, as in the token files of Flickr8k and Flickr30k,
  where a number follows the image's name (`10815824.jpg#0`); or any two columns by their numbers;
- JSON lines whose objects have one caption, or a list of them;
- one caption a line beside a list with the image of each line, as Multi30k is published;
- Flickr30k's results.csv, whose fields are separated by bars;
- COCO's captions_*.json, and the dataset_*.json of Karpathy and Fei-Fei (2015) with their splits.

Rows of one image need not be adjacent; images are in the order of their first rows, in COCO's JSON
in that of the list.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from harness.census import Account, account_for, account_for_number
from harness.columnar import convert_to_texts, has_lists, read_columns
from harness.columns import DefaultColumn, account_for_columns
from harness.datafiles import COLUMNAR, detect_container, is_json, list_parts, read_json, read_lines
from harness.datarows import (
    IMAGE_FILE,
    TablePart,
    TableRow,
    check_parts,
    describe_parts,
    detect_columns,
    read_cells,
    read_column_names,
    read_objects,
    read_rows,
)
from harness.errors import RESTORE, UserError
from harness.formatting import first_of
from harness.remarks import list_text_remarks

Layout = Literal["lines", "lists", "objects", "rows", "document"]
#: default names of the columns of a table of captions: the image's file name and the caption
COLUMNS = ("image", "caption")
#: names of both columns, or their numbers, from 1, in a table without a header
Columns = tuple[str | int, str | int]
#: names in published tables; numbered images have no ids
_HEADERS = (COLUMNS, ("image_id", "caption"), ("image_no", "caption"), ("image_name", "comment"))
#: names of the keys of objects with a list of captions each
_LISTS = (COLUMNS, ("image", "captions"), ("image_id", "captions"), ("image_id", "caption"))
_NUMBERED = "image_no"
_SPLIT = "split"
_NUMBER = re.compile(r"(?<=.)#\d+$")
#: the header of results.csv and its rows, of which one lacks the second bar
_BARS = re.compile(r"image_name\|\s*comment_number\|\s*comment\s*")
_BARRED = re.compile(r"([^|]+)\|\s*\d+(?:\s*\||\s)\s*([^|]+)")
#: the keys of COCO's and of Karpathy's JSON that are read
_COCO_KEYS = (
    "images",
    "annotations",
    "images.id",
    "images.file_name",
    "annotations.image_id",
    "annotations.caption",
)
_KARPATHY_KEYS = (
    "images",
    "images.filename",
    "images.filepath",
    "images.split",
    "images.sentences",
    "images.sentences.raw",
)


@dataclass
class ReadCaptions:
    """Captions of each image with the images' ids, None if there are none, and what a user should
    know of them.

    `stated_paths` are the paths of images, by id, that a file states beside their names.
    """

    ids: list[str] | None
    texts: list[list[str]]
    remarks: list[str] = field(default_factory=list)
    stated_paths: dict[str, str] = field(default_factory=dict)
    accounts: list[Account] = field(default_factory=list)


@dataclass(frozen=True)
class CaptionsLayout:
    """How a profile says that captions are read.

    `columns` are those of a table, of images and of captions; `split` selects a part; `image_list`
    is a file with the image of each line; `ignore` are patterns of the names of columns that may be
    left out.
    """

    columns: Columns = COLUMNS
    split: str | None = None
    image_list: str | None = None
    ignore: tuple[str, ...] = ()

    @property
    def has_default_columns(self) -> bool:
        return self.columns == COLUMNS

    @property
    def names(self) -> tuple[str, str]:
        """The names of both columns."""
        image, caption = self.columns
        return str(image), str(caption)


DEFAULT_LAYOUT = CaptionsLayout()


def find_layout(path: Path, columns: Columns = COLUMNS) -> Layout:
    """How a file holds captions; a file of other named columns is a table. Raises UserError."""
    is_default = columns == COLUMNS
    if detect_container(path) in COLUMNAR:
        caption_column = "captions" if is_default else str(columns[1])
        return "lists" if has_lists(path, caption_column) else "rows"

    if is_json(path):
        keys = _find_object_keys(path, columns)
        if keys is None:
            return "document" if is_default else "rows"
        return "objects" if _has_lists_in_objects(path, keys) else "rows"

    if not is_default or detect_columns(path) or _match_header(_split_first_line(path)):
        return "rows"
    return "lines"


def _find_object_keys(path: Path, columns: Columns) -> tuple[str, str] | None:
    """The keys of images and of captions in JSON lines, if these have them."""
    known = _LISTS if columns == COLUMNS else [(str(columns[0]), str(columns[1]))]
    present = {*read_column_names(path)}
    return next((keys for keys in known if {*keys} <= present), None)


def _has_lists_in_objects(path: Path, names: tuple[str, str]) -> bool:
    _, (value,) = next(read_objects(path, names[1]))
    return isinstance(value, list)


def read_captions(
    path: Path, layout: CaptionsLayout = DEFAULT_LAYOUT, images: Path | None = None
) -> ReadCaptions:
    """Read the captions of each image; `images` is the path of the layout's list of images.

    Raises UserError naming file and line, and the option that would read a file of another layout.
    """
    if images is not None:
        return _add_remarks(_parse_parallel(path, images))

    columns = layout.columns
    split = layout.split
    kind = find_layout(path, columns)
    if kind == "lines":
        if split is not None:
            raise UserError(f"{path} has no splits; remove split = '{split}' from the profile")
        return _parse_lines(path)
    if kind == "lists":
        names = ("image_id", "captions") if layout.has_default_columns else layout.names
        return _add_remarks(_parse_lists(path, names, TablePart.parse(split)))
    if kind == "objects":
        return _add_remarks(_parse_object_lists(path, columns, TablePart.parse(split)))

    if kind == "document":
        read = _parse_document(path, split)
    else:
        rows, is_numbered = _parse_rows(path, columns, split)
        read = _make_captions(_group_by_image(rows, tidy=split is None))
        if is_numbered:
            read.ids = None

    if not read.texts:
        raise UserError(
            f"{path} has no captions of the split '{split}'; choose another, or {RESTORE}"
        )
    return _add_remarks(read)


def _make_captions(by_image: Mapping[str, list[str]]) -> ReadCaptions:
    return ReadCaptions(list(by_image), list(by_image.values()))


def account_for_captions(
    path: Path, layout: CaptionsLayout, pictures: Sequence[str] = ()
) -> list[Account]:
    """What became of the columns of a table of captions, of which `pictures` are read as such.

    Raises UserError for one that parts the table, and for one that may be meant.
    """
    columns = layout.columns
    kind = find_layout(path, columns)
    if layout.image_list is not None or kind in ("lines", "document"):
        return []

    # a line of text has no names of columns
    if detect_container(path) not in COLUMNAR and not is_json(path):
        if _is_barred(path):
            why = "captions keep the order of their lines"
            accounts = account_for("columns", ["image_name", "comment"], "read")
            return accounts + account_for("columns", ["comment_number"], "left out", why)
        if isinstance(columns[0], int) or isinstance(columns[1], int):
            return _account_for_numbers(path, layout.names)

    names: tuple[str, str] | None = layout.names
    if kind == "objects":
        names = _find_object_keys(path, columns)
    elif layout.has_default_columns and kind == "lists":
        names = ("image_id", "captions")
    elif layout.has_default_columns:
        names = _match_header(read_column_names(path))
    if names is None:
        return []

    defaults = [DefaultColumn(name, "pictures") for name in pictures]
    if columns[0] == COLUMNS[0]:
        defaults.append(DefaultColumn(names[0], "names", "image"))
    if columns[1] == COLUMNS[1]:
        content: Literal["lists", "texts"] = "texts" if kind == "rows" else "lists"
        defaults.append(DefaultColumn(names[1], content, "caption"))

    split = TablePart.parse(layout.split)
    return account_for_columns(path, (*names, *pictures), layout.ignore, split, defaults)


def _account_for_numbers(path: Path, numbers: Sequence[str]) -> list[Account]:
    """What became of the columns of a table without a header, of which these numbers are read."""
    _, cells = next(read_cells(path))
    unread = [str(number + 1) for number in range(len(cells)) if str(number + 1) not in numbers]
    accounts = account_for("columns", numbers, "read")
    return accounts + account_for("columns", unread, "left out", "no key gives their numbers")


def _group_by_image(rows: Iterator[TableRow], *, tidy: bool) -> dict[str, list[str]]:
    """The captions of each image; runs of blanks in a tidy one become one blank. Raises UserError."""
    by_image: dict[str, list[str]] = {}
    for place, (name, text) in rows:
        image = _NUMBER.sub("", name.strip())
        caption = " ".join(text.split()) if tidy else text.strip()
        if not image or not caption:
            lacking = "caption" if image else "file name of an image"
            raise UserError(f"{place}: no {lacking}; correct the line or remove it")
        by_image.setdefault(image, []).append(caption)
    return by_image


def _add_remarks(captions: ReadCaptions) -> ReadCaptions:
    """The captions, with remarks on repeated ones and on missing values spelled as texts."""
    repeated = sum(len(texts) - len({*texts}) for texts in captions.texts)
    if repeated:
        captions.remarks.append(f"{repeated} captions are given twice for their image")
    captions.remarks += list_text_remarks(chain.from_iterable(captions.texts), "captions")
    captions.remarks += list_text_remarks(captions.ids or [], "image ids")
    return captions


def _parse_lines(path: Path) -> ReadCaptions:
    """Captions of an image each; an empty line is one too, as one blank."""
    lines = [line.strip() or " " for line in read_lines(path)]
    empty = lines.count(" ")
    remarks = list_text_remarks(lines, "captions")
    if empty:
        remarks = [f"{empty} of {len(lines)} lines are empty, captions of one blank", *remarks]
    return ReadCaptions(None, [[line] for line in lines], remarks)


def _parse_parallel(path: Path, images: Path) -> ReadCaptions:
    """Captions whose image stands in the same line of a list; of several files, each is parallel
    to the list.
    """
    names = [line.strip() for line in read_lines(images)]
    rows = []
    for part in list_parts(path):
        captions = list(read_lines(part))
        if len(captions) != len(names):
            raise UserError(
                f"{images} has {len(names)} lines for the {len(captions)} of {part}; line k of "
                "both must be of one image: give the list that was made with these captions"
            )

        pairs = zip(names, captions, strict=True)
        rows += [TableRow(f"{part}, line {number}", pair) for number, pair in enumerate(pairs, 1)]
    return _make_captions(_group_by_image(iter(rows), tidy=True))


def _parse_lists(path: Path, names: tuple[str, str], split: TablePart | None) -> ReadCaptions:
    columns = names if split is None else (*names, split.column)
    table = read_columns(path, *columns)
    ids = convert_to_texts(path, names[0], table.column(0), numbers=False)
    captions = table.column(1).to_pylist()
    if split is not None:
        parts = convert_to_texts(path, split.column, table.column(2))
        check_parts(path, split, Counter(parts))
        rows = [row for row, part in enumerate(parts) if part in split.values]
        ids = [ids[row] for row in rows]
        captions = [captions[row] for row in rows]

    for name, texts in zip(ids, captions, strict=True):
        _check_list(f"{path}: the image {name}", texts)
    _refuse_twice(path, ids)
    return ReadCaptions(ids, captions)


def _check_list(place: str, texts: object) -> None:
    listed = texts if isinstance(texts, list) else []
    if not listed or not all(isinstance(text, str) and text.strip() for text in listed):
        raise UserError(f"{place} has no list of captions that are not empty; correct its row")


def _parse_object_lists(path: Path, columns: Columns, split: TablePart | None) -> ReadCaptions:
    """Captions of JSON lines, whose objects have a list of captions each."""
    names = _find_object_keys(path, columns)
    assert names is not None
    keys = names if split is None else (*names, split.column)
    by_image: dict[str, list[str]] = {}
    counts = Counter[str]()

    for place, (image, texts, *part) in read_objects(path, *keys):
        if split is not None:
            counts[str(part[0])] += 1
            if str(part[0]) not in split.values:
                continue

        if isinstance(image, bool) or not isinstance(image, str | int) or not str(image).strip():
            raise UserError(f"{place}: '{names[0]}' names no image; correct the line")
        _check_list(f"{place}: the image {image}", texts)

        by_image.setdefault(str(image).strip(), []).extend(" ".join(text.split()) for text in texts)

    if split is not None:
        check_parts(path, split, counts)
    return _make_captions(by_image)


def _refuse_twice(path: Path, ids: Sequence[str]) -> None:
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise UserError(
            f"{path} has {len(twice)} images twice, such as {twice[0]}; merge their rows"
        )


def _match_header(columns: Sequence[str]) -> tuple[str, str] | None:
    """The names of a header's columns of images and captions, if they are known."""
    names = {name.strip() for name in columns}
    return next((header for header in _HEADERS if {*header} <= names), None)


def _split_first_line(path: Path) -> list[str]:
    return re.split(r"[\t,;|]", next(read_lines(path), ""))


def _parse_rows(path: Path, columns: Columns, split: str | None) -> tuple[Iterator[TableRow], bool]:
    """File name and caption of each row, and whether images are numbered instead. Raises UserError."""
    image, caption = columns
    if isinstance(image, int) and isinstance(caption, int):
        return _parse_numbered_columns(path, image, caption), False
    if isinstance(image, int) or isinstance(caption, int):
        raise UserError(
            f"{path}: image = {image!r} and caption = {caption!r} are a name and a number; give "
            "both as names of columns, or both as numbers of columns in a file without a header"
        )

    is_columnar = detect_container(path) in COLUMNAR
    if not is_columnar and _is_barred(path):
        return _parse_barred_rows(path), False

    present = read_column_names(path)
    names = (image, caption) if columns != COLUMNS else _match_header(present)
    if names is not None:
        rows = read_rows(path, *names, split=TablePart.parse(split))
        return rows, names[0] == _NUMBERED

    if is_columnar or len(present) != 2 or not IMAGE_FILE.fullmatch(present[0]):
        listed = first_of([name.strip() for name in present], 10)
        raise UserError(
            f"{path}, line 1: neither a header with the columns '{COLUMNS[0]}' and '{COLUMNS[1]}' nor an image's "
            f"file name and its caption, but {listed}; name the columns in "
            "the profile: image = '...', caption = '...', or without a header by their numbers: image = 2, "
            "caption = 1"
        )
    return _parse_headerless_rows(path), False


def _is_barred(path: Path) -> bool:
    """Whether a file is Flickr30k's results.csv."""
    return bool(_BARS.fullmatch(next(read_lines(path), "")))


def _parse_numbered_columns(path: Path, image: int, caption: int) -> Iterator[TableRow]:
    """Image and caption of each line of a table without a header, by numbers of columns from 1."""
    for place, cells in _split_lines(path):
        fields = len(cells)
        if min(image, caption) < 1 or max(image, caption) > fields:
            raise UserError(
                f"{place}: image = {image} and caption = {caption} are not both columns of the "
                f"{fields} that it has; count from 1"
            )
        yield TableRow(place, (cells[image - 1], cells[caption - 1]))


def _split_lines(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """The place of each line of a table without a header, for messages, and its cells. Raises
    UserError unless all lines have as many as the first.
    """
    fields = 0
    for number, cells in read_cells(path):
        place = f"{path}, line {number}"
        fields = fields or len(cells)
        if len(cells) != fields:
            raise UserError(
                f"{place}: {len(cells)} fields, the lines above have {fields}; correct the line"
            )
        yield place, cells


def _parse_barred_rows(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(read_lines(path), 1):
        if number == 1 or not line.strip():
            continue
        match = _BARRED.fullmatch(line)
        place = f"{path}, line {number}"
        if match is None:
            raise UserError(f"{place}: not an image, a number and a caption; correct the line")
        yield TableRow(place, (match[1], match[2]))


def _parse_headerless_rows(path: Path) -> Iterator[TableRow]:
    """Image and caption of each line of a table of two columns."""
    for place, (image, caption) in _split_lines(path):
        yield TableRow(place, (image, caption))


def _parse_document(path: Path, split: str | None) -> ReadCaptions:
    """The captions of each image in COCO's or Karpathy's JSON. Raises UserError."""
    document = read_json(path)
    try:
        is_coco = "annotations" in document
        parse = _parse_coco if is_coco else _parse_karpathy
        read = parse(path, document, split)
    except (TypeError, KeyError, AttributeError) as error:
        keys = "no keys"
        if isinstance(document, dict):
            keys = f"the keys {first_of([*document], 10)}"
        raise UserError(
            f"{path}, line 1: JSON with {keys}, neither COCO's captions (images and annotations) nor Karpathy's "
            "(images with sentences); give an object a line, and name its keys in the profile: image = '...', "
            "caption = '...'"
        ) from error

    ids = read.ids or []
    _refuse_twice(path, ids)
    by_image = {}
    empty = 0
    for name, captions in zip(ids, read.texts, strict=True):
        texts = [text for text in captions if text]
        empty += len(captions) - len(texts)
        if texts:
            by_image[name] = texts

    without_caption = len(ids) - len(by_image)
    if empty:
        read.remarks.append(f"{empty} empty captions are left out")
    if without_caption:
        read.remarks.append(f"{without_caption} images have no caption and are left out")
    unread = _list_unread_keys(document, is_coco)
    read.accounts += account_for("keys", unread, "left out", "not read")
    read.accounts += account_for_number("captions", empty, "empty")
    read.accounts += account_for_number("images", without_caption, "without a caption")
    read.ids = list(by_image)
    read.texts = list(by_image.values())
    return read


def _list_unread_keys(document: Mapping[str, Any], is_coco: bool) -> list[str]:
    """The keys of COCO's or Karpathy's JSON that are not read: 'info', 'images.height'."""
    images = document["images"]
    entries = {"": [document], "images.": images}
    if is_coco:
        entries["annotations."] = document["annotations"]
    else:
        sentences = chain.from_iterable(image["sentences"] for image in images)
        entries["images.sentences."] = sentences

    unread = []
    for prefix, objects in entries.items():
        keys = dict[str, Any]()
        for entry in objects:
            keys.update(entry)
        unread += [f"{prefix}{key}" for key in keys]
    read = _COCO_KEYS if is_coco else _KARPATHY_KEYS
    return [key for key in unread if key not in read]


def _parse_coco(path: Path, document: Mapping[str, Any], split: str | None) -> ReadCaptions:
    if split is not None:
        raise UserError(
            f"{path} is COCO's and has no splits; remove split = '{split}' from the profile"
        )

    images = document["images"]
    annotations = document["annotations"]
    texts: dict[Any, list[str]] = {image["id"]: [] for image in images}
    numbers = [annotation["image_id"] for annotation in annotations]
    astray = [number for number in numbers if number not in texts]
    if astray:
        raise UserError(
            f"{path}: {len(astray)} captions name no image of the file, such as {astray[0]}; {RESTORE}"
        )

    for annotation in annotations:
        if "caption" not in annotation:
            raise UserError(
                f"{path}: its annotations have no caption, but {first_of([*annotation], 10)}; give the file of "
                "captions, such as captions_val2014.json"
            )
        caption = annotation["caption"]
        if not isinstance(caption, str):
            number = annotation.get("id", "without an id")
            raise UserError(
                f"{path}: the caption of the annotation {number} is {json.dumps(caption)[:40]}, "
                "not a text; remove the annotation, or give it a caption"
            )
        texts[annotation["image_id"]].append(" ".join(caption.split()))

    names = [str(image["file_name"]) for image in images]
    return ReadCaptions(names, [texts[image["id"]] for image in images])


def _parse_karpathy(path: Path, document: Mapping[str, Any], split: str | None) -> ReadCaptions:
    listed = document["images"]
    counts = Counter(str(image[_SPLIT]) for image in listed)
    if split is None and len(counts) > 1:
        raise UserError(
            f"{path} has the splits {describe_parts(counts)}; choose one in the profile: split = '...'"
        )
    splits = [*counts] if split is None else split.split("+")

    names = []
    stated_paths = []
    texts = []
    for image in listed:
        if image[_SPLIT] not in splits:
            continue
        name = str(image["filename"])
        folder = image.get("filepath")
        names.append(name)
        stated_paths.append(f"{folder}/{name}" if folder else name)
        texts.append([" ".join(sentence["raw"].split()) for sentence in image["sentences"]])

    # images of two folders may have one name
    ids = names if len({*names}) == len(names) else stated_paths
    unread = {name: count for name, count in counts.items() if name not in splits}
    why = f"of other splits: {describe_parts(unread)}"
    accounts = account_for_number("images", sum(unread.values()), why)
    return ReadCaptions(ids, texts, [], dict(zip(ids, stated_paths, strict=True)), accounts)
