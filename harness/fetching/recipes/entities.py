"""The captions and the split of Flickr30k Entities (Plummer et al., 2015)."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, only, raw_lines, text_lines, write_table

CAPTIONS = 5
#: a phrase in a caption, [/EN#CHAIN/TYPE... WORDS]
_PHRASE = re.compile(r"\[/EN#\S+\s+(.*?)\](?=\s|$)")
_SENTENCES = re.compile(r"(?:^|/)Sentences/(\d+)\.txt$")


def entities(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of all captions as published, with images in the order of the lists. Raises UserError."""
    split_of: dict[str, str] = {}
    for split, file in entry.options["lists"].items():
        path = only(entry, got, file)
        for line in filter(None, map(str.strip, raw_lines(path))):
            if not line.isdecimal() or line in split_of:
                raise UserError(f"{path} is not a list of images in one split each: '{line}'; download it again")
            split_of[line] = split
    archive = only(entry, got, entry.options["annotations"])
    texts = _sentences(archive)
    for number in split_of:
        if len(texts.get(number, ())) != CAPTIONS:
            found = len(texts.get(number, ()))
            raise UserError(f"{archive}: the image {number} has {found} captions, not {CAPTIONS}; download it again")
    rows = (
        [split, f"{number}.jpg", str(place), text]
        for number, split in split_of.items()
        for place, text in enumerate(texts[number], start=1)
    )
    write_table(out / entry.outputs[0].path, ("split", "image_id", "caption_no", "caption"), rows)


def plain_caption(annotated: str) -> str:
    """A caption without the marks of its phrases, words separated by single blanks."""
    return " ".join(_PHRASE.sub(r"\1", annotated).split())


def _sentences(archive: Path) -> dict[str, list[str]]:
    """The captions of each image by its number. Raises UserError."""
    found: dict[str, list[str]] = {}
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                image = _SENTENCES.search(name)
                if image and not name.startswith("__MACOSX/"):
                    lines = text_lines(packed.read(name))
                    found[image[1]] = [text for line in lines if (text := plain_caption(line))]
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UserError(f"{archive} is not an archive of annotations: {error}; download it again") from error
    return found
