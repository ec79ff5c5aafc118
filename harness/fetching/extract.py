"""Safe unpacking of untrusted archives.

Members outside the target folder, links, devices and archives larger than the limits raise UserError.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from harness.errors import UserError

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class Limits:
    """Limits of an unpacked archive."""

    bytes: int = 200 * 10**9
    members: int = 2_000_000
    ratio: int = 1000


def unpack(archive: Path, target: Path, limits: Limits = Limits()) -> None:
    """Unpack a zip or tar archive (plain, gzip, bzip2, xz) into a new folder.

    Raises UserError for a damaged archive, a member outside the folder, a link, a device, or exceeded limits.
    """
    total = members = 0
    bound = min(limits.bytes, max(archive.stat().st_size, 1 << 16) * limits.ratio)
    try:
        for name, stream in _members(archive):
            members += 1
            place = _inside(archive, target, name)
            if members > limits.members:
                raise UserError(
                    f"{archive} has more than {limits.members} members; download it again from its publisher"
                )
            if stream is not None:
                total += _write(archive, place, stream, bound - total)
            elif place.exists() and not place.is_dir():
                raise UserError(f"{archive} has the member {name} twice; download it again from its publisher")
            else:
                place.mkdir(parents=True, exist_ok=True)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"the archive {archive} cannot be read: {error}; fetch it again") from error


def _write(archive: Path, place: Path, stream: IO[bytes], left: int) -> int:
    written = 0
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        out = place.open("xb")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise UserError(f"{archive} has the member {place.name} twice; download it again from its publisher") from error
    with out:
        while block := stream.read(1 << 20):
            written += len(block)
            if written > left:
                raise UserError(f"{archive} unpacks to more than the limit; download it again from its publisher")
            out.write(block)
    return written


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Yield name and content of every member, None for folders. Raises UserError for links and devices."""
    if zipfile.is_zipfile(archive):
        yield from _zip_members(archive)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isdir():
                yield member.name, None
            elif member.isfile() and (stream := tar.extractfile(member)) is not None:
                yield member.name, stream
            else:
                raise _refused(archive, member.name, "a link or a device")


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            kind = stat.S_IFMT(item.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refused(archive, item.filename, "a link or a device")
            if item.is_dir():
                yield item.filename, None
            else:
                with packed.open(item) as stream:
                    yield item.filename, stream


def _inside(archive: Path, target: Path, name: str) -> Path:
    """The path of a member. Raises UserError if it is not below the target."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or any(letter in name for letter in "\\\0\n"):
        raise _refused(archive, name, "a path outside the folder")
    return target.joinpath(*path.parts)


def _refused(archive: Path, name: str, why: str) -> UserError:
    return UserError(
        f"{archive} has {why}: {name!r}; it was not unpacked; download the archive again from its publisher"
    )
