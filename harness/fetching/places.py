"""The catalogue's folder below the data root, locks of entries, and free disk space."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError
from harness.locks import locked

#: shows a message to the user
Say = Callable[[str], None]


def books(root: Path) -> Path:
    """The folder of manifests, locks, unfinished downloads and rejected files."""
    return root / ".catalogue"


def manifest_path(root: Path, name: str) -> Path:
    """The manifest of an entry."""
    return books(root) / f"{name}.sha256"


@contextmanager
def held(root: Path, name: str, say: Say) -> Iterator[None]:
    """Hold the lock of an entry, waiting for other processes.

    Converts errors of full disks and read-only or forbidden folders into a UserError of one line.
    """
    known = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk cannot be written to",
        errno.EACCES: "permission denied",
    }
    try:
        books(root).mkdir(parents=True, exist_ok=True)
        with locked(books(root) / f"{name}.lock", name, say):
            yield
    except OSError as error:
        if error.errno not in known:
            raise
        raise UserError(
            f"{error.filename or root}: {known[error.errno]}; free some space or set another --data-root, and run the "
            "command again; incomplete files are ignored"
        ) from error


def check_room(root: Path, name: str, needed: int | None) -> None:
    """Check the free disk space. Raises UserError."""
    free = shutil.disk_usage(root).free
    if needed is not None and free < needed:
        raise UserError(
            f"{name} needs about {readable(needed)}, {root} has only {readable(free)} free; free some space or set "
            "another --data-root"
        )


def readable(size: int | None) -> str:
    """A size with its unit: 1.5 GB."""
    if size is None:
        return "unknown"
    for power, unit in enumerate(("B", "kB", "MB")):
        if size < 1000 ** (power + 1):
            return f"{size / 1000**power:.0f} {unit}"
    return f"{size / 1000**3:.1f} GB"
