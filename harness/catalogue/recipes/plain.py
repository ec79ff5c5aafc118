"""Files used without changes, and archives that are only unpacked."""

from __future__ import annotations

from pathlib import Path

from harness.catalogue.extract import remove, unpack
from harness.catalogue.recipes.base import Got, Take
from harness.catalogue.schema import Entry
from harness.errors import UserError


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
            temporary = out / ".unpacked"
            unpack(found, temporary)
            inside = temporary / entry.options["inside"][output.origin]
            if not inside.is_dir():
                raise UserError(f"{entry.name}: {found} holds no folder {inside.name}; get it from its publisher")
            (out / output.path).parent.mkdir(parents=True, exist_ok=True)
            inside.replace(out / output.path)
            remove(temporary)
