"""The door to folders that others may have filled: nothing below them is reached through a link.

A file is opened relative to its folder, which was opened relative to the folder around it, and so
on from the folder that a user has named. That one may be a link, no other.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: why a link is refused
LINKED = "it is a link, or in a linked folder, and links are not followed"
#: the flags to open a folder with
_FOLDER = os.O_RDONLY | os.O_DIRECTORY

#: opens a path with flags and returns its handle, as the argument `opener` of `open` does
Opener = Callable[[str, int], int]


def make_opener(within: Path | None) -> Opener:
    """An opener of regular files for `open`.

    Below the folder `within` it follows no link; for None, links are followed. Its errors are
    OSErrors, also for what is no regular file: opening a pipe would wait for its writer.
    """

    def open_file(path: str, flags: int) -> int:
        flags |= getattr(os, "O_NONBLOCK", 0)
        if within is None:
            return _check_regular(os.open(path, flags, 0o666), path)

        with open_folder_of(Path(path), within) as folder:
            return _check_regular(_open_at(folder, Path(path).name, flags, path), path)

    return open_file


@contextmanager
def open_folder_of(path: Path, within: Path | None, *, make: bool = False) -> Iterator[int]:
    """Yield a handle of the folder around a path, which is made if missing and `make` is set.

    Below `within` no link is followed. Raises OSError, also for a path outside of `within`.
    """
    top = path.parent
    names: tuple[str, ...] = ()
    if within is not None:
        top = within
        names = _names_below(within, path)[:-1]
    if make:
        top.mkdir(parents=True, exist_ok=True)

    folder = os.open(top, _FOLDER)
    try:
        for number, name in enumerate(names, 1):
            inner = _open_folder(folder, name, str(top.joinpath(*names[:number])), make=make)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def refuse_links(within: Path, path: Path) -> None:
    """Raise OSError where a path, a folder around it below `within`, or anything in it is a link."""
    try:
        with open_folder_of(path, within) as folder:
            _refuse_links_at(folder, path.name, path)
    except FileNotFoundError:
        return


def is_link(folder: int, name: str) -> bool:
    """Whether a name in an open folder is a link; False where it does not exist."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _refuse_links_at(folder: int, name: str, path: Path) -> None:
    if is_link(folder, name):
        raise OSError(errno.ELOOP, LINKED, str(path))
    try:
        inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except (NotADirectoryError, FileNotFoundError):
        return
    try:
        for entry in os.listdir(inner):  # noqa: PTH208 - of an open folder
            _refuse_links_at(inner, entry, path / entry)
    finally:
        os.close(inner)


def _names_below(within: Path, path: Path) -> tuple[str, ...]:
    """The parts of a path below a folder. Raises OSError where it is elsewhere."""
    names = path.parts[len(within.parts) :]
    if within not in path.parents or ".." in names:
        raise OSError(errno.EPERM, f"it is not below {within}", str(path))
    return names


def _open_folder(folder: int, name: str, path: str, *, make: bool) -> int:
    try:
        return _open_at(folder, name, _FOLDER, path)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(name, dir_fd=folder)
    return _open_at(folder, name, _FOLDER, path)


def _open_at(folder: int, name: str, flags: int, path: str) -> int:
    """Open a name in an open folder unless it is a link. Raises OSError with the whole path."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) and is_link(folder, name):
            raise OSError(errno.ELOOP, LINKED, path) from error
        raise OSError(error.errno, error.strerror, path) from error


def _check_regular(handle: int, path: str) -> int:
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return handle

    os.close(handle)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", path)
