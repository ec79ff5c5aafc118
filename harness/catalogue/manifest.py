"""What the catalogue knows of the files that it put below the data root: their hashes, kept as sha256sum does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.catalogue.checks import check_output, files_of, hash_of
from harness.catalogue.places import manifest_path
from harness.catalogue.schema import Entry
from harness.errors import UserError
from harness.sources import write_text

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True)
class State:
    """Whether an entry's outputs are there: present (with a manifest), unchecked (without one), part or absent."""

    word: str
    absent: tuple[str, ...] = ()


def state(root: Path | None, entry: Entry) -> State:
    """Look which outputs are there; nothing is hashed."""
    absent = tuple(out.path for out in entry.outputs if root is None or not (root / out.path).exists())
    if not entry.outputs:
        return State("note")
    if len(absent) == len(entry.outputs):
        return State("absent", absent)
    if absent:
        return State("part", absent)
    return State("present" if root is not None and manifest_path(root, entry.name).is_file() else "unchecked")


def hashes(place: Path, entry: Entry) -> dict[str, str]:
    """SHA-256 of every file of an entry's outputs below a folder, by path."""
    found = {}
    for output in entry.outputs:
        for file in files_of(place / output.path):
            found[file.relative_to(place).as_posix()] = hash_of(file)
    return found


def write_manifest(path: Path, found: dict[str, str], title: str) -> None:
    """Write hashes in sha256sum's format, whole or not at all; `title` is a comment line."""
    write_text(path, "".join([f"# {title}\n", *(f"{value}  {name}\n" for name, value in found.items())]))


def read_manifest(path: Path) -> dict[str, str]:
    """Hashes by path. Raises UserError for a line that is none."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UserError(f"{path}, line {number} is no line of sha256sum; remove the file and fetch or import again")
        found[match[2]] = match[1]
    return found


def verify(root: Path, entry: Entry) -> list[str]:
    """Compare an entry's files with its manifest, or without one with the catalogue's counts and checksums.

    Gives one line a difference; none means that all is as it was. Raises nothing for differences.
    """
    absent = state(root, entry).absent
    wrong = [f"{path} is not there" for path in absent]
    path = manifest_path(root, entry.name)
    known = read_manifest(path) if path.is_file() else _known(entry)
    for name, expected in known.items():
        place = root / name
        if place.is_file():
            found = hash_of(place)
            if found != expected:
                wrong.append(f"{name} has SHA-256 {found[:12]}..., expected {expected[:12]}...")
        elif name not in absent:
            wrong.append(f"{name} is not there")
    for output in entry.outputs:
        if output.path not in absent:
            try:
                check_output(entry, output, root / output.path)
            except UserError as error:
                wrong.append(str(error).removeprefix(f"{entry.name}: "))
    return wrong


def _known(entry: Entry) -> dict[str, str]:
    """Hashes that the catalogue itself has of outputs: those of files that are put in place as they are."""
    sums = {origin.name: origin.checksum or "" for origin in entry.origins}
    placed = [out for out in entry.outputs if entry.recipe == "place" and out.kind == "file"]
    found = {out.path: sums.get(str(out.origin), "") for out in placed}
    return {path: value.removeprefix("sha256:") for path, value in found.items() if value.startswith("sha256:")}
