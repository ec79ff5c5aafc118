"""The index of a results folder: the data that tables need from every result, in one file.

RESULTS/.cache/index-SCHEMA.VERSION.bin

The file has the length of its header (8 bytes), the header (JSON: rows of each table, texts), the columns as in memory,
and the CRC-32 of all that (4 bytes).

The index is a cache. A result file is read again when its size or time differ from the index's, and for a while after
it was written, since a second change within one tick of the file system's clock would go unnoticed. A damaged index is
rebuilt; a folder that cannot be written has none. Concurrent writers are safe: each replaces the
whole file, and the last one wins.
"""

from __future__ import annotations

import json
import mmap
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from harness.errors import UserError
from harness.files import ABANDONED_S, open_regular, remove_leftovers, replaced
from harness.store.columns import TYPES, ColumnArray, Columns, Tables, TablesWriter
from harness.store.indexed import ReadResult
from harness.store.schema import SCHEMA_VERSION, Result

#: Increased when the columns change; each schema of results has indexes of its own.
INDEX_VERSION: Final = 2
#: Folders with fewer files than this have no index: reading the files takes a few hundredths of a second.
WORTH_FILES: Final = 200
#: Age in ns from which a file's time is trusted when it is read; file systems keep times to two seconds or better.
_SETTLED_NS: Final = 2_500_000_000
#: the time of a file that is to be read again
_UNSETTLED: Final = -1


class Listed(NamedTuple):
    """A result file: its path below the folder of results, its size in bytes and its time in ns."""

    path: str
    size: int
    mtime: int


def listing(root: Path) -> list[Listed]:
    """All result files of a folder, sorted, without work, locks and failures."""
    paths = glob("*/*/*/*/seed-*.json", root_dir=root)  # noqa: PTH207 - a path object for each of many files takes long
    return [_listed(root, path) for path in sorted(paths, key=lambda path: path.split("/"))]


def _listed(root: Path, path: str) -> Listed:
    """The entry of a file; if it is not a readable regular file, it is always tried again."""
    try:
        status = (root / path).lstat()
    except OSError:
        return Listed(path, 0, _UNSETTLED)
    return Listed(path, status.st_size, status.st_mtime_ns if stat.S_ISREG(status.st_mode) else _UNSETTLED)


def refreshed(root: Path, read: ReadResult) -> Tables:
    """The tables of all result files, in the order of `listing`; only new and changed files are read."""
    files, known = listing(root), _load(root)
    rows = {path: row for row, path in enumerate(known.of_runs("path"))}
    sizes, times = known.runs["size"].tolist(), known.runs["mtime"].tolist()
    now = time.time_ns()
    writer, fresh = TablesWriter(), dict[str, int]()
    for file in files:
        row = rows.get(file.path)
        if row is None or file.mtime == _UNSETTLED or (sizes[row], times[row]) != file[1:]:
            fresh[file.path] = len(rows) + len(fresh)
            settled = file.mtime < now - _SETTLED_NS
            writer.add(file.path, file.size, file.mtime if settled else _UNSETTLED, _found(root / file.path, read))
    if not fresh and len(files) == len(rows):
        return known
    order = np.array([fresh.get(file.path, rows.get(file.path, -1)) for file in files], dtype=np.int64)
    tables = known.with_more(writer.tables()).take(order)
    if len(files) < len(rows) + len(fresh):
        tables = tables.compact()
    if len(files) >= WORTH_FILES:
        _save(root, tables)
    return tables


def forget_index(root: Path) -> None:
    """Make the next reader read all files."""
    with suppress(OSError):
        _file(root).unlink(missing_ok=True)


def _found(path: Path, read: ReadResult) -> Result | str:
    try:
        return read(path)
    except UserError as error:
        return str(error)


def _file(root: Path) -> Path:
    return root / ".cache" / f"index-{SCHEMA_VERSION}.{INDEX_VERSION}.bin"


def _load(root: Path) -> Tables:
    """The stored tables; empty ones where there are none or they are damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return read_tables(_file(root))
    return TablesWriter().tables()


def _save(root: Path, tables: Tables) -> None:
    with suppress(OSError):  # a read-only folder or a full disk: the next reader reads the files again
        remove_leftovers(_file(root).parent, ".index-*.tmp", ABANDONED_S)
        write_tables(_file(root), tables)


def write_tables(path: Path, tables: Tables) -> None:
    """Write tables; the file never exists half-written. Raises OSError."""
    rows = [len(next(iter(columns.values()))) for columns in tables.columns]
    header = json.dumps({"rows": rows, "texts": list(tables.texts)}).encode()
    checksum = 0
    with replaced(path) as stream:
        numbers: Iterator[Any] = (
            np.ascontiguousarray(columns[name])
            for types, columns in zip(TYPES.values(), tables.columns, strict=True)
            for name in types
        )
        for piece in chain([len(header).to_bytes(8, "little"), header], numbers):
            checksum = zlib.crc32(piece, checksum)
            stream.write(piece)
        stream.write(checksum.to_bytes(4, "little"))


def read_tables(path: Path) -> Tables:
    """Memory-map a file of `write_tables`. Raises OSError, and ValueError or KeyError for any other file."""
    with open_regular(path) as stream:
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    checked = memoryview(content)[:-4]
    if zlib.crc32(checked).to_bytes(4, "little") != content[-4:]:
        raise ValueError(f"{path} is damaged")
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return Tables.made(header["texts"], list(_columns(content, start, header["rows"])))


def _columns(content: mmap.mmap, start: int, rows: list[int]) -> Iterator[Columns]:
    for types, count in zip(TYPES.values(), rows, strict=True):
        columns: dict[str, ColumnArray] = {}
        for name, number in types.items():
            columns[name] = np.frombuffer(content, number, count, start)
            start += columns[name].nbytes
        yield columns
