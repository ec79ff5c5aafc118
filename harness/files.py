"""Safe files: read only if regular, written whole or not at all, and checked by hash when read
back.

A note is a JSON object whose last member, `digest`, is the SHA-256 of the bytes before it. Results,
records of training and facts on cached files are notes. A folder has the hashes of its files in
`CHECKSUMS`, in sha256sum's format, with the hash of that list in the last line.

Hashes detect accidents: truncated files, changed bytes, files mixed up. They are not signatures,
since anyone who edits a file can recompute its hash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final

from harness.errors import UserError, first_line
from harness.formatting import LONGEST_NAME

log = logging.getLogger(__name__)

#: Age in seconds at which a temporary file of a cache counts as left by a killed process.
ABANDONED_S = 86_400.0
#: the file with a folder's hashes; its name matches no pattern of files in a model's fingerprint
CHECKSUMS: Final = "CHECKSUMS"
#: suffix given to a damaged file
ASIDE: Final = ".damaged"

#: size in bytes up to which a file of a results folder is read; the largest one that a run has
#: written had 2 MB
LARGEST: Final = 3 * 10**7

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}\s*\Z')


class DamagedError(Exception):
    """A file was changed or damaged after it was written; the message says how."""


def expand(path: str | os.PathLike[str]) -> Path:
    """A path with its `~` replaced. Raises UserError where that home folder is not known."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UserError(
            f"no home folder is known for {path}; write the path in full, or set HOME"
        ) from error


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading bytes. Raises OSError, also if it is not a regular file."""
    return open(path, "rb", opener=_open)


def read_regular(path: Path) -> bytes:
    """The content of a file. Raises OSError, also if it is not a regular file."""
    with open_regular(path) as stream:
        return stream.read()


def open_within(folder: Path, path: Path, most: int = LARGEST) -> BufferedReader:
    """Open a file below a folder that others may have filled. Raises OSError, also for links, or
    above `most` bytes.

    Only folders of the two topmost levels may be links: users put profiles and runs' work on other
    disks.
    """
    below = (
        path.parents[: len(path.parts) - len(folder.parts) - 1] if folder in path.parents else ()
    )
    if any(each.is_symlink() for each in (path, *below[:-2])):
        raise OSError(
            errno.ELOOP,
            "it is a link, or in a linked folder, and links are not followed",
            str(path),
        )
    stream = open_regular(path)
    if os.fstat(stream.fileno()).st_size > most:
        stream.close()
        raise OSError(errno.EFBIG, f"it has more than {most / 1e6:.0f} MB", str(path))
    return stream


def read_within(folder: Path, path: Path) -> bytes:
    """The content of a file that `open_within` opens. Raises OSError."""
    with open_within(folder, path) as stream:
        return stream.read(LARGEST)


def _open(path: str, flags: int) -> int:
    handle = os.open(
        path, flags | getattr(os, "O_NONBLOCK", 0)
    )  # otherwise opening a pipe would wait for its writer
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", path)
    return handle


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file; it never exists half-written."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, flush it to disk and rename it."""
    with replaced(path) as stream:
        stream.write(content)


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file: if the block succeeds, it is flushed and replaces `path`,
    else removed.

    The new name is flushed too, so that files it supersedes can be removed safely afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            flush(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # for example, the folder was removed meanwhile
            temporary.unlink(missing_ok=True)
        raise
    _flush_names(path.parent)


def own_mark() -> str:
    """What tells the temporary names of this thread from those of others."""
    return f"{os.getpid()}-{threading.get_native_id()}"


def temporary_beside(path: Path) -> Path:
    """A hidden temporary name in the folder of `path`, unique to this thread, to be renamed to
    `path`.
    """
    mine = f"{own_mark()}.tmp"
    name = f".{path.name}.{mine}"
    return path.with_name(
        name if len(name.encode()) <= LONGEST_NAME else f".{text_hash(path.name)[:32]}.{mine}"
    )


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder, fill it by calling `fill(folder)`, and flush its files to disk; remove it if
    that fails.

    Raises FileExistsError if the folder exists, and leaves it unchanged.
    """
    folder.mkdir(parents=True)
    try:
        fill(folder)
        _flush_files(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def move(path: Path, target: Path) -> None:
    """Move a file or folder in place of `target`, to another disk too. Raises OSError, with `path`
    as it was.

    To another disk it is copied whole before it goes, so that a kill at any moment leaves one of
    both complete.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.replace(target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    copied, gone = temporary_beside(target), temporary_beside(path)
    try:
        for each in (path, *path.rglob("*")):
            is_folder, into = (
                each.is_dir() and not each.is_symlink(),
                copied / each.relative_to(path),
            )
            into.mkdir() if is_folder else shutil.copy2(each, into, follow_symlinks=False)
        _flush_files(copied)
        remove(target)
        copied.replace(target)
    except BaseException:
        with suppress(OSError):
            remove(copied)
        raise
    _flush_names(target.parent)
    path.replace(gone)
    remove(gone)


def flush(handle: int) -> None:
    """Flush an open file to disk, where its file system can do that. Raises OSError."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise


def _flush_files(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        if each.is_file():
            with each.open("rb") as stream:
                flush(stream.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with its content, if it exists. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path, pattern: str = ".*.tmp", older_than_s: float = 0.0) -> None:
    """Remove temporary files and folders of killed processes; no live process may be writing a
    matching one.
    """
    with suppress(OSError):
        for path in folder.glob(pattern):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime >= older_than_s:
                    remove(path)


def _flush_names(folder: Path) -> None:
    with suppress(OSError):  # the file system cannot flush folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sealed(text: str) -> str:
    """Add its digest, as the last member, to a non-empty JSON object given as text."""
    body = text.strip().removesuffix("}")
    return f'{body},"digest":"{text_hash(body)}"}}\n'


def unsealed(content: bytes) -> bytes:
    """Remove and check the digest of a JSON object. Raises DamagedError if it is missing or does
    not match.
    """
    seal = _SEAL.search(content)
    if seal is None:
        raise DamagedError("it has no digest: it is truncated or from another version")
    body = content[: seal.start()]
    if hashlib.sha256(body).hexdigest().encode() != seal[1]:
        raise DamagedError(
            "its content does not match its digest: it was changed or damaged after it was written"
        )
    return body + b"}"


def write_note(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object with its digest; the file never exists half-written."""
    write_text(path, sealed(json.dumps(values)))


def read_note(path: Path, then: str) -> dict[str, Any] | None:
    """Read a note of `write_note`; None if there is none, or if it is damaged and was put aside."""
    try:
        return note_in(read_regular(path))
    except FileNotFoundError:
        return None
    except (DamagedError, OSError) as error:
        put_aside(path, error, then)
        return None


def read_note_on(note: Path, files: Mapping[str, Path], then: str) -> dict[str, Any] | None:
    """Read a note that holds the hash of each file under its key in `files`, '' for no file.

    None if there is no note, or if the note or a file has changed: it is put aside, with `then` in
    the warning.
    """
    noted = read_note(note, then)
    if noted is None:
        return None
    for member, path in files.items():
        try:
            if expected := noted.get(member, "unknown"):
                check_file(path, expected)
        except DamagedError as error:
            put_aside(path, error, then)
            note.unlink()
            return None
    return noted


def kept_files(
    note: Path, files: Mapping[str, Path], then: str, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the note on cached files; if they are absent or damaged, `make` writes them and
    returns its other members.

    The note has the hash of each file by its key and is written last, so that files without it are
    made again.
    """
    noted: Mapping[str, Any] | None = read_note_on(note, files, then)
    if noted is None:
        noted = {**make(), **{member: content_hash(path) for member, path in files.items()}}
        write_note(note, noted)
    return noted


def note_in(content: bytes) -> dict[str, Any]:
    """Parse the content of a note. Raises DamagedError."""
    try:
        values: dict[str, Any] = json.loads(unsealed(content))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON: {first_line(error)}") from error
    return values


def content_hash(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read once per process unless its size or time changes.
    Raises OSError.

    Unlike `harness.sources.file_hash`, each process reads the bytes, so changes that keep size and
    time are noticed.
    """
    stat = path.stat()
    return _hashed(path.resolve(), stat.st_size, stat.st_mtime_ns + stat.st_ctime_ns, stat.st_ino)


def check_file(path: Path, expected: str) -> None:
    """Raise DamagedError if a file does not have this hash."""
    try:
        actual = content_hash(path)
    except OSError as error:
        raise DamagedError(f"it cannot be read: {first_line(error)}") from error
    if actual != expected:
        raise DamagedError("it has changed since it was written")


@cache
def _hashed(path: Path, size: int, mtime: int, inode: int) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def seal_folder(folder: Path) -> None:
    """Write the hashes of all files of a complete folder, before it is moved into place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    text = "".join(
        f"{content_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in files
    )
    (folder / CHECKSUMS).write_text(f"{text}# {text_hash(text)}\n", encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Raise DamagedError if a folder has changed since it was sealed, naming the first changed
    file.
    """
    try:
        *lines, last = read_regular(folder / CHECKSUMS).decode().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{CHECKSUMS} cannot be read: {first_line(error)}") from error
    if last != f"# {text_hash(''.join(lines))}\n":
        raise DamagedError(f"{CHECKSUMS} has changed since it was written")
    for line in lines:
        expected, _, name = line.rstrip("\n").partition("  ")
        try:
            check_file(folder / name, expected)
        except DamagedError as error:
            raise DamagedError(f"{name}: {error}") from error


def put_aside(path: Path, why: object, then: str) -> None:
    """Rename a file or a folder to NAME.damaged, in place of an earlier one, and warn in one line.

    `then` describes the consequence. If renaming fails, the file is left for its next writer to
    replace.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        remove(aside)
        path.rename(aside)
    except OSError as error:
        log.warning(
            "%s is damaged (%s) and cannot be renamed (%s); %s", path, why, error.strerror, then
        )
    else:
        log.warning("%s is damaged (%s); renamed to %s, %s", path, why, aside.name, then)


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
