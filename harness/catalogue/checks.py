"""Checking downloads and outputs by size, checksum and number of rows."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from harness.catalogue.places import books
from harness.catalogue.schema import Entry, Origin, Output
from harness.errors import UserError

BLOCK = 1 << 20


def hash_of(path: Path, kind: str = "sha256") -> str:
    """SHA-256 or MD5 (hex) of a file's bytes, never cached."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def check_download(root: Path, name: str, origin: Origin, path: Path, checksum: str | None) -> None:
    """Check size and checksum of a download; a wrong file is moved aside. Raises UserError naming the new place."""
    wrong = difference(origin, path, checksum)
    if wrong is None:
        return
    aside = books(root) / "rejected" / f"{name}-{origin.name}-{hash_of(path)[:12]}"
    aside.parent.mkdir(parents=True, exist_ok=True)
    path.replace(aside)
    raise UserError(
        f"{name}: {origin.name} from {origin.where} is not the file of the catalogue: {wrong}; it was moved to "
        f"{aside}; fetch again, and if the error repeats, the source has changed"
    )


def difference(origin: Origin, path: Path, checksum: str | None) -> str | None:
    """How a file differs from the catalogue, or None if no known value differs."""
    size = path.stat().st_size
    if origin.bytes is not None and size != origin.bytes:
        return f"{size} bytes, expected {origin.bytes}"
    if checksum is None:
        return None
    kind, _, expected = checksum.partition(":")
    found = hash_of(path, kind)
    return None if found == expected else f"{kind} {found}, expected {expected}"


def check_output(entry: Entry, output: Output, path: Path) -> None:
    """Check the number of files or rows of an output. Raises UserError."""
    if output.kind == "folder":
        found, expected, what = sum(output.counts(item.name) for item in files_of(path)), output.files, "files"
        if found == 0:
            raise UserError(f"{entry.name}: {output.path} has no file {output.pattern}; check the input")
    else:
        expected, what = output.rows, "rows"
        found = count_rows(path) if expected is not None else 0
    if expected is not None and found != expected:
        raise UserError(f"{entry.name}: {output.path} has {found} {what}, expected {expected}; it is incomplete")


def files_of(path: Path) -> Iterator[Path]:
    """Yield a file itself, or all files of a folder and its sub-folders, sorted by name."""
    if path.is_file():
        yield path
    else:
        yield from sorted(item for item in path.rglob("*") if item.is_file())


def count_rows(path: Path) -> int:
    """Count the rows of a Parquet, HDF5, CSV or tab-separated file, or the lines of a text. Raises UserError."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            return int(parquet.read_metadata(path).num_rows)
        if path.suffix == ".hdf5":
            import h5py

            with h5py.File(path) as file:
                return int(file["features"].shape[0])
        with _opened(path) as stream:
            return _count_text(stream, path.name.removesuffix(".gz"))
    except (OSError, EOFError, zlib.error, KeyError, ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be counted: {' '.join(str(error).split())}; it is incomplete") from error


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _count_text(stream: IO[bytes], name: str) -> int:
    if name.endswith(".csv"):
        with io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
            return sum(1 for _ in csv.reader(text)) - 1
    lines, last = 0, b"\n"
    while block := stream.read(BLOCK):
        lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n") - name.endswith(".tsv")
