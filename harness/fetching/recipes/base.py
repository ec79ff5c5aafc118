"""The interface of recipes, archives and tables."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.extract import unpack
from harness.files import remove

#: file of an origin -> paths of its files, or of the folder that replaces it in an import
Got = Mapping[str, Sequence[Path]]
#: puts a file or folder at another path, by move, copy or link
Take = Callable[[Path, Path], None]
#: (entry, downloads, folder for the outputs, take)
Recipe = Callable[[Entry, Got, Path, Take], None]


def only(entry: Entry, got: Got, file: str) -> Path:
    """The single file or folder of an origin. Raises UserError."""
    found = got.get(file, ())
    if len(found) != 1:
        raise UserError(f"{entry.name} needs {file} once, {len(found)} were given; put it in the folder")
    return found[0]


@contextmanager
def content_of(archive: Path, out: Path) -> Iterator[Path]:
    """The content of an archive in a temporary folder below `out`; a folder itself if one replaces the archive."""
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
    """Write a tab-separated table without quoting, gzip by suffix; tabs and line breaks become spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        # no name or time in the gzip header, so that equal rows give equal bytes
        packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text:
            text.write("\t".join(header) + "\n")
            for row in rows:
                text.write("\t".join(clean(field) for field in row) + "\n")


def clean(text: str) -> str:
    """Remove tabs, line breaks and surrounding spaces from a field."""
    for letter in "\t\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029":
        text = text.replace(letter, " ")
    return text.replace("\ufeff", "").strip()


def raw_lines(path: Path) -> list[str]:
    """Lines of a text file in UTF-8, or else Latin-1, split at line feeds only. Raises UserError."""
    try:
        return text_lines(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"there is no {path.name} in {path.parent}; check the input") from error


def text_lines(raw: bytes) -> list[str]:
    """Lines of a text in UTF-8, or else Latin-1, split at line feeds only."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.removesuffix("\n").split("\n") if text else []
