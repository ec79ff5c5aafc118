"""The split of Flickr30k Entities (Plummer et al., 2015), from its three lists of image numbers."""

from __future__ import annotations

from pathlib import Path

from harness.catalogue.entries import Entry
from harness.catalogue.recipes.base import Got, Take, only, raw_lines, write_table
from harness.errors import UserError


def entities(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write a table of image_id and split in the order of the numbers. Raises UserError."""
    split_of: dict[int, str] = {}
    for split, file in entry.options["lists"].items():
        path = only(entry, got, file)
        for line in filter(None, map(str.strip, raw_lines(path))):
            if not line.isdecimal() or int(line) in split_of:
                raise UserError(f"{path} is no list of images in one split each: '{line}'; get it again")
            split_of[int(line)] = split
    rows = ([f"{number}.jpg", split] for number, split in sorted(split_of.items()))
    write_table(out / entry.outputs[0].path, ("image_id", "split"), rows)
