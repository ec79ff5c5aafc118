"""The rows of a data file, whose columns are chosen by name, whatever the file's format."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from harness.columnar import convert_to_texts, get_value_type, is_text, read_columns, read_schema
from harness.datafiles import (
    COLUMNAR,
    detect_container,
    is_json,
    is_json_array,
    list_parts,
    parse_json,
    read_json,
    read_lines,
)
from harness.errors import UserError
from harness.formatting import first_of

#: lines from which a table is told from text
HEAD = 100
#: names of image files, as in the first column of captions without a header
IMAGE_FILE = re.compile(r"\s*[^\t,;|]*\.(jpe?g|png|gif|bmp|webp|tiff?)(#\d+)?\s*", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
#: a name in a header, and headers of one column
_NAME = re.compile(r'"?[^\W\d](?:.{0,38}[^\s.!?])?"?')
_LONE = (
    *("text", "texts", "sentence", "sentences", "caption", "captions", "premise", "hypothesis"),
    *("sentence1", "sentence2", "sent0", "sent1", "question", "query", "title", "content"),
    *("review", "document", "passage", "utterance", "comment", "description", "article"),
    *("abstract", "body"),
)
#: a whole field in quotes, and a header of one word
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d]\w*")


class TableRow(NamedTuple):
    """The wanted columns of one row of a table, as texts, and where it begins: 'FILE, line 3'."""

    where: str
    values: tuple[str, ...]


class TablePart(NamedTuple):
    """The part of a table that is read: the rows with one of these values in a column."""

    column: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str | None) -> TablePart | None:
        """Read a profile's key `split`: 'train', 'train+dev', or of another column 'fold=0+1'."""
        if text is None:
            return None
        column, _, values = text.rpartition("=")
        return cls(column or "split", tuple(values.split("+")))


def read_rows(path: Path, *columns: str, split: TablePart | None = None) -> Iterator[TableRow]:
    """Yield the rows of a table, or of a part of it, read lazily. Empty lines are skipped.

    Raises UserError naming the line: for a missing column, a row of another length than the header,
    a missing value, and if there are no rows.
    """
    names = columns if split is None else (*columns, split.column)
    counts = Counter[str]()
    for file in list_parts(path):
        for row in _read_rows_of_file(file, names):
            if split is None:
                counts[""] += 1
                yield row
                continue

            *values, part = row.values
            counts[part.strip()] += 1
            if part.strip() in split.values:
                yield TableRow(row.where, tuple(values))

    if not counts:
        raise UserError(f"{path} has no rows; give a table with a header and rows")
    if split is not None:
        check_parts(path, split, counts)


