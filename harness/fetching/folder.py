"""The data folder: locks, free disk space, manifests of fetched entries; checks by size, checksum
and rows.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.arrays import check_features
from harness.caches import explain_write_errors
from harness.columnar import check_columns
from harness.datafiles import detect_container, read_lines
from harness.datarows import detect_columns, read_rows
from harness.errors import UserError
from harness.fetching.entries import Entry, Origin, Output
from harness.files import hash_text, write_text
from harness.locks import hold_lock

#: shows a message to the user
Say = Callable[[str], None]


def books(root: Path) -> Path:
    """The folder of manifests, locks, unfinished downloads and rejected files."""
    return root / ".catalogue"


def manifest_path(root: Path, name: str) -> Path:
    """The manifest of an entry."""
    return books(root) / f"{name}.sha256"


@contextmanager
def hold_entry(root: Path, name: str, say: Say) -> Iterator[None]:
    """Hold the lock of an entry, waiting for other processes.

    Converts errors of full disks and read-only or forbidden folders into a UserError of one line.
    """
    advice = "free some space or set another --data-root, and run the command again; incomplete files are ignored"
    with explain_write_errors(root, advice):
        books(root).mkdir(parents=True, exist_ok=True)
        with hold_lock(books(root) / f"{name}.lock", name, say):
            yield


def check_room(root: Path, name: str, needed: int | None) -> None:
    """Check the free disk space. Raises UserError."""
    free = shutil.disk_usage(root).free
    if needed is not None and free < needed:
        raise UserError(
            f"{name} needs about {format_size(needed)}, {root} has only {format_size(free)} free; free some space "
            "or set another --data-root"
        )


def format_size(size: int | None) -> str:
    """A size with its unit: 1.5 GB."""
    if size is None:
        return "unknown"
    for power, unit in enumerate(("B", "kB", "MB")):
        if size < 1000 ** (power + 1):
            return f"{size / 1000**power:.0f} {unit}"
    return f"{size / 1000**3:.1f} GB"


BLOCK = 1 << 20
_DIGEST = re.compile(r"# ([0-9a-f]{64})")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True)
class State:
    """Which outputs of an entry exist: all (with or without manifest), some or none; `note`: it has
    no outputs.
    """

    word: Literal["present", "unchecked", "part", "absent", "note"]
    absent: tuple[str, ...] = ()


def find_state(root: Path | None, entry: Entry) -> State:
    """Check which outputs exist, without hashing."""
    if not entry.outputs:
        return State("note")

    paths = [output.path for output in entry.outputs]
    if root is None:
        return State("absent", tuple(paths))

    absent = tuple(path for path in paths if not (root / path).exists())
    if len(absent) == len(paths):
        return State("absent", absent)
    if absent:
        return State("part", absent)

    has_manifest = manifest_path(root, entry.name).is_file()
    return State("present" if has_manifest else "unchecked")


def verify(root: Path, entry: Entry) -> list[str]:
    """Compare the files of an entry with its manifest, or else with the counts and checksums of the
    catalogue.

    Returns one line per difference.
    """
    absent = find_state(root, entry).absent
    manifest = manifest_path(root, entry.name)
    hashes = read_manifest(manifest) if manifest.is_file() else _list_known_hashes(entry)
    missing_files = [name for name in hashes if not (root / name).is_file()]
    missing = dict.fromkeys([*absent, *missing_files])

    differences = [f"{name} is missing" for name in missing]
    for name, expected in hashes.items():
        if name in missing:
            continue
        actual = hash_of(root / name)
        if actual != expected:
            differences.append(f"{name} has SHA-256 {actual[:12]}..., expected {expected[:12]}...")

    for output in entry.outputs:
        if output.path in absent:
            continue
        try:
            check_output(entry, output, root / output.path)
        except UserError as error:
            differences.append(str(error).removeprefix(f"{entry.name}: "))

    return differences


def _list_known_hashes(entry: Entry) -> dict[str, str]:
    """Hashes of the outputs that are unchanged downloads with a SHA-256 in the catalogue."""
    if entry.recipe != "place":
        return {}

    checksums = {origin.name: origin.checksum or "" for origin in entry.origins}
    hashes = {}
    for output in entry.outputs:
        kind, _, value = checksums.get(str(output.origin), "").partition(":")
        if output.kind == "file" and kind == "sha256":
            hashes[output.path] = value
    return hashes


def write_manifest(path: Path, folder: Path, entry: Entry) -> None:
    """Write the SHA-256 of every output file below a folder in the format of sha256sum.

    Two comments come first: the SHA-256 of the rest, and a description of the files.
    """
    sources = ", ".join(dict.fromkeys(origin.where for origin in entry.origins))
    lines = [f"# {entry.name}: {entry.title}; from {sources}\n"]
    for output in entry.outputs:
        files = list_files(folder / output.path)
        lines += [f"{hash_of(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    text = "".join(lines)
    write_text(path, f"# {hash_text(text)}\n{text}")


def read_manifest(path: Path) -> dict[str, str]:
    """Return hashes by path. Raises UserError for a file that was changed later, and for a
    malformed line.
    """
    sums = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    first, _, rest = text.partition("\n")
    stated = _DIGEST.fullmatch(first)  # manifests of an earlier version have no such comment
    if stated and stated[1] != hash_text(rest):
        raise UserError(
            f"{path} was changed or damaged after it was written; remove it and fetch or import again"
        )

    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UserError(
                f"{path}, line {number} is not a line of sha256sum; remove the file and fetch or import again"
            )
        sums[match[2]] = match[1]

    return sums


def hash_of(path: Path, kind: str = "sha256") -> str:
    """SHA-256 or MD5 (hex) of a file's bytes, never cached."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def check_download(
    root: Path, entry: Entry, origin: Origin, path: Path, checksum: str | None
) -> None:
    """Check size and checksum of a download; a wrong file is moved aside. Raises UserError naming
    the new place.
    """
    difference = find_difference(origin, path, checksum)
    if difference is None:
        return

    target = books(root) / "rejected" / f"{entry.name}-{origin.name}-{hash_of(path)[:12]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)
    raise UserError(
        f"{entry.name}: {origin.name} from {origin.where} is not the file of the catalogue: {difference}; it was moved "
        f"to {target}; fetch again, and if the error repeats, the source has changed"
    )


