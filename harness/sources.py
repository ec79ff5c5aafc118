"""Sources of data and their fingerprints.

A fingerprint depends on contents, never on paths. The hash of a file is computed once and cached by path, size and
modification time.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import os
import shutil
import time
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from harness.caches import in_cache, kept_text
from harness.errors import MissingData, UserError, first_line
from harness.formatting import duration, fixed
from harness.plaintext import LONGEST_NAME
from harness.regular import open_regular

log = logging.getLogger(__name__)

#: Seconds between two lines about hashing, and without any after which it starts anew.
LINE_EVERY_S, IDLE_S = 20.0, 5.0
#: Below it there is nothing; an absolute path joined to it is itself.
NOWHERE = Path(os.devnull)
#: How to get a file that is no data set's.
OWN_FILE = "correct its path in the profile ('./...' is relative to the profile, other paths to the data root)"
#: Seconds after which a temporary file of a cache, which is written at once, was left by a killed process.
ABANDONED_S = 86_400.0


@dataclass(frozen=True)
class Missing:
    """A missing input of a run, and how to get it."""

    what: str
    how: str

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"


class Source(ABC):
    """Data that is read from disk or generated."""

    @abstractmethod
    def missing(self, root: Path | None) -> list[Missing]:
        """Inputs missing below the data root; empty if the source can be loaded."""

    @abstractmethod
    def fingerprint(self, root: Path | None) -> str:
        """A hash of the content (hex). Called only if nothing is missing."""

    def require(self, root: Path | None) -> Path:
        """The data root, or a folder of nothing if there is none and every file has a place of its own.

        Raises MissingData if anything is missing.
        """
        absent = self.missing(root)
        if absent:
            raise MissingData("; ".join(map(str, absent)))
        return NOWHERE if root is None else root


class Generated(Source):
    """A source that needs no files."""

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing."""
        return []


def placed(root: Path | None, name: str) -> Path:
    """The path of a file that a profile names: below the data root, unless it is absolute."""
    return (NOWHERE if root is None else root) / name


class FileSource(Source):
    """Files below the data root, or in places of their own."""

    def __init__(self, files: Iterable[str], how: str = OWN_FILE) -> None:
        """`files` are paths below the data root, or absolute; `how` says how to get them."""
        self.files = tuple(files)
        self.how = how

    def paths(self, root: Path | None) -> list[Path]:
        """Absolute paths of the files. Raises MissingData."""
        place = self.require(root)
        return [place / name for name in self.files]

    def missing(self, root: Path | None) -> list[Missing]:
        """Files that do not exist."""
        return [Missing(name, self.how) for name in self.files if not placed(root, name).is_file()]

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the files' bytes, in order."""
        return digest(*(file_hash(path) for path in self.paths(root)))


def digest(*parts: object) -> str:
    """SHA-256 (hex) of a sequence of JSON values, key order ignored."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def data_root(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder of data files: `--data-root`, else the variable HARNESS_DATA, else none.

    Raises UserError for a file.
    """
    chosen = given or os.environ.get("HARNESS_DATA")
    folder = Path(chosen).expanduser().resolve() if chosen else None
    if folder and folder.exists() and not folder.is_dir():
        raise UserError(f"the data root {folder} is a file; give a folder with --data-root or HARNESS_DATA")
    return folder


def keep_text(name: str, text: str) -> None:
    """Write a small file of the cache, which `kept_text` reads; a cache that cannot be written costs one warning."""
    path = Path(name)

    def write(folder: Path) -> None:
        _clean(folder)
        write_text(folder / path.name, text)

    try:
        in_cache(str(path.parent), write)
    except UserError as error:
        _warn_once(str(error))


@cache
def _warn_once(line: str) -> None:
    log.warning("%s", line)


@cache
def _clean(folder: Path) -> None:
    """Remove, once, what killed processes left in a folder of the cache."""
    remove_leftovers(folder, older_than_s=ABANDONED_S)


def known_hash(name: str, compute: Callable[[], str]) -> str:
    """A hash that is kept in the cache under a name, computed and kept where it is not there."""
    text = kept_text(name)
    if text is not None and text[64:] == _check(text[:64]):
        return text[:64]
    if text is not None and len(text) != 64:  # as of an earlier version
        log.warning("the cached hash %s is damaged; it will be computed again", name)
    found = compute()
    keep_text(name, found + _check(found))
    return found


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, cached by path, size and modification time.

    Raises UserError for what is no regular file or cannot be read.
    """

    def compute() -> str:
        with _plain_errors(path):
            return _HASHING.file(path, stat.st_size)

    with _plain_errors(path), open_regular(path) as stream:
        stat = os.fstat(stream.fileno())
    key = hashlib.sha256(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}".encode()).hexdigest()
    return known_hash(f"hashes/{key}", compute)


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); put a readable file in its place") from error


class Hashing:
    """Hashes files, with a line of the log every LINE_EVERY_S seconds of uninterrupted hashing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, piece: int = 2**24) -> None:
        """`piece` are the bytes that are read at a time."""
        self._clock, self._piece = clock, piece
        self._idle_since = self._start = self._line = -math.inf
        self._bytes = 0

    def file(self, path: Path, size: int) -> str:
        """Compute the SHA-256 (hex) of a file of `size` bytes."""
        if self._clock() - self._idle_since > IDLE_S:
            self._start = self._line = self._clock()
            self._bytes = 0
        state, done = hashlib.sha256(), 0
        with open_regular(path) as stream:
            while piece := stream.read(self._piece):
                state.update(piece)
                done += len(piece)
                self._bytes += len(piece)
                self._speak(path, done, size)
        self._idle_since = self._clock()
        return state.hexdigest()

    def _speak(self, path: Path, done: int, size: int) -> None:
        now = self._clock()
        if now - self._line < LINE_EVERY_S:
            return
        self._line = now
        rate = self._bytes / (now - self._start)
        left = duration(max(0, size - done) / rate)
        mb, all_mb, speed = (f"{fixed(number / 1e6, 0)} MB" for number in (done, self._bytes, rate))
        log.info("hashing %s: %s of %.0f MB, %s left; %s so far, %s/s", path, mb, size / 1e6, left, all_mb, speed)


_HASHING = Hashing()


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
        name if len(name.encode()) <= LONGEST_NAME else f".{digest(path.name)[:32]}.{os.getpid()}.tmp"
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


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays of numbers or texts as a compressed .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read arrays written by `write_arrays`. Raises UserError for a damaged file."""
    try:
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        advice = "restore the file, or remove it with the result next to it"
        raise UserError(f"the arrays {path} cannot be read: {first_line(error)}; {advice}") from error
