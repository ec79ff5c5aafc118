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

from harness.caches import get_cache_folder, make_in_cache
from harness.errors import UserError
from harness.events import Event, Stage, tell
from harness.files import keep_files, remove, replace_file, write_bytes
from harness.formatting import first_of
from harness.locks import hold_lock
from harness.processors import count_own_cores
from harness.sources import digest

#: the shapes of rows, one if all have the same
Shapes = list[tuple[int, ...]]
#: (start, stop) -> features of these rows, (stop - start, ...)
ComputeRows = Callable[[int, int], np.ndarray]
_AGAIN = "the features will be computed again"


def load_cached_features(
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

    def make_chunk(start: int, stop: int) -> tuple[np.ndarray, Shapes]:
        values = _convert_features(compute(start, stop), start, stop, np.dtype(dtype))
        return values, [values.shape[1:]]

    def make_header(shapes: Shapes) -> bytes:
        different = sorted(set(shapes))
        if len(different) > 1:
            raise UserError(
                f"features have the shapes {' and '.join(map(str, different))}, some from before "
                f"an interruption; delete {get_cache_folder() / 'features' / name}.parts to compute "
                "them all again"
            )
        description = {
            "descr": np.dtype(dtype).str,
            "fortran_order": False,
            "shape": (rows, *shapes[0]),
        }
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, description)
        return stream.getvalue()

    def open_features(folder: Path) -> np.ndarray:
        file = folder / f"{name}.npy"
        _write_once(file, rows, chunk, make_chunk, make_header, subject)
        array: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        return array

    return make_in_cache("features", open_features)


class Stacked:
    """Rows of several arrays, concatenated; only requested rows are read."""

    dtype = np.dtype(np.float32)

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        shapes = {tuple(part.shape[1:]) for part in parts}
        if len(shapes) != 1:
            shape_list = ", ".join(map(str, sorted(shapes)))
            raise UserError(
                f"the corpora's features have different shapes: {shape_list or 'none'}; name a "
                "teacher with features of one shape for all of them"
            )

        self._read = tuple(_open_rows(part) for part in parts)
        self._starts = np.cumsum([0, *map(len, parts)])
        self._order: np.ndarray | None = None
        self.shape: tuple[int, ...] = (len(self), *shapes.pop())

    def __len__(self) -> int:
        return int(self._starts[-1]) if self._order is None else len(self._order)

    def take(self, order: np.ndarray) -> Stacked:
        """Return the rows in another order, possibly repeated: row i is row `order[i]` of these."""
        taken = copy.copy(self)
        taken._order = self._find_places(order)
        taken.shape = (len(order), *self.shape[1:])
        return taken

    def _find_places(self, rows: np.ndarray) -> np.ndarray:
        """Where the rows of these numbers are in the arrays, one after another."""
        return rows if self._order is None else self._order[rows]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Return rows by number, (B, ...) float32. Raises IndexError."""
        rows = np.asarray(rows)
        if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"rows are 0 to {len(self) - 1}")

        places = self._find_places(rows)
        gathered = np.empty((len(rows), *self.shape[1:]), dtype=np.float32)
        for number, read in enumerate(self._read):
            start, stop = self._starts[number : number + 2]
            is_within = (places >= start) & (places < stop)
            gathered[is_within] = read(places[is_within] - start)
        return gathered


def _open_rows(part: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that reads rows of an array; rows of a mapped file are read from the file.

    Touching a mapped page can load up to 2 MB around it into resident memory, a read loads only its
    row.
    """
    if not isinstance(part, np.memmap) or not isinstance(part.base, mmap):
        return part.__getitem__
    if not part.flags.c_contiguous:
        return part.__getitem__

    stream = Path(str(part.filename)).open("rb")  # noqa: SIM115 - open as long as the reader
    row_bytes = part.strides[0]
    offset = part.offset
    shape = part.shape[1:]
    dtype = part.dtype

    def read_row(row: int) -> bytes:
        return os.pread(stream.fileno(), row_bytes, offset + row * row_bytes)

    def read_rows(rows: np.ndarray) -> np.ndarray:
        data = b"".join(map(read_row, rows.tolist()))
        return np.frombuffer(data, dtype).reshape(len(rows), *shape)

    return read_rows


