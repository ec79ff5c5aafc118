"""Building blocks of recipes: their interface, unpacking archives, and writing tables."""

from __future__ import annotations

import errno
import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError, first_line
from harness.fetching.entries import Entry
from harness.files import check_unpacked, remove

#: file of an origin -> paths of its files, or of the folder that replaces it in an import
Got = Mapping[str, Sequence[Path]]
#: places a file or folder at another path, by move, copy or link
Take = Callable[[Path, Path], object]
#: (entry, downloads, folder for the outputs, take)
Recipe = Callable[[Entry, Got, Path, Take], None]
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
#: errors if a member of an archive is a file where another member needs a folder, or the reverse
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
#: kinds of members of a zip: not stated, a file, a folder
_PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)


def get_single(entry: Entry, got: Got, file: str) -> Path:
    """The single file or folder of an origin. Raises UserError."""
    files = got.get(file, ())
    if len(files) != 1:
        raise UserError(
            f"{entry.name} needs {file} once, {len(files)} were given; put it in the folder"
        )
    return files[0]


class _MemberCheck:
    """Refuses members of an archive that lie outside the folder, are links, or come twice."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files = set[str]()

    def check(self, name: str, *, is_file: bool, is_folder: bool) -> None:
        """Raises UserError naming the flaw of a member."""
        if name.startswith("/") or ".." in name.split("/") or not {*"\\\0\n"}.isdisjoint(name):
            flaw = "a path outside the folder"
        elif not (is_file or is_folder):
            flaw = "a link or a device"
        elif is_file and name in self._files:
            flaw = "a member twice"
        else:
            if is_file:
                self._files.add(name)
            return

        raise UserError(
            f"{self._archive} has {flaw}: {name!r}; it was not unpacked; download it again from its publisher"
        )


def _unpack_tar(archive: Path, target: Path) -> None:
    members = _MemberCheck(archive)
    size = 0

    def check(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        members.check(member.name, is_file=member.isfile(), is_folder=member.isdir())
        nonlocal size
        size += member.size
        check_unpacked(archive, size)
        return tarfile.data_filter(member, folder)

    with tarfile.open(archive) as tar:
        tar.extractall(target, filter=check)


def _unpack_zip(archive: Path, target: Path) -> None:
    members = _MemberCheck(archive)
    size = 0
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            is_plain = stat.S_IFMT(item.external_attr >> 16) in _PLAIN
            is_file = is_plain and not item.is_dir()
            members.check(item.filename, is_file=is_file, is_folder=item.is_dir())
            size += item.file_size
        check_unpacked(archive, size)
        packed.extractall(target)


def unpack(archive: Path, target: Path) -> None:
    """Unpack an untrusted zip or tar archive (plain, gzip, bzip2, xz) into a new folder.

    Raises UserError for a damaged archive, one that unpacks to far more than its size, a member
    outside the folder, a link or a device.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, target)
        else:
            _unpack_tar(archive, target)
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, *_IN_THE_WAY):
            raise
        raise UserError(
            f"the archive {archive} cannot be read: {first_line(error)}; fetch it again"
        ) from error


@contextmanager
def open_content(archive: Path, out: Path) -> Iterator[Path]:
    """The content of an archive in a temporary folder below `out`; a folder itself if one replaces
    the archive. After an error it stays: whoever tries again removes `out` first.
    """
    if archive.is_dir():
        yield archive
        return
    temporary = out / ".unpacked"
    unpack(archive, temporary)
    yield temporary
    remove(temporary)


def write_parquet(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    """Write columns as a Parquet file."""
    import pyarrow
    import pyarrow.parquet as parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a tab-separated table without quoting, gzip by suffix; tabs and line breaks become
    spaces.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        # no name or time in the gzip header, so that equal rows give equal bytes
        packed = (
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)
            if path.suffix == ".gz"
            else raw
        )
        with io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text:
            text.write("\t".join(header) + "\n")
            for row in rows:
                text.write("\t".join(map(clean, row)) + "\n")


def clean(text: str) -> str:
    """Remove tabs, line breaks and surrounding spaces from a field."""
    for letter in "\t\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        text = text.replace(letter, " ")
    return text.replace("\ufeff", "").strip()


def read_published_lines(path: Path) -> list[str]:
    """Lines of a text file in UTF-8, or else Latin-1, split at line feeds only. Raises UserError."""
    try:
        return split_lines(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"there is no {path.name} in {path.parent}; check the input") from error


def split_lines(raw: bytes) -> list[str]:
    """Lines of a text in UTF-8, or else Latin-1, split at line feeds only."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if not text:
        return []
    return text.removesuffix("\n").split("\n")
