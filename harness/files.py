"""Safe files: read only if regular, written whole or not at all, and checked by hash when read
back.

A note is a JSON object whose last member, `digest`, is the SHA-256 of the bytes before it. Results,
records of training and facts on cached files are notes. A folder has the hashes of its files in
`CHECKSUMS`, in sha256sum's format, with the hash of that list in the last line.

Hashes detect accidents: truncated files, changed bytes, files mixed up. They are not signatures,
since anyone who edits a file can recompute its hash.

Functions that take a folder `within` follow no link below it (`harness.within`); without one they
follow links, as in the data, the caches and the exports of a user.
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
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO

from harness.errors import UserError, first_line
from harness.formatting import LONGEST_NAME
from harness.within import make_opener, open_folder_of, refuse_links

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

#: bytes to which any archive may unpack, and how many times its own size a larger one may
UNPACKED_BYTES = 10**7
UNPACKED_TIMES = 100

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


def open_regular(path: Path, within: Path | None = None) -> BufferedReader:
    """Open a file for reading bytes. Raises OSError, also if it is not a regular file."""
    return open(path, "rb", opener=make_opener(within))


def read_regular(path: Path, within: Path | None = None) -> bytes:
    """The content of a file. Raises OSError, also if it is not a regular file."""
    with open_regular(path, within) as stream:
        return stream.read()


def open_within(folder: Path, path: Path, most: int = LARGEST) -> BufferedReader:
    """Open a file below a folder that others may have filled. Raises OSError, also for links, or
    above `most` bytes.
    """
    stream = open_regular(path, folder)
    if os.fstat(stream.fileno()).st_size > most:
        stream.close()
        raise OSError(errno.EFBIG, f"it has more than {most / 1e6:.0f} MB", str(path))
    return stream


def read_within(folder: Path, path: Path) -> bytes:
    """The content of a file that `open_within` opens. Raises OSError."""
    with open_within(folder, path) as stream:
        # memory is set aside for as many bytes as are asked for
        return stream.read(os.fstat(stream.fileno()).st_size)


def check_unpacked(archive: Path, size: int) -> None:
    """Raise UserError if an archive unpacks to far more bytes than data of its size do."""
    most = UNPACKED_BYTES + UNPACKED_TIMES * archive.stat().st_size
    if size > most:
        raise UserError(
            f"{archive} unpacks to more than {most / 1e6:.0f} MB, over {UNPACKED_TIMES} times its "
            "size; nothing of it is used; download it again from its publisher"
        )


def open_to_append(path: Path, within: Path | None = None) -> TextIO:
    """Open a text file to add lines to its end; it and its folder are made if missing. Raises
    OSError, also if it is not a regular file.
    """
    with open_folder_of(path, within, make=True):
        return open(
            path, "a", encoding="utf-8", errors="backslashreplace", opener=make_opener(within)
        )


def write_text(path: Path, text: str, within: Path | None = None) -> None:
    """Write a UTF-8 text file; it never exists half-written."""
    write_bytes(path, text.encode(), within)


def write_bytes(path: Path, content: bytes, within: Path | None = None) -> None:
    """Write a file under a temporary name, flush it to disk and rename it."""
    with replace_file(path, within) as stream:
        stream.write(content)


@contextmanager
def replace_file(path: Path, within: Path | None = None) -> Iterator[BinaryIO]:
    """Yield a stream to a temporary file: if the block succeeds, it is flushed and replaces `path`,
    else removed.

    The new name is flushed too, so that files it supersedes can be removed safely afterwards.
    """
    temporary = make_temporary_path(path)
    with open_folder_of(path, within, make=True) as folder:
        try:
            with open(temporary, "xb", opener=partial(_create_in, folder)) as stream:
                yield stream
                stream.flush()
                flush(stream.fileno())
            os.replace(temporary.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):  # for example, the folder was removed meanwhile
                os.unlink(temporary.name, dir_fd=folder)
            raise

        flush(folder)


def _create_in(folder: int, path: str, flags: int) -> int:
    """Create a file in an open folder. Raises OSError with the whole path."""
    try:
        return os.open(Path(path).name, flags | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


#: a pattern for the random part of a temporary name
RANDOM_PART = "[0-9a-f]" * 16


def make_temporary_path(path: Path) -> Path:
    """A new hidden temporary name in the folder of `path`, to be renamed to `path`.

    It is drawn at random: processes of two machines or containers may have the same id.
    """
    ending = f"{uuid.uuid4().hex[:16]}.tmp"
    name = f".{path.name}.{ending}"
    if len(name.encode()) > LONGEST_NAME:
        name = f".{hash_text(path.name)[:32]}.{ending}"
    return path.with_name(name)


def fill_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder, fill it by calling `fill(folder)`, and flush it to disk; remove it if that
    fails.

    Raises FileExistsError if the folder exists, and leaves it unchanged.
    """
    folder.mkdir(parents=True)
    try:
        fill(folder)
        _flush_all(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def rename(path: Path, name: str, within: Path | None = None) -> None:
    """Rename a file or folder in its folder, in place of a file of that name, and flush the folder.
    Raises OSError.
    """
    with open_folder_of(path, within) as folder:
        os.replace(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        flush(folder)


def move(path: Path, target: Path, within: Path | None = None) -> None:
    """Move a file or folder in place of `target`, to another disk too. Raises OSError, with `path`
    as it was; where both are below `within`, also for a link anywhere.

    To another disk it is copied whole before it goes, so that a kill at any moment leaves one of
    both complete.
    """
    if within is not None:
        refuse_links(within, path)
    with (
        open_folder_of(path, within) as source_folder,
        open_folder_of(target, within, make=True) as target_folder,
    ):
        try:
            os.replace(path.name, target.name, src_dir_fd=source_folder, dst_dir_fd=target_folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise OSError(error.errno, error.strerror, str(path), None, str(target)) from error
            _copy_whole(path, target)
            moved = make_temporary_path(path)
            os.replace(path.name, moved.name, src_dir_fd=source_folder, dst_dir_fd=source_folder)
            remove(moved, within)

        flush(target_folder)
        flush(source_folder)


def _copy_whole(path: Path, target: Path) -> None:
    """Copy a file, a link or a folder to another disk, in place of `target`."""
    copied = make_temporary_path(target)
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, copied, symlinks=True)
        else:
            shutil.copy2(path, copied, follow_symlinks=False)
        _flush_all(copied)
        remove(target)
        copied.replace(target)
    except BaseException:
        with suppress(OSError):
            remove(copied)
        raise


def flush(handle: int) -> None:
    """Flush an open file or folder to disk, where its file system can do that. Raises OSError."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise


def _flush_all(path: Path) -> None:
    """Flush a file, or all files and folders of a folder."""
    for part in (path, *path.rglob("*")):
        if part.is_symlink() or not (part.is_file() or part.is_dir()):
            continue
        handle = os.open(part, os.O_RDONLY)
        try:
            flush(handle)
        finally:
            os.close(handle)


def remove(path: Path, within: Path | None = None) -> None:
    """Remove a file, a link or a folder with its content, if it exists; no link below `within` is
    followed. Raises OSError.
    """
    try:
        with open_folder_of(path, within) as folder:
            kind = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                shutil.rmtree(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_leftovers(folder: Path, pattern: str = ".*.tmp", older_than_s: float = 0.0) -> None:
    """Remove temporary files and folders of killed processes; no live process may be writing a
    matching one.
    """
    with suppress(OSError):
        for path in folder.glob(pattern):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime >= older_than_s:
                    remove(path)


def add_seal(text: str) -> str:
    """Add its digest, as the last member, to a non-empty JSON object given as text."""
    body = text.strip().removesuffix("}")
    return f'{body},"digest":"{hash_text(body)}"}}\n'


def remove_seal(content: bytes) -> bytes:
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


def write_note(path: Path, values: Mapping[str, Any], within: Path | None = None) -> None:
    """Write a JSON object with its digest; the file never exists half-written."""
    write_text(path, add_seal(json.dumps(values)), within)


def read_note(path: Path, then: str, within: Path | None = None) -> dict[str, Any] | None:
    """Read a note of `write_note`; None if there is none, or if it is damaged and was put aside."""
    try:
        return parse_note(read_regular(path, within))
    except FileNotFoundError:
        return None
    except (DamagedError, OSError) as error:
        put_aside(path, error, then, within)
        return None


def read_note_on(
    note: Path, files: Mapping[str, Path], then: str, within: Path | None = None
) -> dict[str, Any] | None:
    """Read a note that holds the hash of each file under its key in `files`, '' for no file.

    None if there is no note, or if the note or a file has changed: it is put aside, with `then` in
    the warning.
    """
    noted = read_note(note, then, within)
    if noted is None:
        return None

    for member, path in files.items():
        try:
            if expected := noted.get(member, "unknown"):
                check_file(path, expected, within)
        except DamagedError as error:
            put_aside(path, error, then, within)
            remove(note, within)
            return None

    return noted


def keep_files(
    note: Path, files: Mapping[str, Path], then: str, make: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the note on cached files; if they are absent or damaged, `make` writes them and
    returns its other members.

    The note has the hash of each file by its key and is written last, so that files without it are
    made again.
    """
    noted: Mapping[str, Any] | None = read_note_on(note, files, then)
    if noted is None:
        noted = {**make(), **{member: hash_content(path) for member, path in files.items()}}
        write_note(note, noted)
    return noted


def parse_note(content: bytes) -> dict[str, Any]:
    """Parse the content of a note. Raises DamagedError."""
    try:
        values: dict[str, Any] = json.loads(remove_seal(content))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"it is not JSON: {first_line(error)}") from error
    return values


#: hashes of files by what changes with their bytes: device, inode, size and both times
_HASHES: dict[tuple[int, ...], str] = {}


def hash_content(path: Path, within: Path | None = None) -> str:
    """SHA-256 (hex) of a file's bytes, read once per process unless its size or time changes.
    Raises OSError.

    Unlike `harness.sources.hash_file`, each process reads the bytes, so changes that keep size and
    time are noticed.
    """
    with open_regular(path, within) as stream:
        status = os.fstat(stream.fileno())
        times = status.st_mtime_ns, status.st_ctime_ns
        key = (status.st_dev, status.st_ino, status.st_size, *times)
        if key not in _HASHES:
            _HASHES[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return _HASHES[key]


def check_file(path: Path, expected: str, within: Path | None = None) -> None:
    """Raise DamagedError if a file does not have this hash."""
    try:
        actual = hash_content(path, within)
    except OSError as error:
        raise DamagedError(f"it cannot be read: {first_line(error)}") from error
    if actual != expected:
        raise DamagedError("it has changed since it was written")


def seal_folder(folder: Path) -> None:
    """Write the hashes of all files of a complete folder, before it is moved into place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    text = "".join(
        f"{hash_content(path)}  {path.relative_to(folder).as_posix()}\n" for path in files
    )
    (folder / CHECKSUMS).write_text(f"{text}# {hash_text(text)}\n", encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Raise DamagedError if a folder has changed since it was sealed, naming the first changed
    file.
    """
    try:
        *lines, last = read_regular(folder / CHECKSUMS, folder).decode().splitlines(keepends=True)
    except (OSError, ValueError) as error:
        raise DamagedError(f"{CHECKSUMS} cannot be read: {first_line(error)}") from error

    if last != f"# {hash_text(''.join(lines))}\n":
        raise DamagedError(f"{CHECKSUMS} has changed since it was written")

    for line in lines:
        expected, _, name = line.rstrip("\n").partition("  ")
        try:
            check_file(folder / name, expected, folder)
        except DamagedError as error:
            raise DamagedError(f"{name}: {error}") from error


def put_aside(path: Path, why: object, then: str, within: Path | None = None) -> None:
    """Rename a file or a folder to NAME.damaged, in place of an earlier one, and warn in one line.

    `then` describes the consequence. If renaming fails, the file is left for its next writer to
    replace.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        remove(aside, within)
        rename(path, aside.name, within)
    except OSError as error:
        log.warning(
            "%s is damaged (%s) and cannot be renamed (%s); %s", path, why, error.strerror, then
        )
    else:
        log.warning("%s is damaged (%s); renamed to %s, %s", path, why, aside.name, then)


def hash_text(text: str) -> str:
    """SHA-256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