#: (start, stop) -> these rows one after another, and the shape of each; one shape if all have the
#: same
MakeChunk = Callable[[int, int], tuple[np.ndarray, Shapes]]


def _write_once(
    file: Path,
    rows: int,
    chunk: int,
    make: MakeChunk,
    header: Callable[[Shapes], bytes],
    subject: str = "",
) -> Shapes:
    """The shapes of the rows in a file, which is computed chunk by chunk unless it is whole.

    `header` makes the first bytes of the file from all shapes.
    """

    def report(done: int) -> None:
        if subject:
            tell(Event("prepare", stage=Stage("features", subject, done, rows)))

    parts = file.with_suffix(".parts")

    def keep_part(start: int) -> tuple[Path, Shapes]:
        stop = min(start + chunk, rows)
        part = parts / f"{start}-{stop}.bin"

        def write() -> dict[str, Any]:
            values, shapes = make(start, stop)
            write_bytes(part, values.tobytes())
            return {"shapes": shapes}

        part_shapes = _keep_shapes(part, write)
        report(stop)
        return part, part_shapes

    def write() -> dict[str, Any]:
        report(0)
        part_files = []
        shapes = []
        for start in range(0, rows, chunk):
            part, part_shapes = keep_part(start)
            part_files.append(part)
            shapes += part_shapes

        first_bytes = header(shapes)
        with replace_file(file) as stream:
            stream.write(first_bytes)
            for part in part_files:
                with part.open("rb") as source:
                    copyfileobj(source, stream)
        return {"shapes": shapes}

    with hold_lock(file.with_suffix(".lock"), file):
        file_shapes = _keep_shapes(file, write)
        remove(parts)
    return file_shapes


def _keep_shapes(file: Path, write: Callable[[], dict[str, Any]]) -> Shapes:
    """The shapes of the rows in a file, which `write` makes unless it is whole."""
    note = keep_files(file.with_suffix(".json"), {"sha256": file}, _AGAIN, write)
    return list(map(tuple, note["shapes"]))


def _convert_features(values: np.ndarray, start: int, stop: int, dtype: np.dtype) -> np.ndarray:
    """Convert a chunk to the stored type. Raises UserError for values that are not finite."""
    if len(values) != stop - start:
        raise ValueError(f"{len(values)} features computed for the rows {start} to {stop}")

    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(values, dtype=dtype)
    is_finite = np.isfinite(converted).reshape(len(converted), -1).all(axis=1)
    bad_rows = np.flatnonzero(~is_finite) + start
    if len(bad_rows):
        raise UserError(
            f"the features of the rows {first_of(list(map(str, bad_rows)), 5)} are not finite "
            f"numbers in {dtype}; check the images or captions of these rows"
        )
    return converted


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
        start, stop = (int(row) * self.width for row in self._starts[number : number + 2])
        data = np.fromfile(self.file, DTYPE, stop - start, offset=start * DTYPE.itemsize)
        if len(data) != stop - start:
            raise UserError(f"{self.file} is truncated; delete it and run again")
        return data.reshape(-1, self.width).astype(np.float32)


def load_cached_ragged(
    key: str, rows: int, width: int, compute: Callable[[int], np.ndarray]
) -> Ragged:
    """Return the `rows` arrays of `key`, (length, width) each, in float16, as `load_cached_features`
    does.

    `compute` makes the row of a number; it is called on this process's cores.
    """

    def make_chunk(start: int, stop: int) -> tuple[np.ndarray, Shapes]:
        with ThreadPoolExecutor(count_own_cores()) as pool:
            arrays = [np.asarray(row, dtype=DTYPE) for row in pool.map(compute, range(start, stop))]
        return np.concatenate(arrays), [array.shape for array in arrays]

    def open_rows(folder: Path) -> Ragged:
        file = folder / f"{digest('ragged', VERSION, key, rows, width)}.bin"
        shapes = _write_once(file, rows, CHUNK, make_chunk, lambda _: b"")
        return Ragged(file, [length for length, *_ in shapes], width)

    return make_in_cache("ragged", open_rows)
