"""Arrays of different lengths on disk: computed once a key, resumed where they were left, read row by row.

The rows of a chunk lie behind one another in `NUMBER.bin`; `NUMBER.json`, written after it, has their
lengths and the hash of the bytes. Nothing is kept in memory but the lengths.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.sources import alone, cache_folder, digest, file_hash, write_text

log = logging.getLogger(__name__)

#: gives row `number`, (length, width)
Compute = Callable[[int], np.ndarray]
#: rows between two flushes to disk
CHUNK = 512
DTYPE = np.dtype(np.float16)


class Ragged:
    """n arrays of one width and different lengths, each read from disk when it is asked for."""

    def __init__(self, folder: Path, lengths: Sequence[np.ndarray], width: int) -> None:
        """`lengths` are those of each chunk's rows."""
        self.folder, self.width = folder, width
        self._starts = [np.concatenate([[0], np.cumsum(each)]) for each in lengths]
        self._rows = sum(map(len, lengths))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> np.ndarray:
        """Row `number`, (length, width) float32."""
        chunk, place = divmod(number, CHUNK)
        start, stop = (int(at) * self.width for at in self._starts[chunk][place : place + 2])
        data = np.fromfile(_data(self.folder, chunk), DTYPE, stop - start, offset=start * DTYPE.itemsize)
        if len(data) != stop - start:
            raise UserError(f"{_data(self.folder, chunk)} was cut short; delete it to have it computed again")
        return data.reshape(-1, self.width).astype(np.float32)


def cached_ragged(key: str, rows: int, width: int, compute: Compute) -> Ragged:
    """The `rows` arrays kept for `key` in float16, computed on all cores where they are not.

    A killed computation goes on at its last whole chunk of rows; a damaged chunk is computed again. One
    process computes while others that want the same key wait. Raises what `compute` raises.
    """
    name = digest("ragged", key, rows, width)
    folder = cache_folder() / "ragged" / name
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder.with_suffix(".lock"), folder):
        lengths = []
        for chunk, start in enumerate(range(0, rows, CHUNK)):
            kept = _kept(folder, chunk)
            if kept is None:
                kept = _made(folder, chunk, range(start, min(start + CHUNK, rows)), compute)
            lengths.append(np.array(kept, dtype=np.int64))
    return Ragged(folder, lengths, width)


def _data(folder: Path, chunk: int) -> Path:
    return folder / f"{chunk:06d}.bin"


def _kept(folder: Path, chunk: int) -> list[int] | None:
    """The lengths of a chunk's rows; None where it has not been computed or its bytes have changed."""
    data = _data(folder, chunk)
    note = data.with_suffix(".json")
    if not (data.is_file() and note.is_file()):
        return None
    about = json.loads(note.read_text())
    if about["sha256"] == file_hash(data):
        return list(about["lengths"])
    log.warning("the cached rows %s are damaged and are computed again", data)
    return None


def _made(folder: Path, chunk: int, rows: range, compute: Compute) -> list[int]:
    """Compute a chunk, flush it and note what it holds."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = [np.asarray(row, dtype=DTYPE) for row in pool.map(compute, rows)]
    data = _data(folder, chunk)
    part = data.with_suffix(".part")
    with part.open("wb") as stream:
        for row in found:
            stream.write(np.ascontiguousarray(row).tobytes())
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(data)
    lengths = [len(row) for row in found]
    write_text(data.with_suffix(".json"), json.dumps({"lengths": lengths, "sha256": file_hash(data)}))
    return lengths
