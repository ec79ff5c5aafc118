"""Arrays of different lengths on disk: computed once per key, resumable, read row by row.

The rows of a chunk are concatenated in `NUMBER.bin`; `NUMBER.json`, written after it, has their lengths and the hash
of the bytes. Only the lengths are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from harness.caches import in_cache
from harness.errors import UserError
from harness.files import kept_files, replaced
from harness.locks import locked
from harness.processors import own_cores
from harness.sources import digest

#: row number -> the row, (length, width)
ComputeRow = Callable[[int], np.ndarray]
#: version of the layout
VERSION = 2
#: rows in a file
CHUNK = 512
DTYPE = np.dtype(np.float16)


class Ragged:
    """n arrays of one width and different lengths, each read from disk on access."""

    def __init__(self, folder: Path, lengths: Sequence[np.ndarray], width: int) -> None:
        """`lengths` are the lengths of the rows of each chunk."""
        self.folder, self.width = folder, width
        self._starts = [np.concatenate([[0], np.cumsum(each)]) for each in lengths]
        self._rows = sum(map(len, lengths))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> np.ndarray:
        """Read row `number`, (length, width) float32."""
        chunk, place = divmod(number, CHUNK)
        start, stop = (int(at) * self.width for at in self._starts[chunk][place : place + 2])
        data = np.fromfile(_data(self.folder, chunk), DTYPE, stop - start, offset=start * DTYPE.itemsize)
        if len(data) != stop - start:
            raise UserError(f"{_data(self.folder, chunk)} is truncated; delete it and run again")
        return data.reshape(-1, self.width).astype(np.float32)


def cached_ragged(key: str, rows: int, width: int, compute: ComputeRow) -> Ragged:
    """Return the `rows` arrays of `key`, stored in float16; compute them on this process's cores if not cached.

    An interrupted computation resumes after its last complete chunk; a damaged chunk is computed again. One process
    computes while others with the same key wait. Raises what `compute` raises.
    """
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
    """Compute a chunk and flush it; return the lengths of its rows."""
    with ThreadPoolExecutor(own_cores()) as pool:
        found = [np.asarray(row, dtype=DTYPE) for row in pool.map(compute, rows)]
    with replaced(data) as stream:
        stream.writelines(row.tobytes() for row in found)
    return {"lengths": [len(row) for row in found]}