def _read_rows_of_file(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    if detect_container(path) in COLUMNAR:
        return _read_columnar_rows(path, columns)
    if is_json(path):
        return _read_json_rows(path, columns)
    return _read_delimited_rows(path, columns)


def _read_columnar_rows(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    arrow_table = read_columns(path, *columns)
    texts_by_column = [convert_to_texts(path, name, arrow_table.column(name)) for name in columns]
    for number, texts in enumerate(zip(*texts_by_column, strict=True), 1):
        yield TableRow(f"{path}, row {number}", texts)


def _read_json_rows(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    for place, values in read_objects(path, *columns):
        for name, value in zip(columns, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                content = "a list" if isinstance(value, list) else f"the value {json.dumps(value)}"
                raise UserError(
                    f"{place}: '{name}' has {content}, neither a text nor a number; correct the line"
                )

        texts = tuple(map(str, values))
        # whether texts are ASCII is known without a search
        if not "".join(texts).isascii() and any(map(_SURROGATE.search, texts)):
            raise UserError(f"{place}: a text has half of a surrogate pair; correct the line")
        yield TableRow(place, texts)


def _read_delimited_rows(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    rows = read_cells(path)
    line, header = next(rows)
    names = [name.strip() for name in header]
    _check_names(f"{path}, line {line}", names, columns)

    positions = [names.index(name) for name in columns]
    for line, cells in rows:
        if len(cells) != len(names):
            raise UserError(
                f"{path}, line {line}: {len(cells)} fields, the header has {len(names)}; correct the line"
            )
        yield TableRow(f"{path}, line {line}", tuple(cells[position] for position in positions))


def _check_names(place: str, present: Sequence[str], columns: Sequence[str]) -> None:
    """Raise UserError for a column that is missing or there twice."""
    for name in columns:
        if present.count(name) == 1:
            continue
        occurrence = "two columns" if name in present else "no column"
        listed = first_of(present, 10) or "none"
        raise UserError(
            f"{place}: {occurrence} '{name}' among {listed}; name the column in the profile, or "
            "correct the header"
        )


def read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line of a tab- or comma-separated table that is not empty.
    Raises UserError.
    """
    lines = ((number, line.removesuffix("\r")) for number, line in enumerate(read_lines(path), 1))
    number, header = next((number, line) for number, line in lines if line.strip())
    if "\t" in header:
        is_tabbed = True
    elif "," in header:
        is_tabbed = False
    else:
        for sign in ";|":
            if sign in header:
                raise UserError(
                    f"{path}, line {number}: its fields are separated by '{sign}'; separate them by tabs or commas"
                )
        is_tabbed = _is_named(path, ".tsv")

    if is_tabbed:
        yield number, header.split("\t")
        yield from _split_at_tabs(path, lines)
    else:
        yield from _split_at_commas(path, chain([(number, header)], lines), number)


def _split_at_tabs(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        if "\r" in line:
            raise UserError(
                f"{path}, line {number}: a carriage return inside the line; correct the line"
            )
        if line.strip(" "):
            yield number, line.split("\t")


def _split_at_commas(
    path: Path, lines: Iterator[tuple[int, str]], first_line: int
) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for _, line in lines), strict=True)
    # a row may take several lines: it is named by its first
    start = first_line
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = first_line + reader.line_num
    except csv.Error as error:
        raise UserError(
            f"{path}, line {start}: {error}; quote the field, or correct the line"
        ) from error


def _is_named(path: Path, *suffixes: str) -> bool:
    """Whether the name of a file, plain or gzip, ends so."""
    return path.name.removesuffix(".gz").endswith(suffixes)


def read_objects(path: Path, *columns: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the values of some keys of each object of JSON lines, or of a list of objects, with its
    place: 'FILE, line 3'.

    Raises UserError naming the line.
    """
    for part in list_parts(path):
        rows = _read_array(part) if is_json_array(part) else _read_json_lines(part)
        for place, row in rows:
            if not isinstance(row, dict):
                raise UserError(f"{place}: not a JSON object; write one object a line")
            _check_names(place, list(row), columns)
            yield place, [row[name] for name in columns]


def _read_array(path: Path) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(read_json(path), 1):
        yield f"{path}, object {number}", row


def _read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            yield place, parse_json(line)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{place}: not a JSON object: {error}; write one object a line"
            ) from error


def read_valid_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of JSON lines, or of a list of objects, whatever their keys, without those that
    `read_rows` refuses. Raises UserError.
    """
    for part in list_parts(path):
        if is_json_array(part):
            yield from (row for row in read_json(part) if isinstance(row, dict))
            continue

        for line in read_lines(part):
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row


def check_parts(path: Path, split: TablePart, counts: Mapping[str, int]) -> None:
    """Raise UserError for a part that a table does not have; `counts` are the rows of its parts."""
    for value in split.values:
        # data sets without it are published with the advice to read 'train+restval' too
        may_be_absent = value == "restval" and len(split.values) > 1
        if value not in counts and not may_be_absent:
            raise UserError(
                f"{path} has no rows of the split '{value}'; its column '{split.column}' has "
                f"{describe_parts(counts)}; choose among these"
            )


def describe_parts(counts: Mapping[str, int]) -> str:
    """The parts of a table with their rows: 'train (64), test (8)'."""
    return first_of([f"{name} ({count})" for name, count in counts.items()], 10)


def read_column_values(path: Path, name: str) -> Iterator[str]:
    """The values of one column of a table as texts; of Parquet and Arrow those of texts, numbers and
    truth values alone.
    """
    for part in list_parts(path):
        if detect_container(part) not in COLUMNAR:
            yield from (row.values[0] for row in read_rows(part, name))
        elif _has_plain_values(part, name):
            yield from (str(value.as_py()) for value in read_columns(part, name).column(0))


def _has_plain_values(path: Path, name: str) -> bool:
    """Whether a Parquet or Arrow table has a column of texts, numbers or truth values."""
    from pyarrow import types

    schema = read_schema(path)
    if name not in schema.names:
        return False
    kind = get_value_type(schema.field(name).type)
    is_number = types.is_integer(kind) or types.is_floating(kind)
    return is_text(kind) or is_number or types.is_boolean(kind)


def count_values(path: Path, name: str) -> Counter[str]:
    """How often a column of a table has each value, in less time than reading the rows takes.
    Raises UserError.
    """
    counts = Counter[str]()
    for part in list_parts(path):
        if detect_container(part) in COLUMNAR:
            counts.update(value.strip() for value in read_column_values(part, name))
        elif is_json(part):
            counts.update(str(row[name]).strip() for row in read_valid_objects(part) if name in row)
        else:
            rows = read_cells(part)
            _, header = next(rows)
            position = [title.strip() for title in header].index(name)
            counts.update(cells[position].strip() for _, cells in rows if position < len(cells))
    return counts


def parse_finite_number(place: str, text: str) -> float:
    """Read a finite number. Raises UserError."""
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    raise UserError(f"{place}: the score '{text}' is not a number; correct or remove the line")


def read_column_names(path: Path) -> list[str]:
    """Names of the columns of a table: of Parquet or Arrow, the keys of an object in a line, or a
    header's fields.

    Of several files, the first counts. Raises UserError for a file that cannot be read.
    """
    path = list_parts(path)[0]
    if detect_container(path) in COLUMNAR:
        return list(read_schema(path).names)
    if not is_json(path):
        _, header = next(read_cells(path))
        return header

    first = None
    if is_json_array(path):
        rows = read_json(path)
        if rows:
            first = rows[0]
    else:
        # one value over several lines, or in a line that is too long, is no row of a table
        with suppress(ValueError, RecursionError, UserError):
            first = json.loads(next(filter(str.strip, read_lines(path))))
    return list(first) if isinstance(first, dict) else []


def read_all_column_names(path: Path) -> list[str]:
    """Names of the columns of all files of a table, and of the keys of all objects of JSON, which
    may differ. Raises UserError.
    """
    names = dict[str, None]()
    for part in list_parts(path):
        if detect_container(part) in COLUMNAR or not is_json(part):
            names |= dict.fromkeys(read_column_names(part))
            continue
        for row in read_valid_objects(part):
            names |= dict.fromkeys(row)
    return list(names)


def detect_columns(path: Path) -> list[str] | None:
    """The columns of a file that is a table or JSON rather than one text a line; None if it is
    text.

    In text, a first line of names, a first field that names an image, as many tabs in every line,
    or a field in quotes in each tell a table; a lone name tells one in a file named .csv or .tsv.
    """
    path = list_parts(path)[0]
    if detect_container(path) in COLUMNAR or is_json(path):
        return read_column_names(path)

    lines = list(islice(filter(str.strip, read_lines(path)), HEAD))
    if not lines:
        return None

    for separator in "\t,;|":
        rows = [_split_line(line, separator) for line in lines]
        if len(rows[0]) > 1 and _is_regular(rows, separator):
            return [name.strip() for name in rows[0]]
    return _detect_lone_column(path, lines)


def _split_line(line: str, separator: str) -> list[str]:
    if separator == "\t":
        return line.split("\t")
    return next(csv.reader([line], delimiter=separator), [])


def _is_regular(rows: Sequence[Sequence[str]], separator: str) -> bool:
    """Whether the fields of the first lines of a text are those of a table."""
    header, *further_rows = rows
    if IMAGE_FILE.fullmatch(header[0]):
        return True

    equally_long = sum(len(row) == len(header) for row in further_rows)
    # in prose, a blank follows a comma
    inner_cells = chain.from_iterable(row[1:] for row in rows)
    is_prose = separator in ",;" and any(cell.startswith(" ") for cell in inner_cells)
    # a tab is rare in prose, so that one further line is enough
    fewest_lines = 1 if separator == "\t" else 3
    if equally_long == len(further_rows) >= fewest_lines and not is_prose:
        return True

    names = [cell.strip() for cell in header] if separator == "|" else header
    has_names = len(set(names)) == len(names) and all(map(_NAME.fullmatch, names))
    return has_names and 2 * equally_long > len(further_rows)


def _detect_lone_column(path: Path, lines: Sequence[str]) -> list[str] | None:
    """The name of the only column of a table, by its first lines; None if they are text."""
    if len(lines) < 2:
        return None

    header = lines[0].strip().strip('"')
    is_quoted = all(_QUOTED.fullmatch(line.strip()) for line in lines[1:])
    is_word = _WORD.fullmatch(header) is not None
    is_name = header.lower() in _LONE or (is_word and _is_named(path, ".csv", ".tsv"))
    return [header] if is_quoted or is_name else None
