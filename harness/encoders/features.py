"""A cache of teacher features: computed once for a key, then mapped into memory."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.sources import cache_folder, write_text

log = logging.getLogger(__name__)


def cached_features(key: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array kept for `key`, else the one that `compute` returns, which is then kept.

    The key must name everything the features depend on. The array comes back read-only and mapped from
    disk. A file that is damaged is computed again, with a warning.
    """
    name = hashlib.sha256(key.encode()).hexdigest()
    path = cache_folder() / "features" / f"{name}.npy"
    note = path.with_suffix(".sha256")
    if path.is_file() and note.is_file():
        try:
            return _read(path, note)
        except (OSError, ValueError, EOFError) as error:
            log.warning("the cached features %s are damaged (%s) and are computed again", path, error)
    _write(path, compute())
    write_text(note, _hash(path))
    return _read(path, note)


def _read(path: Path, note: Path) -> np.ndarray:
    """Map the array. Raises ValueError where the bytes are not those that were written."""
    if _hash(path) != note.read_text():
        raise ValueError("the hash differs")
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write(path: Path, array: np.ndarray) -> None:
    """Write the array whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
        try:
            np.save(stream, array, allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            Path(stream.name).unlink()
            raise
    Path(stream.name).replace(path)
