"""Data files: lines of text, and tables whose columns are chosen by name.

What a file is follows from its content, never from its name: Parquet, Arrow, JSON with an object a
line, tab-separated (quotes have no meaning) or comma-separated (quoted where necessary), each text
plain or gzip. Only a header of one column says neither; such a table is tab-separated if it is
named .tsv. Texts are compared by their words.

A table, or a text of one row a line, may be in several files: a path with `*` in the file's name,
such as `train-*.parquet`, or a folder that the library `datasets` saved.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from harness.errors import RESTORE, UserError, first_line
from harness.files import open_regular, read_regular
from harness.formatting import first_of

if TYPE_CHECKING:
    from pyarrow import ChunkedArray, Schema, Table

#: maximum bytes of a line
LONGEST_LINE = 10**7
#: lines from which a table is told from text
HEAD = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = re.compile(r"[\W_]+")

#: first bytes of the files that are no text, and what they are
_CONTAINERS = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
}
#: files that hold typed columns
COLUMNAR = ("parquet", "arrow")
#: the end of a whole stream of Arrow, without which rows may be missing
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
#: how the names of a table's files say how many there are
SHARD = re.compile(r".*-\d+-of-(\d+)\.")
_SAFETENSORS = re.compile(rb'.{8}\s*\{\s*"', re.DOTALL)
#: how texts begin that stand in the place of a file of data, what they are, and what to do
_NO_DATA = {
    re.compile(
        r"version https://git-lfs\.github\.com/"
    ): "a pointer of Git LFS, not the file; run `git lfs pull` there",
    re.compile(
        r"\s*<(!doctype|html|\?xml)", re.IGNORECASE
    ): "a web page, not the data; download the file itself",
    re.compile(r".*\0", re.DOTALL): "no text in UTF-8 (it has zero bytes); save it as UTF-8",
}
_STRING = r'"(?:[^"\\]|\\.)*"'
#: how JSON begins: an object with a key, or an array of objects or strings; a sentence in brackets
#: does not
_JSON = re.compile(rf"\s*(?:[\[\s]*\{{\s*{_STRING}\s*:|\[[\[\s]*{_STRING}\s*[,\]])")
#: names of image files, as in the first column of captions without a header
IMAGE_FILE = re.compile(r"\s*[^\t,;|]*\.(jpe?g|png|gif|bmp|webp|tiff?)(#\d+)?\s*", re.IGNORECASE)
#: a name in a header, and headers of one column
_NAME = re.compile(r'"?[^\W\d](?:.{0,38}[^\s.!?])?"?')
_LONE = ("text", "sentence", "sentences", "caption", "captions")
#: how a missing value is written as text
_ABSENT = ("nan", "none", "null")


def parts_of(path: Path) -> list[Path]:
    """The files of a table or text, in order; the path itself if it is no pattern that files fit
    and no saved folder.

    Raises UserError for any other folder, and if some of the files are missing.
    """
    if path.is_dir():
        return _saved(path)
    fitting = escape(path.name).replace("[*]", "*")
    parts = (
        sorted(part for part in path.parent.glob(fitting) if part.is_file())
        if "*" in path.name
        else []
    )
    counts = {int(named[1]) for part in parts if (named := SHARD.match(part.name))}
    if counts and counts != {len(parts)}:
        raise UserError(f"{len(parts)} of {max(counts)} files of {path} are there; {RESTORE}")
    return parts or [path]


def _saved(folder: Path) -> list[Path]:
    """The files of a folder that `datasets` saved, as its state lists them."""
    try:
        if (folder / "dataset_dict.json").is_file():
            splits = json.loads(read_regular(folder / "dataset_dict.json"))["splits"]
            raise UserError(
                f"{folder} has the splits {first_of(splits, 10)}; name one of them: {folder / splits[0]}"
            )
        state = json.loads(read_regular(folder / "state.json"))
        parts = [folder / Path(file["filename"]).name for file in state["_data_files"]]
    except FileNotFoundError:
        raise UserError(
            f"{folder} is a folder; name its files, such as {folder / '*.parquet'}"
        ) from None
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise UserError(
            f"{folder} is not a folder that `datasets` saved whole: {error!r}; {RESTORE}"
        ) from error
    if state.get("_indices_data_files") or not all(part.is_file() for part in parts):
        raise UserError(
            f"{folder} is not a folder of all its rows in order; save it again with save_to_disk"
        )
    return parts


def container_of(path: Path) -> str:
    """What a file is by its first bytes, of several files the first one.

    One of parquet, arrow, hdf5, npy, zip, gzip, safetensors and text. Raises UserError.
    """
    try:
        with open_regular(parts_of(path)[0]) as file:
            first = file.read(64)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; {RESTORE}") from error
    named = next((name for begin, name in _CONTAINERS.items() if first.startswith(begin)), "")
    return named or ("safetensors" if b"\0" in first[:8] and _SAFETENSORS.match(first) else "text")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a text, plain or gzip. Raises UserError where they cannot be read or decoded."""
    kind = container_of(path)
    if kind not in ("text", "gzip"):
        raise UserError(
            f"{path} is no text but a file of the format {kind}; name its columns in the profile if it is a table"
        )
    try:
        with (
            open_regular(path) as file,
            cast(IO[bytes], gzip.open(file)) if kind == "gzip" else file as stream,
        ):
            yield stream
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text: {error}; {RESTORE}") from error


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of UTF-8 text, plain or gzip, split at line feeds only and read lazily.

    Raises UserError naming the line when a file is damaged, not UTF-8, blank, or no data at all.
    """
    for part in parts_of(path):
        yield from _lines_of(part)


def _lines_of(path: Path) -> Iterator[str]:
    number, blank = 0, True
    with _opened(path) as stream:
        try:
            # calls with a limit, since iterating a file would read a line of any length
            for number, raw in enumerate(
                iter(partial(stream.readline, LONGEST_LINE + 1), b""), start=1
            ):
                if len(raw) > LONGEST_LINE:
                    raise UserError(
                        f"{path}, line {number} has more than {LONGEST_LINE / 1e6:.0f} MB; lines end with a line feed: "
                        "is it the right file?"
                    )
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                if number == 1:
                    _check_first(path, line)
                blank = blank and not line.strip()
                yield line.removesuffix("\n")
        except UnicodeDecodeError as error:
            where = f"{path}, line {number}, cannot be read as UTF-8 text"
            raise UserError(f"{where}: {error}; save it as UTF-8, or {RESTORE}") from error
    if blank:
        raise UserError(f"{path} is empty; {RESTORE}")


def _check_first(path: Path, line: str) -> None:
    for begin, what in _NO_DATA.items():
        if begin.match(line):
            raise UserError(f"{path} is {what}")
    if "\r" in line.rstrip("\r") and not line.endswith("\n"):
        raise UserError(
            f"{path} has carriage returns and no line feed; end its lines with a line feed"
        )


def is_json(path: Path) -> bool:
    """Whether a text is JSON, by its beginning: an object, an array, or an object a line. Raises
    UserError.
    """
    with _opened(parts_of(path)[0]) as stream:
        return bool(_JSON.match(stream.read(1 << 16).decode("utf-8-sig", errors="ignore")))


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UserError naming the line."""
    with _opened(path) as stream:
        text = stream.read().decode("utf-8-sig")
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(f"{path}{line}: not JSON: {error}; {RESTORE}") from error


