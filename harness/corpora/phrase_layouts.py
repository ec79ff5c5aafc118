"""Phrases of captions with regions of the captions' images, in the layouts in which they are given.

- any table (`harness.datarows`) with one phrase a row: `image`, `caption`; the `phrase`, or its
  characters from `start` to `end`, the last not included; its box in pixels, `left`, `top`, `right`
  and `bottom`, the last two not included, or a `region`, the id of stored features, or both;
- the folder of Flickr30k Entities (Plummer et al. 2017), with `Sentences` and `Annotations`.

Images are in the order of their first rows, or of the names of their files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from harness.census import Account, account_for, account_for_number
from harness.columns import account_for_columns
from harness.corpora.regions import Box, check_box, join_boxes
from harness.datafiles import read_lines
from harness.datarows import TablePart, read_column_names, read_rows
from harness.errors import UserError
from harness.formatting import first_of

SPAN = ("start", "end")
BOX = ("left", "top", "right", "bottom")
#: folders and lists of Flickr30k Entities
SENTENCES = "Sentences"
ANNOTATIONS = "Annotations"
PARTS = ("train", "val", "test")
#: a phrase in a sentence of Flickr30k Entities: [/EN#283585/people Two young guys]
_PHRASE = re.compile(r"\[/EN#(\d+)/[^\s\]]+\s+([^\[\]]+)\]")
#: the id of a phrase that names nothing visible
_NOT_VISUAL = "0"


class PhrasePlace(NamedTuple):
    """A phrase: the number of its caption among those of its image, its characters there, and the
    region that it names.
    """

    caption: int
    start: int
    end: int
    region: str


@dataclass
class ReadPhrases:
    """Captions and phrases of each image, and its regions by name, each with its box, None without.

    `ids` are the images, in order.
    """

    ids: list[str] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)
    phrases: list[list[PhrasePlace]] = field(default_factory=list)
    regions: list[dict[str, Box | None]] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)


def is_entities(path: Path) -> bool:
    """Whether a path is the folder of Flickr30k Entities."""
    return (path / SENTENCES).is_dir()


@lru_cache(maxsize=2)  # what reads a corpus asks for its captions, its images and its phrases
def read_phrases(path: Path, split: str | None, content: str) -> ReadPhrases:
    """Read a table, or the folder of Flickr30k Entities, whose fingerprint is `content`.

    `split` chooses rows or images of a part. Raises UserError naming file and line.
    """
    read = _parse_entities(path, split) if is_entities(path) else _parse_phrase_table(path, split)
    if not any(read.phrases):
        raise UserError(f"{path} has no phrase that names a region; give it some, or another file")
    return read


def account_for_phrases(
    path: Path, split: str | None, ignore: Sequence[str], names: Sequence[str]
) -> list[Account]:
    """What became of the columns of a table of phrases, or of the files of Flickr30k Entities, of
    which the images `names` are read.

    Raises UserError for a column that parts the table.
    """
    if not is_entities(path):
        return account_for_columns(path, _find_phrase_columns(path), ignore, TablePart.parse(split))

    read = set[str]()
    for name in names:
        stem = Path(name).stem
        read |= {f"{SENTENCES}/{stem}.txt", f"{ANNOTATIONS}/{stem}.xml"}
    if split is not None:
        read |= {f"{part}.txt" for part in split.split("+")}
    unread = [name for name in _list_files(path) if name not in read]
    accounts = account_for("files", sorted(read), "read")
    return accounts + account_for("files", unread, "left out", "of no image that is read")


def list_text_files(path: Path) -> list[Path]:
    """The files of Flickr30k Entities on which its phrases depend, in order."""
    return [path / name for name in _list_files(path) if name.endswith((".txt", ".xml"))]


def _list_files(path: Path) -> list[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in files if not file.parts[0].startswith("."))


def _find_phrase_columns(path: Path) -> list[str]:
    """The columns of a table of phrases that are read. Raises UserError for one that lacks some."""
    present = read_column_names(path)
    columns = ["image", "caption"]

    for names, content in ((("phrase",), "texts"), (SPAN, "places"), (BOX, "boxes")):
        own = [name for name in names if name in present]
        if own and len(own) < len(names):
            absent = [name for name in names if name not in present]
            raise UserError(
                f"{path} has the columns {', '.join(own)} of its {content}, and no "
                f"{', '.join(absent)}; give all of them"
            )
        columns += own

    if "phrase" not in columns and "start" not in columns:
        raise UserError(
            f"{path} does not say what its phrases are; give it a column 'phrase', or 'start' and "
            "'end', the characters of the caption"
        )

    if "region" in present:
        columns.append("region")
    elif "left" not in columns:
        raise UserError(
            f"{path} does not say what its phrases name; give it the columns {', '.join(BOX)}, or "
            "'region', the ids of stored features"
        )

    return columns


def _parse_phrase_table(path: Path, split: str | None) -> ReadPhrases:
    columns = _find_phrase_columns(path)
    read = ReadPhrases()
    numbers = dict[str, int]()
    images_of_regions = dict[str, str]()
    seen = set[tuple[str, str, PhrasePlace]]()
    repeated = 0

    for place, values in read_rows(path, *columns, split=TablePart.parse(split)):
        row = dict(zip(columns, values, strict=True))
        image = row["image"].strip()
        caption = " ".join(row["caption"].split())
        if not image or not caption:
            lacking = "caption" if image else "file name of an image"
            raise UserError(f"{place}: no {lacking}; correct the line or remove it")

        start, end = _find_span(place, row, caption)
        box = _parse_box(place, row)
        region = _name_region(place, row, box)
        if "region" in row and images_of_regions.setdefault(region, image) != image:
            raise UserError(
                f"{place}: the region {region} is of the images {images_of_regions[region]} and "
                f"{image}; give each region an id of its own"
            )

        number = numbers.setdefault(image, len(numbers))
        if number == len(read.ids):
            read.ids.append(image)
            read.texts.append([])
            read.phrases.append([])
            read.regions.append({})
        if read.regions[number].setdefault(region, box) != box:
            raise UserError(f"{place}: the region {region} has two boxes; give it one in all lines")

        texts = read.texts[number]
        if caption not in texts:
            texts.append(caption)
        phrase = PhrasePlace(texts.index(caption), start, end, region)
        if (image, caption, phrase) in seen:
            repeated += 1
            continue
        seen.add((image, caption, phrase))
        read.phrases[number].append(phrase)

    read.accounts += account_for_number("rows", repeated, "given before")
    return read


def _find_span(place: str, row: Mapping[str, str], caption: str) -> tuple[int, int]:
    """The characters of a row's phrase in its caption. Raises UserError."""
    phrase = " ".join(row["phrase"].split()) if "phrase" in row else None
    if "start" not in row:
        assert phrase is not None
        return _find_phrase(place, phrase, caption)

    if caption != row["caption"]:
        raise UserError(
            f"{place}: the caption has blanks at its ends or several in a row, so 'start' and 'end' "
            "are in doubt; write one blank between words, and count again"
        )
    start, end = (_parse_whole_number(place, name, row[name]) for name in SPAN)
    if not 0 <= start < end <= len(caption):
        raise UserError(
            f"{place}: the characters {start} to {end} are none of its caption, which has "
            f"{len(caption)}; correct the line"
        )

    named = caption[start:end]
    if not named.strip() or phrase not in (None, named):
        expected = "" if phrase is None else f", not '{phrase}'"
        raise UserError(
            f"{place}: the characters {start} to {end} of its caption are '{named}'{expected}; correct "
            "the line"
        )
    return start, end


