"""Reading data files: lines of text, tab-separated tables with a header, users' tables, Parquet.

A table of a user is named .tsv (no quoting), .csv (quoted where necessary) or .jsonl (an object a line), each plain
or with .gz; its columns are chosen by name. Texts are compared by their words.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.errors import RESTORE, UserError, first_line
from harness.files import open_regular

if TYPE_CHECKING:
    from pyarrow import Table

#: maximum bytes of a line
LONGEST_LINE = 10**7
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = re.compile(r"[\W_]+")
#: file name suffixes of tables
TABLES = (".tsv", ".csv", ".jsonl")


#: first bytes of the files that are no text, and what they are
_CONTAINERS = {
    b"PAR1": "parquet",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
}
_SAFETENSORS = re.compile(rb'.{8}\s*\{\s*"', re.DOTALL)


def container_of(path: Path) -> str:
    """What a file is by its first bytes: parquet, hdf5, npy, zip, gzip, safetensors, or text. Raises UserError."""
    try:
        with open_regular(path) as file:
            first = file.read(64)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; {RESTORE}") from error
    named = next((name for begin, name in _CONTAINERS.items() if first.startswith(begin)), "")
    return named or ("safetensors" if b"\0" in first[:8] and _SAFETENSORS.match(first) else "text")


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, gzip by its suffix, split at line feeds only and read lazily.

    Raises UserError naming the line when the file is damaged or not UTF-8.
    """
    number = 0
    try:
        with open_regular(path) as file, gzip.open(file) if path.suffix == ".gz" else file as stream:
            # calls with a limit, since iterating a file would read a line of any length
            for number, raw in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), start=1):
                if len(raw) > LONGEST_LINE:
                    raise UserError(
                        f"{path}, line {number} has more than {LONGEST_LINE / 1e6:.0f} MB; lines end with a line feed: "
                        "is it the right file?"
                    )
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                if number == 1 and "\r" in line.rstrip("\r") and not line.endswith("\n"):
                    raise UserError(f"{path} has carriage returns and no line feed; end its lines with a line feed")
                yield line.removesuffix("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        where = f", line {number}," if isinstance(error, UnicodeDecodeError) else ""
        raise UserError(f"{path}{where} cannot be read as UTF-8 text: {error}; {RESTORE}") from error


def read_lines(path: Path) -> list[str]:
    """Return all lines of a text file. Raises UserError when it is damaged, not UTF-8 or blank."""
    lines = list(lines_of(path))
    if not any(line.strip() for line in lines):
        raise UserError(f"{path} is empty; {RESTORE}")
    return lines


def read_table(path: Path, *columns: str) -> list[dict[str, str]]:
    """Return the rows of a tab-separated file by column name; row i is on line i + 2; quotes have no meaning.

    Raises UserError, naming the line, for a missing column, a row of another length than the header, or no rows.
    """
    header, *rows = (line.split("\t") for line in read_lines(path))
    for name in columns:
        if name not in header:
            raise UserError(
                f"{path}, line 1: no column '{name}' among {header}; the file needs a tab-separated header, and lines "
                "that end with a line feed only"
            )
    if not rows:
        raise UserError(f"{path} has a header and no rows; {RESTORE}")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {line}: {len(row)} tab-separated fields, the header has {len(header)}; correct the line"
            )
    return [dict(zip(header, row, strict=True)) for row in rows]


class TableRow(NamedTuple):
    """The wanted columns of one row of a table, as texts, and the line on which it begins."""

    line: int
    values: tuple[str, ...]


def is_table(name: str) -> bool:
    """Whether a file is a table, judged by its name."""
    return name.removesuffix(".gz").endswith(TABLES)


def is_jsonl(path: Path) -> bool:
    """Whether a table has an object on each line."""
    return path.name.removesuffix(".gz").endswith(".jsonl")


def read_rows(path: Path, *columns: str) -> Iterator[TableRow]:
    """Yield the rows of a table, read lazily. Blank lines are skipped.

    Raises UserError naming the line: for a missing column, a row of another length than the header, or no valid row.
    """
    if not is_table(path.name):
        raise UserError(
            f"{path} is not a table; give a file named {', '.join(TABLES[:-1])} or {TABLES[-1]}, or these with .gz"
        )
    if is_jsonl(path):
        yield from _objects(path, columns)
        return
    rows = cells_of(path)
    line, header = next(rows, (1, []))
    places = [_place(path, line, header, name) for name in columns]
    for line, cells in rows:
        if len(cells) != len(header):
            raise UserError(f"{path}, line {line}: {len(cells)} fields, the header has {len(header)}; correct the line")
        yield TableRow(line, tuple(cells[column] for column in places))


def cells_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each non-blank line of a .tsv or .csv table. Raises UserError."""
    lines = (line.removesuffix("\r") for line in lines_of(path))
    if path.name.removesuffix(".gz").endswith(".tsv"):
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip())
        return
    reader, start = csv.reader((f"{line}\n" for line in lines), strict=True), 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {start}: {error}; quote the field, or correct the line") from error


def _place(path: Path, line: int, header: Sequence[str], name: str) -> int:
    if header.count(name) != 1:
        what = "two columns" if name in header else "no column"
        raise UserError(
            f"{path}, line {line}: {what} '{name}' among {', '.join(header) or 'none'}; name the column in the "
            "profile, or correct the header"
        )
    return header.index(name)


def _objects(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: not a JSON object: {error}; correct the line") from error
        values = [row.get(name) if isinstance(row, dict) else None for name in columns]
        for name, value in zip(columns, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise UserError(f"{path}, line {number}: '{name}' is neither a text nor a number; correct the line")
        texts = tuple(map(str, values))
        if not "".join(texts).isascii() and any(map(_SURROGATE.search, texts)):
            raise UserError(f"{path}, line {number}: a text has half of a surrogate pair; correct the line")
        yield TableRow(number, texts)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def normalised_text(text: str) -> str:
    """Lower-case a text and replace everything but letters and digits, of any script, by single blanks."""
    return _BLANK.sub(" ", text.lower()).strip()


def column_names(path: Path) -> list[str]:
    """Names of the columns of a Parquet file. Raises UserError for any other file."""
    import pyarrow.parquet as parquet

    with _plain_errors(path):
        return list(parquet.read_schema(path).names)


def check_columns(path: Path, *names: str) -> int:
    """The number of rows, read from the footer. Raises UserError for a missing column or a file that is not Parquet."""
    import pyarrow.parquet as parquet

    with _plain_errors(path):
        metadata = parquet.read_metadata(path)
        there = list(metadata.schema.to_arrow_schema().names)
    if missing := [name for name in names if name not in there]:
        has = f"it has {', '.join(there[:10])}" if there else "it has none"
        raise UserError(f"{path} has no column {' and '.join(missing)}; {has}; rename one, or give another file")
    return int(metadata.num_rows)


def read_columns(path: Path, *names: str) -> Table:
    """Read columns of a Parquet file. Raises UserError for any other file or a missing column."""
    import pyarrow.parquet as parquet

    check_columns(path, *names)
    with _plain_errors(path):
        return parquet.read_table(path, columns=list(names)).select(list(names))


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        raise UserError(f"{path} is not a Parquet file: {first_line(error)}; {RESTORE}") from error
