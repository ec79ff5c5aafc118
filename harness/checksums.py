"""Checksums of files that the harness reads back, and the handling of files that were changed or damaged.

A note is a JSON object whose last member, `digest`, is the SHA-256 of the bytes before it: a result, the record of a
training, what is known of a cached file. A folder has the hashes of its files in `CHECKSUMS`, in sha256sum's format,
with the hash of that list in the last line.

These find accidents: files cut short, changed bytes, files of something else. They are no signatures, since whoever
edits a file can compute its hash.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.caches import kept_text
from harness.errors import first_line
from harness.regular import open_regular, read_regular
from harness.sources import keep_text, remove, write_text

log = logging.getLogger(__name__)

#: the hashes of a folder's files; no pattern of files that a model's fingerprint covers matches the name
CHECKSUMS: Final = "CHECKSUMS"
#: what files are renamed to that are not as they were written
ASIDE: Final = ".damaged"

_SEAL = re.compile(rb',"digest":"([0-9a-f]{64})"\}\s*\Z')


class DamagedError(Exception):
    """A file was changed or damaged after it was written; the message says how."""


def sealed(text: str) -> str:
    """A JSON object with members, as text, with its digest as one more."""
    body = text.strip().removesuffix("}")
    return f'{body},"digest":"{_hash(body)}"}}\n'


def unsealed(content: bytes) -> bytes | None:
    """A JSON object without its digest; None where it has none. Raises DamagedError for one that does not match."""
    found = _SEAL.search(content)
    if found is None:
        return None
    body = content[: found.start()]
    if hashlib.sha256(body).hexdigest().encode() != found[1]:
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


def keep_note(name: str, values: Mapping[str, Any]) -> None:
    """Write a note into the cache."""
    keep_text(name, sealed(json.dumps(values)))


def kept_note(name: str, then: str) -> dict[str, Any] | None:
    """What `keep_note` wrote; None where there is nothing, or a damaged note, with a warning that ends with `then`."""
    text = kept_text(name)
    try:
        return None if text is None else note_in(text.encode())
    except DamagedError as error:
        log.warning("the cached note %s is damaged (%s); %s", name, error, then)
        return None


def note_in(content: bytes) -> dict[str, Any]:
    """The values in the content of a note. Raises DamagedError."""
    body = unsealed(content)
    if body is None:
        raise DamagedError("it has no digest: it is truncated or from another version")
    try:
        values: dict[str, Any] = json.loads(body)
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
        found = content_hash(path)
    except OSError as error:
        raise DamagedError(f"it cannot be read: {first_line(error)}") from error
    if found != expected:
        raise DamagedError("it has changed since it was written")


@cache
def _hashed(path: Path, size: int, mtime: int, inode: int) -> str:
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def seal_folder(folder: Path) -> None:
    """Note the hashes of all files of a folder that is complete but not in its place yet."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    text = "".join(f"{content_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / CHECKSUMS).write_text(f"{text}# {_hash(text)}\n", encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Raise DamagedError, naming the first file, where a folder is not as it was sealed."""
    try:
        *lines, last = read_regular(folder / CHECKSUMS).decode().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{CHECKSUMS} cannot be read: {first_line(error)}") from error
    if last != f"# {_hash(''.join(lines))}\n":
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


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