def _find_phrase(place: str, phrase: str, caption: str) -> tuple[int, int]:
    if not phrase:
        raise UserError(f"{place}: no phrase; correct the line or remove it")

    matches = [*re.finditer(rf"(?<!\w){re.escape(phrase)}(?!\w)", caption)]
    if len(matches) == 1:
        return matches[0].span()

    times = f"stands {len(matches)} times" if matches else "does not stand"
    raise UserError(
        f"{place}: '{phrase}' {times} in its caption '{caption[:60]}'; correct the line, or give the "
        "characters of the phrase in the columns start and end"
    )


def _parse_box(place: str, row: Mapping[str, str]) -> Box | None:
    if "left" not in row:
        return None
    left, top, right, bottom = (_parse_whole_number(place, name, row[name]) for name in BOX)
    return left, top, right, bottom


def _name_region(place: str, row: Mapping[str, str], box: Box | None) -> str:
    """The name of a row's region: its id, or else its box."""
    if "region" not in row:
        return " ".join(map(str, box or ()))
    name = row["region"].strip()
    if not name:
        raise UserError(f"{place}: no region; correct the line or remove it")
    return name


def _parse_whole_number(place: str, name: str, text: str) -> int:
    try:
        number = float(text)
        if number.is_integer():
            return int(number)
    except ValueError:
        pass
    raise UserError(f"{place}: '{name}' is '{text}', no whole number; correct the line")


