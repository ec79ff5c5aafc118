"""The ImageNet subset of NonLing, from its list of images."""

from __future__ import annotations

from pathlib import Path

from harness.catalogue.recipes.base import Got, Take, only, raw_lines
from harness.catalogue.schema import Entry
from harness.errors import UserError


def imagenet_list(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Take the listed images, CLASS/NAME.JPEG at each line's end, from ImageNet's training folder. Raises UserError."""
    listing, images = only(entry, got, entry.origins[0].file), only(entry, got, entry.origins[1].file)
    names = ["/".join(line.strip().split("/")[-2:]) for line in raw_lines(listing) if line.strip()]
    if any(name.count("/") != 1 or ".." in name for name in names) or len(set(names)) != len(names):
        raise UserError(f"{listing} is not one CLASS/NAME.JPEG a line, each once; get it again")
    absent = [name for name in names if not (images / name).is_file()]
    if absent:
        raise UserError(
            f"{len(absent)} of {len(names)} listed images are missing in {images}, first {absent[0]}; give ImageNet's "
            "training folder, a folder a class"
        )
    for name in names:
        take(images / name, out / entry.outputs[0].path / name)
