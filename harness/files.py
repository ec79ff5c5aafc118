"""Files that are read if they are regular ones, written whole or not at all, and checked when they are read back.

A note is a JSON object whose last member, `digest`, is the SHA-256 of the bytes before it: a result, the record of a
training, what is known of a cached file. A folder has the hashes of its files in `CHECKSUMS`, in sha256sum's format,
with the hash of that list in the last line.

Hashes find accidents: files cut short, changed bytes, files of something else. They are no signatures, since whoever
edits a file can compute its hash.
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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final

from harness.errors import first_line
from harness.formatting import LONGEST_NAME

log = logging.getLogger(__name__)

#: Seconds after which a temporary file of a cache, which is written at once, was left by a killed process.
ABANDONED_S = 86_400.0
#: the hashes of a folder's files; no pattern of files that a model's fingerprint covers matches the name
CHECKSUMS: Final = "CHECKSUMS"
#: the ending that a damaged file gets
ASIDE: Final = ".damaged"

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}\s*\Z')


class DamagedError(Exception):
    """A file was changed or damaged after it was written; the message says how."""


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


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file; it never exists half-written."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, flush it to disk and rename it."""
    with replaced(path) as stream:
        stream.write(content)


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A stream whose file replaces another when the block succeeds, flushed to disk, and is removed otherwise.

    The new name is flushed too, so that what is removed afterwards was not needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # such as a folder that was removed meanwhile
            temporary.unlink(missing_ok=True)
        raise
    _flush_names(path.parent)


def temporary_beside(path: Path) -> Path:
    """A hidden name of this process in the folder of `path`, to be renamed to it."""
    name = f".{path.name}.{os.getpid()}.tmp"
    return path.with_name(
        name if len(name.encode()) <= LONGEST_NAME else f".{text_hash(path.name)[:32]}.{os.getpid()}.tmp"
    )


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder, fill it by calling `fill(folder)`, and flush its files to disk; remove it if that fails.

    Raises FileExistsError for one that is there, which stays as it is.
    """
    folder.mkdir(parents=True)
    try:
        fill(folder)
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as stream:
                    os.fsync(stream.fileno())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; nothing where there is none. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path, pattern: str = ".*.tmp", older_than_s: float = 0.0) -> None:
    """Remove temporary files and folders of killed processes; nobody else may be writing those that match."""
    with suppress(OSError):
        for path in folder.glob(pattern):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime >= older_than_s:
                    remove(path)


def _flush_names(folder: Path) -> None:
    with suppress(OSError):  # a file system that does not flush folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sealed(text: str) -> str:
    """A JSON object with members, as text, with its digest as one more."""
    body = text.strip().removesuffix("}")
    return f'{body},"digest":"{text_hash(body)}"}}\n'


def unsealed(content: bytes) -> bytes:
    """A JSON object without its digest. Raises DamagedError where it has none, or one that does not match."""
    seal = _SEAL.search(content)
    if seal is None:
        raise DamagedError("it has no digest: it is truncated or from another version")
    body = content[: seal.start()]
    if hashlib.sha256(body).hexdigest().encode() != seal[1]:
        raise DamagedError("its content does not match its digest: it was changed or damaged after it was written")
    return body + b"}"


def write_note(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON object with its digest; the file never exists half-written."""
    write_text(path, sealed(json.dumps(values)))


def read_note(path: Path, then: str) -> dict[str, Any] | None:
    """What `write_note` wrote; None where there is nothing, or a damaged file, which is put aside."""
    try:
        return note_in(read_regular(path))
    except FileNotFoundError:
        return None
    except (DamagedError, OSError) as error:
        put_aside(path, error, then)
        return None


def read_note_on(note: Path, files: Mapping[str, Path], then: str) -> dict[str, Any] | None:
    """The content of a note whose members have the hashes of files, by member; an empty hash is that of no file.

    None where there is no note, and where it or a file was changed later: that is put aside, and `then` follows.
    """
    noted = read_note(note, then)
    for member, path in files.items() if noted else ():
        try:
            if noted and noted[member]:
                check_file(path, noted[member])
        except DamagedError as error:
            put_aside(path, error, then)
            note.unlink()
            return None
    return noted


def kept_files(
    note: Path, files: Mapping[str, Path], then: str, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The note on files of a cache; where they are absent or damaged, `make` writes them and returns its other members.

    The note has the hash of each file by member and is written last, so that files without it are made again.
    """
    noted: Mapping[str, Any] | None = read_note_on(note, files, then)
    if noted is None:
        noted = {**make(), **{member: content_hash(path) for member, path in files.items()}}
        write_note(note, noted)
    return noted


def note_in(content: bytes) -> dict[str, Any]:
    """The values in the content of a note. Raises DamagedError."""
    try:
        values: dict[str, Any] = json.loads(unsealed(content))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON: {first_line(error)}") from error
    return values


def content_hash(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read once in a process as long as its size and time stay. Raises OSError.

    Unlike `harness.sources.file_hash`, it notices a change that keeps size and time, once in each process.
    """
    stat = path.stat()
    return _hashed(path.resolve(), stat.st_size, stat.st_mtime_ns, stat.st_ino)


def check_file(path: Path, expected: str) -> None:
    """Raise DamagedError where a file does not have this hash."""
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
    """Note the hashes of all files of a folder that is complete but not in its place yet."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    text = "".join(f"{content_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / CHECKSUMS).write_text(f"{text}# {text_hash(text)}\n", encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Raise DamagedError, naming the first file, where a folder is not as it was sealed."""
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

    `then` describes the consequence. What cannot be renamed is left for its next writer to replace.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        remove(aside)
        path.rename(aside)
    except OSError as error:
        log.warning("%s is damaged (%s) and cannot be renamed (%s); %s", path, why, error.strerror, then)
    else:
        log.warning("%s is damaged (%s); renamed to %s, %s", path, why, aside.name, then)


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
