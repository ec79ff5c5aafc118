"""The cache folder, for data that can be computed again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness.errors import UserError
from harness.regular import read_regular

T = TypeVar("T")

#: errors of a folder that is full, read-only, forbidden, or no folder
_UNUSABLE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
)


def cache_folder() -> Path:
    """The folder of reproducible files: HARNESS_CACHE, else ~/.cache/harness."""
    return _absolute(os.environ.get("HARNESS_CACHE") or str(Path.home() / ".cache" / "harness"))


@cache
def _absolute(folder: str) -> Path:
    """By the working folder of the first call, which the code of others may leave."""
    return Path(folder).expanduser().absolute()


def check_cache() -> None:
    """Raise UserError if the cache folder cannot be created; a read-only one may already contain what is needed."""
    in_cache(".", lambda folder: None)


def is_unusable(error: OSError) -> bool:
    """Whether an error says that a folder is full, read-only, forbidden, or no folder."""
    return error.errno in _UNUSABLE


def in_cache(name: str, make: Callable[[Path], T]) -> T:
    """Return `make(folder)` for the folder `name` of the cache, which is created if need be.

    Raises UserError if the cache cannot be written, and what `make` raises for other reasons.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(error) from error
    try:
        return make(folder)
    except OSError as error:
        elsewhere = error.filename is not None and not str(error.filename).startswith(str(cache_folder()))
        if elsewhere or not is_unusable(error):
            raise
        raise _unusable(error) from error


def kept_text(name: str) -> str | None:
    """A small file of the cache; None where there is none that can be read."""
    try:
        return read_regular(cache_folder() / name).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _unusable(error: OSError) -> UserError:
    reason = f"the cache {cache_folder()} cannot be used ({error.strerror})"
    return UserError(f"{reason}; repair it, or set HARNESS_CACHE to another folder")