def find_difference(origin: Origin, path: Path, checksum: str | None) -> str | None:
    """How a file differs from the catalogue, or None if no known value differs."""
    size = path.stat().st_size
    if origin.bytes is not None and size != origin.bytes:
        return f"{size} bytes, expected {origin.bytes}"
    if checksum is None:
        return None

    kind, _, expected = checksum.partition(":")
    actual = hash_of(path, kind)
    if actual == expected:
        return None
    return f"{kind} {actual}, expected {expected}"


def check_output(entry: Entry, output: Output, path: Path) -> None:
    """Check the number of files or rows of an output. Raises UserError."""
    if output.kind == "folder":
        unit = "files"
        expected = output.files
        actual = len([file for file in list_files(path) if output.counts(file.name)])
        if actual == 0:
            raise UserError(
                f"{entry.name}: {output.path} has no file {output.pattern}; check the input"
            )
    else:
        unit = "rows"
        expected = output.rows
        actual = 0 if expected is None else count_rows(path)

    if expected is not None and actual != expected:
        raise UserError(
            f"{entry.name}: {output.path} has {actual} {unit}, expected {expected}; it is incomplete"
        )


def list_files(path: Path) -> list[Path]:
    """A file itself, or all files of a folder and its sub-folders, sorted by name."""
    if path.is_file():
        return [path]
    return sorted(item for item in path.rglob("*") if item.is_file())


def count_rows(path: Path) -> int:
    """Count the rows of a table or an HDF5 file, or the lines of a text. Raises UserError."""
    kind = detect_container(path)
    if kind == "hdf5":
        return check_features(path, "image")[1]
    if kind == "parquet":
        return check_columns(path)

    columns = detect_columns(path)
    rows: Iterable[object] = read_rows(path, columns[0]) if columns else read_lines(path)
    return sum(1 for _ in rows)