class TableRow(NamedTuple):
    """The wanted columns of one row of a table, as texts, and where it begins: 'FILE, line 3'."""

    where: str
    values: tuple[str, ...]


def read_rows(path: Path, *columns: str) -> Iterator[TableRow]:
    """Yield the rows of a table, read lazily. Empty lines are skipped.

    Raises UserError naming the line: for a missing column, a row of another length than the header,
    a missing value, and if there are no rows.
    """
    empty = True
    for part in parts_of(path):
        if container_of(part) in COLUMNAR:
            rows = _records(part, columns)
        else:
            rows = _objects(part, columns) if is_json(part) else _delimited(part, columns)
        for row in rows:
            empty = False
            yield row
    if empty:
        raise UserError(f"{path} has no rows; give a table with a header and rows")


def finite_number(where: str, text: str) -> float:
    """Read a finite number. Raises UserError."""
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise UserError(f"{where}: the score '{text}' is not a number; correct or remove the line")


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table: of Parquet or Arrow, the keys of an object in a line, or a
    header's fields.

    Of several files, the first counts. Raises UserError for a file that cannot be read.
    """
    path = parts_of(path)[0]
    if container_of(path) in COLUMNAR:
        return list(_footer(path)[0].names)
    if not is_json(path):
        return next(cells_of(path))[1]
    try:
        first = json.loads(next(filter(str.strip, lines_of(path))))
    except (
        ValueError,
        RecursionError,
        UserError,
    ):  # one value over several lines, or in a line that is too long
        return []
    return list(first) if isinstance(first, dict) else []


def table_in(path: Path) -> list[str] | None:
    """The columns of a file that is a table or JSON rather than one text a line; None if it is
    text.

    In text, a first line of names, a first field that names an image, or as many tabs in every line
    tell a table.
    """
    path = parts_of(path)[0]
    if container_of(path) in COLUMNAR or is_json(path):
        return column_names(path)
    lines = list(islice(filter(str.strip, lines_of(path)), HEAD))
    for separator in "\t,;|" if lines else "":
        rows = [_fields(line, separator) for line in lines]
        if len(rows[0]) > 1 and _is_regular(rows, separator):
            return [name.strip() for name in rows[0]]
    return lines[:1] if len(lines) > 1 and lines[0].strip('"\r') in _LONE else None


def _is_regular(rows: Sequence[Sequence[str]], separator: str) -> bool:
    first, *others = rows
    same = sum(len(row) == len(first) for row in others)
    # in prose, a blank follows a comma
    prose = separator in ",;" and any(cell.startswith(" ") for row in rows for cell in row[1:])
    names = [cell.strip() if separator == "|" else cell for cell in first]
    header = len({*names}) == len(names) and all(map(_NAME.fullmatch, names))
    whole = same == len(others) > (0 if separator == "\t" else 2) and not prose
    return bool(IMAGE_FILE.fullmatch(first[0])) or whole or (header and 2 * same > len(others))


def _fields(line: str, separator: str) -> list[str]:
    return (
        line.split("\t") if separator == "\t" else next(csv.reader([line], delimiter=separator), [])
    )


def cells_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line of a tab- or comma-separated table that is not empty.
    Raises UserError.
    """
    lines = ((number, line.removesuffix("\r")) for number, line in enumerate(lines_of(path), 1))
    number, header = next((number, line) for number, line in lines if line.strip())
    other = next(
        (sign for sign in ";|" if sign in header and "\t" not in header and "," not in header), None
    )
    if other:
        raise UserError(
            f"{path}, line {number}: its fields are separated by '{other}'; separate them by tabs or commas"
        )
    if "\t" in header or ("," not in header and path.name.removesuffix(".gz").endswith(".tsv")):
        yield number, header.split("\t")
        for number, line in lines:
            if "\r" in line:
                raise UserError(
                    f"{path}, line {number}: a carriage return inside the line; correct the line"
                )
            if line.strip(" "):
                yield number, line.split("\t")
        return
    reader = csv.reader(
        (f"{line}\n" for line in chain([header], (line for _, line in lines))), strict=True
    )
    start = number
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = number + reader.line_num
    except csv.Error as error:
        raise UserError(
            f"{path}, line {start}: {error}; quote the field, or correct the line"
        ) from error