def _parse_entities(path: Path, split: str | None) -> ReadPhrases:
    """Read Flickr30k Entities: a phrase's region is the box around all boxes of what it names."""
    read = ReadPhrases()
    unboxed = 0

    for name in _list_images_of_part(path, split):
        sentences = path / SENTENCES / f"{name}.txt"
        annotations = path / ANNOTATIONS / f"{name}.xml"
        for file in (sentences, annotations):
            if not file.is_file():
                raise UserError(
                    f"{path} has no {file.relative_to(path)}; unpack all of its annotations.zip"
                )

        boxes = _parse_annotations(annotations)
        texts = []
        phrases = []
        for number, line in enumerate(filter(str.strip, read_lines(sentences))):
            text, named = _parse_sentence(f"{sentences}, sentence {number + 1}", line)
            texts.append(text)
            for start, end, region in named:
                if region in boxes:
                    phrases.append(PhrasePlace(number, start, end, f"{name}#{region}"))
                else:
                    unboxed += 1

        # a region that no phrase names is no region of the corpus
        named_regions = {phrase.region for phrase in phrases}
        regions = dict[str, Box | None]()
        for region, box in boxes.items():
            if f"{name}#{region}" in named_regions:
                regions[f"{name}#{region}"] = box

        read.ids.append(f"{name}.jpg")
        read.texts.append(texts)
        read.phrases.append(phrases)
        read.regions.append(regions)

    read.accounts += account_for_number("phrases", unboxed, "they name nothing that has a box")
    return read


def _list_images_of_part(path: Path, split: str | None) -> list[str]:
    """The images of Flickr30k Entities, or of some of its parts. Raises UserError where the parts
    are there and none is named.
    """
    images = sorted(file.stem for file in (path / SENTENCES).glob("*.txt"))
    if not images:
        raise UserError(f"{path / SENTENCES} has no .txt; unpack all of its annotations.zip")

    lists = [part for part in PARTS if (path / f"{part}.txt").is_file()]
    if split is None:
        if len(lists) > 1:
            raise UserError(
                f"{path} has the parts {', '.join(lists)}, and no key says which are read; write "
                f"split = '{lists[0]}' in the profile, several parts as '{'+'.join(lists[:2])}'"
            )
        return images

    images = []
    for part in split.split("+"):
        file = path / f"{part}.txt"
        if part not in lists:
            listed = first_of([f"{name}.txt" for name in lists], 3)
            raise UserError(
                f"{path} has no list {file.name} of the split '{part}'; it has {listed or 'none'}"
            )
        images += [line.strip() for line in read_lines(file) if line.strip()]

    repeated = [name for name, count in Counter(images).items() if count > 1]
    if repeated:
        raise UserError(f"{path}: the image {repeated[0]} is twice in {split}; correct its lists")
    return images


def _parse_sentence(place: str, line: str) -> tuple[str, list[tuple[int, int, str]]]:
    """A sentence without marks, and the characters and the id of each phrase that names something
    visible. Raises UserError.
    """
    words = list[str]()
    named = []

    for text, region in _split_sentence(line):
        if "[/EN#" in text:
            raise UserError(
                f"{place}: '{text[text.index('[/EN#') :][:60]}' is no phrase; write "
                "[/EN#ID/TYPE PHRASE]"
            )

        before = len(" ".join(words))
        words += text.split()
        if region is not None and region != _NOT_VISUAL:
            start = before + 1 if before else 0
            named.append((start, len(" ".join(words)), region))
    return " ".join(words), named


def _split_sentence(line: str) -> Iterator[tuple[str, str | None]]:
    """The texts of a sentence in order, each with its id if it is a phrase."""
    place = 0
    for match in _PHRASE.finditer(line):
        yield line[place : match.start()], None
        yield match[2], match[1]
        place = match.end()
    yield line[place:], None


def _parse_annotations(path: Path) -> dict[str, Box]:
    """The box around all boxes of each id. Pixels count from 1, the last ones included.

    Raises UserError for a file that cannot be read, and for a box outside of the image.
    """
    try:
        root = ElementTree.parse(path).getroot()
        width = int(_get_text(root, "size/width"))
        height = int(_get_text(root, "size/height"))
        boxes = dict[str, list[Box]]()
        for visible in root.iterfind("object"):
            corners = visible.find("bndbox")
            if corners is None:
                continue
            pixels = [int(_get_text(corners, name)) for name in ("xmin", "ymin", "xmax", "ymax")]
            box = (pixels[0] - 1, pixels[1] - 1, pixels[2], pixels[3])
            check_box(str(path), box, width, height)
            for name in visible.iterfind("name"):
                boxes.setdefault((name.text or "").strip(), []).append(box)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UserError(
            f"{path} is no annotation of Flickr30k Entities: {error}; unpack it again"
        ) from error
    return {name: join_boxes(boxes_of_name) for name, boxes_of_name in boxes.items()}


def _get_text(element: ElementTree.Element, path: str) -> str:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"it has no <{path.rpartition('/')[2]}>")
    return text
