"""Files used without changes, archives that are only unpacked, and the ImageNet subset of NonLing."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, content_of, only, raw_lines


def place(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Put each origin at the path of its output."""
    for output in entry.outputs:
        for found in got.get(str(output.origin), ()):
            take(found, out / output.path)


def unpacked(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Unpack the archive of each output; `options.inside` names the folder in it that is the output.

    In an import, a folder is accepted instead of an archive. Raises UserError.
    """
    for output in entry.outputs:
        for found in got.get(str(output.origin), ()):
            if found.is_dir():
                take(found, out / output.path)
                continue
            with content_of(found, out) as content:
                inside = content / entry.options["inside"][output.origin]
                if not inside.is_dir():
                    raise UserError(
                        f"{entry.name}: {found} contains no folder {inside.name}; download it again from its publisher"
                    )
                (out / output.path).parent.mkdir(parents=True, exist_ok=True)
                inside.replace(out / output.path)


def imagenet_list(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Take the listed images, CLASS/NAME.JPEG at each line's end, from ImageNet's training folder. Raises UserError."""
    listing, images = (only(entry, got, origin.file) for origin in entry.origins)
    names = ["/".join(line.strip().split("/")[-2:]) for line in raw_lines(listing) if line.strip()]
    if any(name.count("/") != 1 or ".." in name for name in names) or len(set(names)) != len(names):
        raise UserError(f"{listing} is not a list of distinct CLASS/NAME.JPEG, one per line; download it again")
    absent = [name for name in names if not (images / name).is_file()]
    if absent:
        raise UserError(
            f"{len(absent)} of {len(names)} listed images are missing in {images}, first {absent[0]}; give ImageNet's "
            "training folder, with one folder per class"
        )
    for name in names:
        take(images / name, out / entry.outputs[0].path / name)
