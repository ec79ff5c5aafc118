"""Where the catalogue keeps its own things below the data root, and the lock of an entry."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError
from harness.sources import alone

#: tells a person what happens
Say = Callable[[str], None]


def books(root: Path) -> Path:
    """The catalogue's own folder: manifests, locks, downloads under way, files put aside."""
    return root / ".catalogue"


def manifest_path(root: Path, name: str) -> Path:
    """The hashes of an entry's files, as sha256sum writes and checks them."""
    return books(root) / f"{name}.sha256"


def staging(root: Path, name: str) -> Path:
    """Downloads and half-made outputs of an entry; on the data root's own disk, so that a rename is enough."""
    return books(root) / "staging" / name


@contextmanager
def held(root: Path, name: str, say: Say) -> Iterator[None]:
    """Hold an entry's lock; a second process says so and waits."""
    with only_plain_errors(root):
        books(root).mkdir(parents=True, exist_ok=True)
    with alone(books(root) / f"{name}.lock", name, say):
        yield


@contextmanager
def only_plain_errors(root: Path) -> Iterator[None]:
    """Turn a full disk and forbidden or read-only folders into one line. Raises UserError."""
    try:
        yield
    except OSError as error:
        known = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EROFS: "the disk cannot be written to",
            errno.EACCES: "permission denied",
        }
        if error.errno not in known:
            raise
        place = error.filename or root
        raise UserError(
            f"{place}: {known[error.errno]}; nothing half-written is used: make room or give another --data-root, "
            "and run the command again"
        ) from error


def check_room(root: Path, name: str, needed: int | None) -> None:
    """Refuse early what cannot fit. Raises UserError."""
    free = shutil.disk_usage(root).free
    if needed is not None and free < needed:
        raise UserError(
            f"{name} takes about {readable(needed)} and {root} has {readable(free)} free; make room or give "
            "another --data-root"
        )


def readable(size: int | None) -> str:
    """A size in bytes as people write it."""
    if size is None:
        return "unknown"
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
