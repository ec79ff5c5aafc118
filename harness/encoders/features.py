"""Computed arrays on disk: once per key, resumable, and read row by row.

Features have one shape: their rows are appended to `NAME.part`, and `NAME.progress.json` has the number of rows flushed
to disk and the hash of the file up to there. The finished file is `NAME.npy`, with the hash of its bytes in
`NAME.sha256`; it is mapped into memory.

Ragged arrays have rows of different lengths: those of a chunk are concatenated in `NUMBER.bin`; `NUMBER.json`, written
after it, has their lengths and the hash of the bytes. Only the lengths are in memory.
"""

from __future__ import annotations

import copy
import hashlib
import io
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.caches import in_cache
from harness.errors import UserError
from harness.files import (
    DamagedError,
    check_file,
    flush,
    kept_files,
    put_aside,
    read_note,
    replaced,
    write_note,
    write_text,
)
from harness.locks import locked
from harness.processors import own_cores
from harness.sources import digest

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

#: (start, stop) -> features of these rows, (stop - start, ...)
ComputeRows = Callable[[int, int], np.ndarray]
#: called with (rows done, rows in total): first with the rows of an earlier process, then after every chunk
RowsDone = Callable[[int, int], None]
_AGAIN = "the features will be computed again"
#: bytes that are hashed at a time
_PIECE = 2**24


def cached_features(
    key: str,
    rows: int,
    compute: ComputeRows,
    *,
    dtype: str = "float32",
    chunk: int = 4096,
    report: RowsDone = lambda done, rows: None,
) -> np.ndarray:
    """Return the `rows` features of `key`, (rows, ...), read-only and memory-mapped; compute them if not cached.

    The key must name everything that the features depend on. An interrupted computation resumes after its last complete
    chunk; one process computes while others with the same key wait; a damaged file is computed again, with a warning.
    `dtype` is float32 or float16. Raises UserError for features that are not finite in that type.
    """
    if rows < 1 or dtype not in ("float32", "float16"):
        raise ValueError(f"features need rows, and float32 or float16, not {rows} rows of {dtype}")

    def found(folder: Path) -> np.ndarray:
        store = _Store(folder / digest(key, rows, dtype), rows, np.dtype(dtype))
        with locked(store.file(".lock"), store.file(".npy")):
            if not store.whole():
                store.fill(compute, chunk, report)
            array: np.ndarray = np.load(store.file(".npy"), mmap_mode="r", allow_pickle=False)
            return array

    return in_cache("features", found)


class Stacked:
    """Rows of several arrays, concatenated; only requested rows are read."""

    dtype = np.dtype(np.float32)

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        shapes = {tuple(part.shape[1:]) for part in parts}
        if len(shapes) != 1:
            raise UserError(
                f"the corpora's features have different shapes: {', '.join(map(str, sorted(shapes))) or 'none'}; "
                "name a teacher with features of one shape for all of them"
            )
        self._read = tuple(_reader(part) for part in parts)
        self._starts = np.cumsum([0, *map(len, parts)])
        self._order: np.ndarray | None = None
        self.shape: tuple[int, ...] = (len(self), *shapes.pop())

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._order is None else len(self._order)

    def in_order(self, order: np.ndarray) -> Stacked:
        """Return the rows in another order, possibly repeated: row i is row `order[i]` of these."""
        other = copy.copy(self)
        other._order = order if self._order is None else self._order[order]
        other.shape = (len(order), *self.shape[1:])
        return other

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by number, (B, ...) float32. Raises IndexError."""
        rows = np.asarray(rows)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows are 0 to {len(self) - 1}")
        places = rows if self._order is None else self._order[rows]
        gathered = np.empty((len(rows), *self.shape[1:]), dtype=np.float32)
        for read, start, stop in zip(self._read, self._starts, self._starts[1:], strict=False):
            mine = (places >= start) & (places < stop)
            gathered[mine] = read(places[mine] - start)
        return gathered


def _reader(part: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that reads rows of an array; rows of a mapped file are read from the file.

    Touching a mapped page can load up to 2 MB around it into resident memory, a read loads only its row.
    """
    if not (isinstance(part, np.memmap) and isinstance(part.base, mmap) and part.flags.c_contiguous):
        return part.__getitem__
    stream = Path(str(part.filename)).open("rb")  # noqa: SIM115 - open as long as the reader
    size, offset, shape, dtype = part.strides[0], part.offset, part.shape[1:], part.dtype

    def read(rows: np.ndarray) -> np.ndarray:
        data = b"".join(os.pread(stream.fileno(), size, offset + row * size) for row in rows.tolist())
        return np.frombuffer(data, dtype).reshape(len(rows), *shape)

    return read


