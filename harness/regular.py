"""Files opened for reading: regular ones only, since a pipe or a device could keep a command waiting for ever."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading bytes. Raises OSError, also for what is no regular file."""
    return open(path, "rb", opener=_open)


def read_regular(path: Path) -> bytes:
    """The content of a file. Raises OSError, also for what is no regular file."""
    with open_regular(path) as stream:
        return stream.read()


def _open(path: str, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else opening a pipe waits for its writer
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", path)
    return handle
