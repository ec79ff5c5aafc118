"""Manifests of fetched entries: SHA-256 of each file in the format of sha256sum."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.catalogue.checks import check_output, files_of, hash_of
from harness.catalogue.places import manifest_path
from harness.catalogue.schema import Entry
from harness.errors import UserError
from harness.sources import write_text

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True)
class State:
    """Whether the outputs of an entry exist: all (with or without a manifest), some or none; `note` has no outputs."""

    word: Literal["present", "unchecked", "part", "absent", "note"]
    absent: tuple[str, ...] = ()


def state(root: Path | None, entry: Entry) -> State:
    """Check which outputs exist, without hashing."""
    absent = tuple(out.path for out in entry.outputs if root is None or not (root / out.path).exists())
    if not entry.outputs:
        return State("note")
    if len(absent) == len(entry.outputs):
        return State("absent", absent)
    if absent:
        return State("part", absent)
    return State("present" if root is not None and manifest_path(root, entry.name).is_file() else "unchecked")


def hashes(place: Path, entry: Entry) -> dict[str, str]:
    """SHA-256 of every output file below a folder, by path."""
    found = {}
    for output in entry.outputs:
        for file in files_of(place / output.path):
            found[file.relative_to(place).as_posix()] = hash_of(file)
    return found


def write_manifest(path: Path, found: dict[str, str], title: str) -> None:
    """Write hashes in the format of sha256sum, with `title` as a comment line."""
    write_text(path, "".join([f"# {title}\n", *(f"{value}  {name}\n" for name, value in found.items())]))


def read_manifest(path: Path) -> dict[str, str]:
    """Hashes by path. Raises UserError for a malformed line."""
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
    """Compare the files of an entry with its manifest, or else with the counts and checksums of the catalogue.

    Returns one line per difference.
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
    """Hashes of the outputs that are unchanged downloads with a checksum in the catalogue."""
    sums = {origin.name: origin.checksum or "" for origin in entry.origins}
    placed = [out for out in entry.outputs if entry.recipe == "place" and out.kind == "file"]
    found = {out.path: sums.get(str(out.origin), "") for out in placed}
    return {path: value.removeprefix("sha256:") for path, value in found.items() if value.startswith("sha256:")}