@dataclass(frozen=True)
class _Store:
    """The file of one key, `stem`.npy, written chunk by chunk to a part file that is renamed when complete."""

    stem: Path
    rows: int
    dtype: np.dtype

    def file(self, suffix: str) -> Path:
        return self.stem.with_suffix(suffix)

    def whole(self) -> bool:
        final, note = self.file(".npy"), self.file(".sha256")
        if not (final.is_file() and note.is_file()):
            return False
        try:
            check_file(final, note.read_bytes().decode(errors="replace"))
        except DamagedError as error:
            put_aside(final, error, _AGAIN)
            return False
        return True

    def fill(self, compute: ComputeRows, chunk: int, report: RowsDone) -> None:
        done, tail, state = self._kept()
        report(done, self.rows)
        for start in range(done, self.rows, chunk):
            stop = min(start + chunk, self.rows)
            values = self._checked(compute(start, stop), start, stop)
            if tail is not None and values.shape[1:] != tail:
                raise UserError(
                    f"features have shape {values.shape[1:]}, but shape {tail} before the interruption; "
                    f"delete {self.file('.part')} to compute them all again"
                )
            tail = values.shape[1:]
            self._append(values, start, state)
            write_note(self.file(".progress.json"), {"done": stop, "tail": tail, "sha256": state.hexdigest()})
            report(stop, self.rows)
        write_text(self.file(".sha256"), state.hexdigest())
        self.file(".part").replace(self.file(".npy"))
        self.file(".progress.json").unlink()

    def _kept(self) -> tuple[int, tuple[int, ...] | None, Hash]:
        """Return the rows of an interrupted computation, the shape of a row, and the state of the part file's hash."""
        progress, part = self.file(".progress.json"), self.file(".part")
        noted = read_note(progress, _AGAIN)
        if noted is None or not part.is_file():
            return 0, None, hashlib.sha256()
        done, tail, state = int(noted["done"]), tuple(noted["tail"]), hashlib.sha256()
        with part.open("rb") as stream:
            left = self._place(done, tail)
            while piece := stream.read(min(left, _PIECE)):
                state.update(piece)
                left -= len(piece)
        if state.hexdigest() == noted["sha256"]:
            return done, tail, state
        put_aside(part, "it has changed since it was written", _AGAIN)
        return 0, None, hashlib.sha256()

    def _append(self, values: np.ndarray, start: int, state: Hash) -> None:
        """Write rows after the first `start`, overwriting the rest, flush them to disk, and hash what was written."""
        header = b"" if start else self._header(values.shape[1:])
        data = values.data.cast("B")
        with self.file(".part").open("r+b" if start else "wb") as stream:
            stream.write(header)
            stream.seek(self._place(start, values.shape[1:]))
            stream.truncate()
            stream.write(data)
            stream.flush()
            flush(stream.fileno())
        state.update(header)
        state.update(data)

    def _checked(self, values: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Convert a chunk to the stored type. Raises UserError for values that are not finite."""
        if len(values) != stop - start:
            raise ValueError(f"{len(values)} features computed for the rows {start} to {stop}")
        with np.errstate(over="ignore"):
            cast = np.ascontiguousarray(values, dtype=self.dtype)
        bad = np.flatnonzero(~np.isfinite(cast).reshape(len(cast), -1).all(axis=1)) + start
        if len(bad):
            named = ", ".join(map(str, bad[:5])) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            raise UserError(
                f"the features of the rows {named} are not finite numbers in {self.dtype}; "
                "check the images or captions of these rows"
            )
        return cast

    def _header(self, tail: tuple[int, ...]) -> bytes:
        stream = io.BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(stream, {**described, "shape": (self.rows, *tail)})
        return stream.getvalue()

    def _place(self, row: int, tail: tuple[int, ...]) -> int:
        return len(self._header(tail)) + row * math.prod(tail) * self.dtype.itemsize


#: row number -> the row, (length, width)
ComputeRow = Callable[[int], np.ndarray]
#: of ragged arrays: version of the layout, rows in a file, and the type in files
VERSION = 2
CHUNK = 512
DTYPE = np.dtype(np.float16)


class Ragged:
    """n arrays of one width and different lengths, each read from disk on access."""

    def __init__(self, folder: Path, lengths: Sequence[np.ndarray], width: int) -> None:
        self.folder, self.width = folder, width
        self._starts = [np.concatenate([[0], np.cumsum(each)]) for each in lengths]
        self._rows = sum(map(len, lengths))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> np.ndarray:
        chunk, row = divmod(number, CHUNK)
        start, stop = (int(at) * self.width for at in self._starts[chunk][row : row + 2])
        data = np.fromfile(_data(self.folder, chunk), DTYPE, stop - start, offset=start * DTYPE.itemsize)
        if len(data) != stop - start:
            raise UserError(f"{_data(self.folder, chunk)} is truncated; delete it and run again")
        return data.reshape(-1, self.width).astype(np.float32)


def cached_ragged(key: str, rows: int, width: int, compute: ComputeRow) -> Ragged:
    """Return the `rows` arrays of `key`, in float16, as `cached_features`; computed on this process's cores."""
    name = digest("ragged", VERSION, key, rows, width)

    def found(folder: Path) -> Ragged:
        with locked(folder.with_suffix(".lock"), folder):
            lengths = []
            for chunk, start in enumerate(range(0, rows, CHUNK)):
                numbers = range(start, min(start + CHUNK, rows))
                lengths.append(_lengths(_data(folder, chunk), numbers, compute))
        return Ragged(folder, lengths, width)

    return in_cache(f"ragged/{name}", found)


def _data(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk:06d}.bin"


def _lengths(data: Path, rows: range, compute: ComputeRow) -> np.ndarray:
    """The lengths of a chunk's rows, which are computed where the chunk is absent or damaged."""
    again = "its rows will be computed again"
    noted = kept_files(data.with_suffix(".json"), {"sha256": data}, again, lambda: _made(data, rows, compute))
    return np.array(noted["lengths"], dtype=np.int64)


def _made(data: Path, rows: range, compute: ComputeRow) -> dict[str, list[int]]:
    with ThreadPoolExecutor(own_cores()) as pool:
        arrays = [np.asarray(row, dtype=DTYPE) for row in pool.map(compute, rows)]
    with replaced(data) as stream:
        stream.writelines(row.tobytes() for row in arrays)
    return {"lengths": [len(row) for row in arrays]}
