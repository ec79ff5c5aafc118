"""The cache folder, for data that can be computed again; a temporary folder replaces one that is unusable.

The spare folder is a temporary one, made at the first error with one warning and removed with the process that made
it; processes that are started meanwhile share it. What the cache has is read as long as it can be.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from harness.errors import LockError
from harness.regular import read_regular

T = TypeVar("T")

log = logging.getLogger(__name__)

#: the variable that passes the spare folder to other processes
SPARE = "_HARNESS_SPARE_CACHE"  # of this machine: not among those that jobs elsewhere are given
#: what a folder answers that is full, read-only, forbidden, or no folder
_UNUSABLE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
)

#: of the process that made the spare folder
_maker: int | None = None


def cache_folder() -> Path:
    """The folder of reproducible files: HARNESS_CACHE, else ~/.cache/harness."""
    return _absolute(os.environ.get("HARNESS_CACHE") or str(Path.home() / ".cache" / "harness"))


@cache
def _absolute(folder: str) -> Path:
    """By the working folder of the first call, which the code of others may leave."""
    return Path(folder).expanduser().absolute()


def check_cache() -> None:
    """Make the spare folder, which processes started later share, where the cache cannot be written."""
    in_cache(".", lambda folder: tempfile.TemporaryFile(dir=folder).close())


def is_unusable(error: OSError) -> bool:
    """Whether an error says that a folder is full, read-only, forbidden, or no folder."""
    return error.errno in _UNUSABLE


def in_cache(name: str, make: Callable[[Path], T]) -> T:
    """Return `make(folder)` for the folder `name` of the cache, made if need be, or of the spare one.

    Raises what `make` raises for other reasons.
    """
    folder = cache_folder() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return make(folder)
    except (OSError, LockError) as error:
        why = error if isinstance(error, OSError) else error.__cause__
        assert isinstance(why, OSError)
        above = Path(str(why.filename)) in cache_folder().parents  # which cannot be made, whatever the reason
        foreign = why.filename is not None and not str(why.filename).startswith(str(cache_folder()))
        if not above and (foreign or not is_unusable(why)):
            raise
        spare = spare_folder(why) / name
    spare.mkdir(parents=True, exist_ok=True)
    return make(spare)


def kept_text(name: str) -> str | None:
    """A small file of the cache; None where there is none that can be read."""
    spare = os.environ.get(SPARE)
    for folder in (cache_folder(), *([Path(spare)] if spare else [])):
        try:
            return read_regular(folder / name).decode()
        except (OSError, UnicodeDecodeError):
            continue
    return None


def spare_folder(why: OSError) -> Path:
    """The folder in place of a cache that cannot be used; the first call warns."""
    global _maker
    if not os.environ.get(SPARE):
        os.environ[SPARE] = tempfile.mkdtemp(prefix="harness-cache-")
        _maker = os.getpid()
        atexit.register(remove_spare)
        log.warning(
            "the cache %s cannot be used (%s): its content is computed again in a temporary folder; repair it, or "
            "set HARNESS_CACHE to another folder",
            cache_folder(),
            why.strerror,
        )
    return Path(os.environ[SPARE])


def remove_spare() -> None:
    """Remove the spare folder if this process made it."""
    global _maker
    if _maker == os.getpid():
        shutil.rmtree(os.environ.pop(SPARE), ignore_errors=True)
        _maker = None
