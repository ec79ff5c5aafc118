"""Computed arrays on disk: once per key, resumable, and read row by row.

Features have one shape, and are mapped into memory from `NAME.npy`. Ragged arrays have rows of
different lengths, one after another in `NAME.bin`; only the lengths are in memory. `NAME.json` has
the shapes and the hash of the bytes. Until all are computed, `NAME.parts` has each chunk of rows as
a file and a note of the same kind.
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import numpy as np

from harness.caches import cache_folder, in_cache
from harness.errors import UserError
from harness.events import Event, Stage, tell
from harness.files import kept_files, remove, replaced, write_bytes
from harness.formatting import first_of
from harness.locks import locked
from harness.processors import own_cores
from harness.sources import digest

#: (start, stop) -> features of these rows, (stop - start, ...)
ComputeRows = Callable[[int, int], np.ndarray]
_AGAIN = "the features will be computed again"


def cached_features(
    key: str,
    rows: int,
    compute: ComputeRows,
    *,
    dtype: str = "float32",
    chunk: int = 4096,
    subject: str = "features",
) -> np.ndarray:
    """Return the `rows` features of `key`, (rows, ...), read-only and memory-mapped; compute them
    if not cached.

    The key must name everything that the features depend on. An interrupted computation resumes
    after its last complete chunk; one process computes while others with the same key wait; a
    damaged file is computed again, with a warning. `dtype` is float32 or float16. What is computed
    is told about the `subject`: the rows done, first 0, then after each chunk, also one of an
    earlier process. Raises UserError for features that are not finite in that type.
    """
    if rows < 1 or dtype not in ("float32", "float16"):
        raise ValueError(f"features need rows, and float32 or float16, not {rows} rows of {dtype}")
    name = digest(key, rows, dtype)

    def made(start: int, stop: int) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        values = _checked(compute(start, stop), start, stop, np.dtype(dtype))
        return values, [values.shape[1:]]

    def header(shapes: Sequence[tuple[int, ...]]) -> bytes:
        if len(set(shapes)) > 1:
            found = " and ".join(map(str, sorted(set(shapes))))
            raise UserError(
                f"features have the shapes {found}, some from before an interruption; "
                f"delete {cache_folder() / 'features' / name}.parts to compute them all again"
            )
        stream = io.BytesIO()
        described = {
            "descr": np.dtype(dtype).str,
            "fortran_order": False,
            "shape": (rows, *shapes[0]),
        }
        np.lib.format.write_array_header_1_0(stream, described)
        return stream.getvalue()

    def found(folder: Path) -> np.ndarray:
        file = folder / f"{name}.npy"
        _kept(file, rows, chunk, made, header, subject)
        array: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
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

    Touching a mapped page can load up to 2 MB around it into resident memory, a read loads only its
    row.
    """
    if not (
        isinstance(part, np.memmap) and isinstance(part.base, mmap) and part.flags.c_contiguous
    ):
        return part.__getitem__
    stream = Path(str(part.filename)).open("rb")  # noqa: SIM115 - open as long as the reader
    size = part.strides[0]
    offset = part.offset
    shape = part.shape[1:]
    dtype = part.dtype

    def read(rows: np.ndarray) -> np.ndarray:
        data = b"".join(
            os.pread(stream.fileno(), size, offset + row * size) for row in rows.tolist()
        )
        return np.frombuffer(data, dtype).reshape(len(rows), *shape)

    return read


#: (start, stop) -> these rows one after another, and the shape of each; one shape if all have the
#: same
MakeChunk = Callable[[int, int], tuple[np.ndarray, list[tuple[int, ...]]]]


def _kept(
    file: Path,
    rows: int,
    chunk: int,
    make: MakeChunk,
    header: Callable[[Sequence[tuple[int, ...]]], bytes],
    subject: str = "",
) -> list[tuple[int, ...]]:
    """The shapes of the rows in a file, which is computed chunk by chunk unless it is whole.

    `header` makes the first bytes of the file from all shapes.
    """

    def report(done: int) -> None:
        if subject:
            tell(Event("prepare", stage=Stage("features", subject, done, rows)))

    parts = file.with_suffix(".parts")

    def kept_part(start: int) -> tuple[Path, list[tuple[int, ...]]]:
        stop = min(start + chunk, rows)
        part = parts / f"{start}-{stop}.bin"

        def write() -> dict[str, Any]:
            values, shapes = make(start, stop)
            write_bytes(part, values.tobytes())
            return {"shapes": shapes}

        noted = kept_files(part.with_suffix(".json"), {"sha256": part}, _AGAIN, write)
        report(stop)
        return part, [tuple(shape) for shape in noted["shapes"]]

    def write() -> dict[str, Any]:
        report(0)
        kept = [kept_part(start) for start in range(0, rows, chunk)]
        shapes = [shape for _, each in kept for shape in each]
        first = header(shapes)
        with replaced(file) as stream:
            stream.write(first)
            for part, _ in kept:
                with part.open("rb") as source:
                    copyfileobj(source, stream)
        return {"shapes": shapes}

    with locked(file.with_suffix(".lock"), file):
        noted = kept_files(file.with_suffix(".json"), {"sha256": file}, _AGAIN, write)
        remove(parts)
    return [tuple(shape) for shape in noted["shapes"]]


def _checked(values: np.ndarray, start: int, stop: int, dtype: np.dtype) -> np.ndarray:
    """Convert a chunk to the stored type. Raises UserError for values that are not finite."""
    if len(values) != stop - start:
        raise ValueError(f"{len(values)} features computed for the rows {start} to {stop}")
    with np.errstate(over="ignore"):
        cast = np.ascontiguousarray(values, dtype=dtype)
    bad = np.flatnonzero(~np.isfinite(cast).reshape(len(cast), -1).all(axis=1)) + start
    if len(bad):
        raise UserError(
            f"the features of the rows {first_of(list(map(str, bad)), 5)} are not finite numbers in {dtype}; "
            "check the images or captions of these rows"
        )
    return cast


#: of ragged arrays: version of the layout, rows of a chunk, and the type in files
VERSION = 3
CHUNK = 512
DTYPE = np.dtype(np.float16)


class Ragged:
    """n arrays of one width and different lengths, each read from disk on access."""

    def __init__(self, file: Path, lengths: Sequence[int], width: int) -> None:
        self.file = file
        self.width = width
        self._starts = np.cumsum([0, *lengths])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> np.ndarray:
        start, stop = (int(at) * self.width for at in self._starts[number : number + 2])
        data = np.fromfile(self.file, DTYPE, stop - start, offset=start * DTYPE.itemsize)
        if len(data) != stop - start:
            raise UserError(f"{self.file} is truncated; delete it and run again")
        return data.reshape(-1, self.width).astype(np.float32)


def cached_ragged(key: str, rows: int, width: int, compute: Callable[[int], np.ndarray]) -> Ragged:
    """Return the `rows` arrays of `key`, (length, width) each, in float16, as `cached_features`
    does.

    `compute` makes the row of a number; it is called on this process's cores.
    """

    def made(start: int, stop: int) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        with ThreadPoolExecutor(own_cores()) as pool:
            arrays = [np.asarray(row, dtype=DTYPE) for row in pool.map(compute, range(start, stop))]
        return np.concatenate(arrays), [array.shape for array in arrays]

    def found(folder: Path) -> Ragged:
        file = folder / f"{digest('ragged', VERSION, key, rows, width)}.bin"
        shapes = _kept(file, rows, CHUNK, made, lambda _: b"")
        return Ragged(file, [length for length, *_ in shapes], width)

    return in_cache("ragged", found)
