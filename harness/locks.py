"""Locks on files: one process holds a lock, and a process that is killed frees it.

They are flock(2) locks, never files that merely exist: such a file would outlive a killed process.
"""

from __future__ import annotations

import errno
import fcntl
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout

from harness.errors import UserError
from harness.within import refuse_links

log = logging.getLogger(__name__)

#: Errors of flock on a file system without locks, or with a lock server that does not answer.
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
#: Errors of a folder that this process can only read.
READ_ONLY = (errno.EROFS, errno.EACCES)


@contextmanager
def try_lock(path: Path, within: Path | None = None) -> Iterator[bool]:
    """Try to hold a lock file; yields False at once if another process holds it.

    Below the folder `within` no link is followed. Raises UserError where there are no locks,
    OSError for a link.
    """
    lock = _acquire(path, within, wait=False)
    if lock is None:
        yield False
        return
    with lock:
        yield True


@contextmanager
def hold_lock(
    path: Path,
    what: object,
    say: Callable[[str], None] = log.info,
    within: Path | None = None,
) -> Iterator[None]:
    """Hold a lock file, waiting (and calling `say`) while another process holds it.

    Below the folder `within` no link is followed. A read-only location is used without a lock.
    Raises UserError where there are no locks.
    """
    try:
        lock = _acquire(path, within, wait=False)
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        yield
        return

    if lock is None:
        say(f"{what}: in use elsewhere; waiting")
        lock = _acquire(path, within, wait=True)
    assert lock is not None
    with lock:
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds a lock file, which this one need not be able to write; False if there
    is none.
    """
    if not path.is_file():
        return False

    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it cannot be read, or there are no locks
        return False

    return False


def _acquire(path: Path, within: Path | None, *, wait: bool) -> AcquireReturnProxy[FileLock] | None:
    if within is not None:
        refuse_links(within, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(path, fallback_to_soft=False).acquire(timeout=-1 if wait else 0)
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise UserError(
            f"the file system of {path.parent} has no file locks ({error.strerror}); give a folder on a local disk "
            "(--results, HARNESS_CACHE), mount Lustre with -o flock and NFS without nolock, or use "
            "--executor ray --no-shared-folder"
        ) from error
