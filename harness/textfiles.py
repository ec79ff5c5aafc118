"""Text files below the data root: lines, and tab-separated tables with a header; texts compared by their words."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UserError

_BLANK = re.compile(r"[\W_]+")


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, gzip by its suffix, split at line feeds only and read lazily.

    Raises UserError naming the line when the file is damaged or not UTF-8.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        where = f", line {number}," if isinstance(error, UnicodeDecodeError) else ""
        raise UserError(f"{path}{where} cannot be read as UTF-8 text: {error}; fetch it again") from error


def read_lines(path: Path) -> list[str]:
    """Return all lines of a text file. Raises UserError when it is damaged, not UTF-8 or blank."""
    lines = list(lines_of(path))
    if not any(line.strip() for line in lines):
        raise UserError(f"{path} is empty; fetch it again")
    return lines


def read_table(path: Path, *columns: str) -> list[dict[str, str]]:
    """Return the rows of a tab-separated file by column name; row i stands on line i + 2, no quoting is read.

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
        raise UserError(f"{path} has a header and no rows; fetch it again")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise UserError(
                f"{path}, line {line}: {len(row)} tab-separated fields, the header has {len(header)}; "
                "correct the line or fetch the file again"
            )
    return [dict(zip(header, row, strict=True)) for row in rows]


def normalised_text(text: str) -> str:
    """Lower-case a text and replace everything but letters and digits, of any script, by single blanks."""
    return _BLANK.sub(" ", text.lower()).strip()
