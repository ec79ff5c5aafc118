"""Tables of captions: the file name of an image and one of its captions on each line, with a header or without.

The columns are found in the header by their names. Two columns without a header are the image and the caption, as in
the files that Flickr8k and Flickr30k are published with, whose images are numbered (`10815824.jpg#0`). Lines of one
image need not follow each other; images are in the order of their first lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from harness.errors import UserError
from harness.textfiles import TableRow, cells_of, is_jsonl, read_rows

#: names of the columns
IMAGE, CAPTION = "image", "caption"
#: names of image files, by which a first line is told from a header
_IMAGE_FILE = re.compile(r".*\.(jpe?g|png|gif|bmp|webp|tiff?)(#\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"(?<=.)#\d+$")


def captions_by_image(path: Path, image: str = IMAGE, caption: str = CAPTION) -> dict[str, list[str]]:
    """The captions of each image, by its file name. Raises UserError naming the line."""
    found: dict[str, list[str]] = {}
    for line, (name, text) in _rows(path, image, caption):
        name, text = _NUMBER.sub("", name.strip()), " ".join(text.split())
        if not name or not text:
            what = "caption" if name else "file name of an image"
            raise UserError(f"{path}, line {line}: no {what}; correct the line or remove it")
        found.setdefault(name, []).append(text)
    if not found:
        raise UserError(f"{path} has no captions; give a table with rows")
    return found


def _rows(path: Path, image: str, caption: str) -> Iterator[TableRow]:
    if is_jsonl(path):
        return read_rows(path, image, caption)
    rows = cells_of(path)
    line, first = next(rows, (1, []))
    if {image, caption} <= {*first} or (image, caption) != (IMAGE, CAPTION):
        return read_rows(path, image, caption)
    if len(first) != 2 or not _IMAGE_FILE.fullmatch(first[0].strip()):
        raise UserError(
            f"{path}, line {line}: neither a header with the columns '{image}' and '{caption}' nor an image's file "
            "name and its caption; name the columns in the profile: image = '...', caption = '...'"
        )
    return _without_header(path, chain([(line, first)], rows))


def _without_header(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Iterator[TableRow]:
    for line, cells in rows:
        if len(cells) != 2:
            raise UserError(f"{path}, line {line}: {len(cells)} fields, the lines above have 2; correct the line")
        yield TableRow(line, (cells[0], cells[1]))