def _delimited(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    rows = cells_of(path)
    line, header = next(rows)
    names = [name.strip() for name in header]
    _check_names(f"{path}, line {line}", names, columns)
    places = [names.index(name) for name in columns]
    for line, cells in rows:
        if len(cells) != len(names):
            raise UserError(
                f"{path}, line {line}: {len(cells)} fields, the header has {len(names)}; correct the line"
            )
        yield TableRow(f"{path}, line {line}", tuple(cells[place] for place in places))


def _check_names(where: str, there: Sequence[str], columns: Sequence[str]) -> None:
    for name in columns:
        if there.count(name) != 1:
            what = "two columns" if name in there else "no column"
            raise UserError(
                f"{where}: {what} '{name}' among {first_of(there, 10) or 'none'}; name the column in the profile, or "
                "correct the header"
            )


def _objects(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line, parse_constant=_refuse, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{where}: not a JSON object: {error}; write one object a line"
            ) from error
        if not isinstance(row, dict):
            raise UserError(f"{where}: not a JSON object; write one object a line")
        _check_names(where, list(row), columns)
        values = [row[name] for name in columns]
        for name, value in zip(columns, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise UserError(
                    f"{where}: '{name}' is neither a text nor a number; correct the line"
                )
        texts = tuple(map(str, values))
        if not "".join(texts).isascii() and any(map(_SURROGATE.search, texts)):
            raise UserError(f"{where}: a text has half of a surrogate pair; correct the line")
        yield TableRow(where, texts)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("an object has a key twice")
    return row


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _records(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    table = read_columns(path, *columns)
    values = [texts_of(path, name, table.column(name)) for name in columns]
    for number, texts in enumerate(zip(*values, strict=True), 1):
        yield TableRow(f"{path}, row {number}", texts)


def texts_of(path: Path, name: str, column: ChunkedArray, *, numbers: bool = True) -> list[str]:
    """The values of a Parquet column as texts; whole numbers and, with `numbers`, others are
    written out.

    Raises UserError for other types, and for missing values with their number and the first row.
    """
    import pyarrow.compute as compute
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    textual = types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)
    if not (textual or (numbers and types.is_floating(kind))):
        raise UserError(
            f"{path}: the column {name} is of the type {kind}, not of texts; convert it"
        )
    absent = compute.is_null(column, nan_is_null=True)
    if count := int(compute.sum(absent).as_py() or 0):
        row = compute.index(absent, True).as_py() + 1
        raise UserError(
            f"{path}, row {row}: no {name}, as in {count} of {len(column)} rows; fill or remove them"
        )
    return [str(value) for value in column.to_pylist()]


def text_remarks(texts: Iterable[str], what: str) -> list[str]:
    """A line on texts that spell a missing value, such as 'nan'; `what` names the texts in the
    plural.
    """
    spelled: dict[str, int] = {}
    for text in texts:
        if len(text) < 6 and text.strip().lower() in _ABSENT:
            spelled[text] = spelled.get(text, 0) + 1
    listed = ", ".join(map(repr, spelled))
    return [f"{sum(spelled.values())} {what} are {listed}: missing values?"] if spelled else []


def label_remarks(labels: Iterable[object]) -> list[str]:
    """Lines on labels that differ in spelling alone, such as 1 and 1.0 or pos and Pos, and on
    missing values.
    """
    spellings: dict[object, dict[str, None]] = {}
    for label in dict.fromkeys(map(str, labels)):
        spellings.setdefault(_meaning(label), {})[label] = None
    lines = [
        f"the labels {' and '.join(map(repr, several))} count as {len(several)} classes; are they one?"
        for several in spellings.values()
        if len(several) > 1
    ]
    return lines + text_remarks(
        [label for several in spellings.values() for label in several], "labels"
    )


def _meaning(label: str) -> object:
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return (
        " ".join(unicodedata.normalize("NFKC", label).casefold().split())
        if math.isnan(number)
        else number
    )


def normalised_text(text: str) -> str:
    """Lower-case a text and replace everything but letters and digits, of any script, by single
    blanks.
    """
    return _BLANK.sub(" ", text.lower()).strip()


def has_lists(path: Path, name: str) -> bool:
    """Whether a Parquet or Arrow table has a column of lists of this name. Raises UserError."""
    from pyarrow import types

    columns, _ = _footer(parts_of(path)[0])
    return name in columns.names and (
        types.is_list(kind := columns.field(name).type) or types.is_large_list(kind)
    )


def _footer(path: Path) -> tuple[Schema, int]:
    """The columns and the number of rows of a Parquet or Arrow file. Raises UserError for any
    other.
    """
    import pyarrow.parquet as parquet

    if container_of(path) == "arrow":
        table = _arrow(path)
        return table.schema, int(table.num_rows)
    with _plain_errors(path):
        metadata = parquet.read_metadata(path)
        return metadata.schema.to_arrow_schema(), int(metadata.num_rows)


def _arrow(path: Path) -> Table:
    """A file or a stream of Arrow, mapped from disk. Raises UserError for one that is damaged or
    cut short.
    """
    import pyarrow

    with _plain_errors(path):
        source = pyarrow.memory_map(str(path))
        if source.read_at(6, 0) == b"ARROW1":
            return pyarrow.ipc.open_file(source).read_all()
        end = len(_STREAM_END)
        if source.read_at(end, max(0, source.size() - end)) != _STREAM_END:
            raise pyarrow.ArrowInvalid("the stream has no end: rows are missing")
        return pyarrow.ipc.open_stream(source).read_all()


def check_columns(path: Path, *names: str) -> int:
    """The number of rows of a Parquet or Arrow table. Raises UserError for a missing column or any
    other file.
    """
    count = 0
    for part in parts_of(path):
        columns, rows = _footer(part)
        count, there = count + rows, columns.names
        if missing := [name for name in names if name not in there]:
            has = f"it has {', '.join(there[:10])}" if there else "it has none"
            raise UserError(
                f"{part} has no column {' and '.join(missing)}; {has}; rename one, or give another file"
            )
    return count


def read_columns(path: Path, *names: str) -> Table:
    """Read columns of a Parquet or Arrow table. Raises UserError for any other file or a missing
    column.
    """
    import pyarrow

    check_columns(path, *names)
    parts = parts_of(path)
    with _plain_errors(parts[0]):
        return pyarrow.concat_tables([_columns(part, names) for part in parts])


def _columns(path: Path, names: Sequence[str]) -> Table:
    import pyarrow.parquet as parquet

    if container_of(path) == "arrow":
        return _arrow(path).select(list(names))
    with _plain_errors(path):
        return parquet.read_table(path, columns=list(names)).select(list(names))


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    kind = container_of(path)
    if kind == "text" and path.stat().st_size:
        next(lines_of(path))  # says what stands in the place of the file
    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        what = "a whole Arrow" if kind == "arrow" else "a Parquet"
        raise UserError(f"{path} is not {what} file: {first_line(error)}; {RESTORE}") from error
