"""Tables of the index as a file: a header with column names, the numbers as in memory, a checksum.

length of the header (8 bytes), header (JSON: rows of each table, texts), columns, CRC-32 of all that (4 bytes)
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from harness.files import open_regular, replaced
from harness.store.columns import TYPES, ColumnArray, Columns, Tables

#: kinds of the tables in the file, parts last
_KINDS = ("runs", "evaluations", "scores", "scores")
#: bytes that are checked at a time
_PIECE = 2**22


def write_tables(path: Path, tables: Tables) -> None:
    """Write tables; the file never exists half-written. Raises OSError."""
    parts = [columns for _, columns in tables.named()]
    rows = [len(next(iter(columns.values()))) for columns in parts]
    header = json.dumps({"rows": rows, "texts": list(tables.texts)}).encode()
    checksum = 0
    with replaced(path) as stream:
        numbers: Iterator[Any] = (
            np.ascontiguousarray(columns[name])
            for kind, columns in zip(_KINDS, parts, strict=True)
            for name in TYPES[kind]
        )
        for piece in chain([len(header).to_bytes(8, "little"), header], numbers):
            checksum = zlib.crc32(piece, checksum)
            stream.write(piece)
        stream.write(checksum.to_bytes(4, "little"))


def read_tables(path: Path) -> Tables:
    """Read a file of `write_tables`; its numbers stay in it. Raises OSError, and ValueError or KeyError for others."""
    with open_regular(path) as stream:
        if not _is_whole(stream):
            raise ValueError(f"{path} is damaged")
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return Tables.made(header["texts"], list(_columns(content, start, header["rows"])))


def _columns(content: mmap.mmap, start: int, rows: list[int]) -> Iterator[Columns]:
    for kind, count in zip(_KINDS, rows, strict=True):
        found: dict[str, ColumnArray] = {}
        for name, number in TYPES[kind].items():
            found[name] = np.frombuffer(content, number, count, start)
            start += found[name].nbytes
        yield found


def _is_whole(stream: BinaryIO) -> bool:
    """Whether the end of a file is the checksum of what precedes it."""
    left = stream.seek(0, 2) - 4
    stream.seek(0)
    checksum = 0
    while left > 0 and (piece := stream.read(min(left, _PIECE))):
        checksum = zlib.crc32(piece, checksum)
        left -= len(piece)
    return left == 0 and stream.read(4) == checksum.to_bytes(4, "little")
