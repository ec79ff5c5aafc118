"""Data files: lines of text, and tables whose columns are chosen by name.

What a file is follows from its content, never from its name: Parquet, Arrow, JSON with an object a
line or a list of objects, tab-separated (quotes have no meaning) or comma-separated (quoted where necessary), each text
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
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from harness.census import is_ignored
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
    b"\xd0\xcf\x11\xe0": "ole",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
}
#: what is done with files of formats that are not read, by the format or by a member of the archive
_REMEDIES = {
    "xl/workbook.xml": "an Excel workbook; save its sheet as CSV in UTF-8, and name that file",
    "word/document.xml": "a Word document; save its text as plain text in UTF-8, and name that file",
    "content.xml": "an OpenDocument file; save its sheet as CSV in UTF-8, and name that file",
    "ole": "a file of an old Office program; save it as CSV or plain text in UTF-8, and name that file",
    "zip": "an archive; unpack it, and name the file in it",
    **{
        kind: f"compressed by {kind}; unpack it, and name the file"
        for kind in ("bzip2", "xz", "zstd")
    },
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
_LONE = (
    *("text", "texts", "sentence", "sentences", "caption", "captions", "premise", "hypothesis"),
    *(
        "sentence1",
        "sentence2",
        "sent0",
        "sent1",
        "question",
        "query",
        "title",
        "content",
        "review",
    ),
    *("document", "passage", "utterance", "comment", "description", "article", "abstract", "body"),
)
#: how parts of a data set are named
PART_NAME = re.compile(
    r"(train(ing)?|dev(el(opment)?)?|val(id(ation)?)?|test(ing)?|trial|restval|eval(uation)?|hold-?out)"
    r"([\W_\d].*)?",
    re.IGNORECASE,
)
#: a whole field in quotes, and a header of one word
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d]\w*")
#: how a missing value is written as text
_ABSENT = ("nan", "none", "null")


def list_parts(path: Path) -> list[Path]:
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


def describe_doubtful_order(path: Path) -> str:
    """How the order of several files is in doubt: '10 stands before 2'; empty if it is not.

    Their names hold numbers, by which they would be in another order than by letters.
    """
    names = [part.name for part in list_parts(path)]
    by_number = sorted(names, key=_number_key)
    for name, numbered in zip(names, by_number, strict=True):
        if name != numbered:
            return f"by letters {name} comes before {numbered}, by numbers after it"
    return ""


def _number_key(name: str) -> list[tuple[int, str]]:
    """Texts and numbers of a name in turn, numbers compared as such."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


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


def detect_container(path: Path) -> str:
    """What a file is by its first bytes, of several files the first one.

    One of parquet, arrow, hdf5, npy, zip, gzip, safetensors and text. Raises UserError.
    """
    try:
        with open_regular(list_parts(path)[0]) as file:
            first = file.read(64)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; {RESTORE}") from error
    named = next((name for begin, name in _CONTAINERS.items() if first.startswith(begin)), "")
    return named or ("safetensors" if b"\0" in first[:8] and _SAFETENSORS.match(first) else "text")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a text, plain or gzip. Raises UserError where they cannot be read or decoded."""
    kind = detect_container(path)
    if remedy := _remedy_for(path, kind):
        raise UserError(f"{path} is {remedy}")
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


def _remedy_for(path: Path, kind: str) -> str:
    """What a file of a format that is not read is, and what to do; empty for others."""
    if kind == "zip":
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            return next((_REMEDIES[name] for name in members if name in _REMEDIES), _REMEDIES[kind])
    return _REMEDIES.get(kind, "")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of UTF-8 text, plain or gzip, split at line feeds only and read lazily.

    Raises UserError naming the line when a file is damaged, not UTF-8, blank, or no data at all.
    """
    for part in list_parts(path):
        yield from _lines_of(part)


def _lines_of(path: Path) -> Iterator[str]:
    number = 0
    blank = True
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
    with _opened(list_parts(path)[0]) as stream:
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
    wanted = columns if split is None else (*columns, split.column)
    counts = Counter[str]()
    for part in list_parts(path):
        if detect_container(part) in COLUMNAR:
            rows = _records(part, wanted)
        else:
            rows = _objects(part, wanted) if is_json(part) else _delimited(part, wanted)
        for row in rows:
            if split is None:
                counts[""] += 1
                yield row
                continue

            *values, value = row.values
            counts[value.strip()] += 1
            if value.strip() in split.values:
                yield TableRow(row.where, tuple(values))

    if not counts:
        raise UserError(f"{path} has no rows; give a table with a header and rows")
    if split is not None:
        check_parts(path, split, counts)


def check_parts(path: Path, split: TablePart, counts: Mapping[str, int]) -> None:
    """Raise UserError for a part that a table does not have; `counts` are the rows of its parts."""
    for value in split.values:
        # data sets without it are published with the advice to read 'train+restval' too
        if value not in counts and (value != "restval" or len(split.values) == 1):
            raise UserError(
                f"{path} has no rows of the split '{value}'; its column '{split.column}' has "
                f"{describe_parts(counts)}; choose among these"
            )


def describe_parts(counts: Mapping[str, int]) -> str:
    """The parts of a table with their rows: 'train (64), test (8)'."""
    return first_of([f"{name} ({count})" for name, count in counts.items()], 10)


def find_part(name: str) -> str:
    """The part of a data set that the name of a file or folder states, such as train; else empty."""
    for word in re.split(r"[\W_\d]+", name):
        if PART_NAME.fullmatch(word):
            return word.lower()
    return ""


def check_file_names(path: Path, ignore: Sequence[str] = ()) -> None:
    """Raise UserError for a pattern that fits files of several parts, unless `ignore` names it."""
    parts = {find_part(file.name): file.name for file in list_parts(path)}
    if len(parts) > 1 and "" not in parts and not is_ignored(path.name, ignore):
        raise UserError(
            f"{path} fits files of several parts, {first_of(list(parts.values()), 5)}; name those of one part, or "
            f"write ignore = ['{path.name}'] to read all of them"
        )


def read_column_values(path: Path, name: str) -> Iterator[str]:
    """The values of one column of a table as texts; of Parquet and Arrow those of texts, numbers and
    truth values alone.
    """
    from pyarrow import types

    for part in list_parts(path):
        if detect_container(part) not in COLUMNAR:
            yield from (row.values[0] for row in read_rows(part, name))
            continue
        columns, _ = _footer(part)
        if name not in columns.names:
            continue
        kind = columns.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        is_text = types.is_string(kind) or types.is_large_string(kind)
        is_number = types.is_integer(kind) or types.is_floating(kind)
        if is_text or is_number or types.is_boolean(kind):
            yield from (str(value.as_py()) for value in read_columns(part, name).column(0))


def parse_finite_number(where: str, text: str) -> float:
    """Read a finite number. Raises UserError."""
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise UserError(f"{where}: the score '{text}' is not a number; correct or remove the line")


def read_column_names(path: Path) -> list[str]:
    """Names of the columns of a table: of Parquet or Arrow, the keys of an object in a line, or a
    header's fields.

    Of several files, the first counts. Raises UserError for a file that cannot be read.
    """
    path = list_parts(path)[0]
    if detect_container(path) in COLUMNAR:
        return list(_footer(path)[0].names)
    if not is_json(path):
        return next(read_cells(path))[1]
    if _is_array(path):
        objects = read_json(path)
        return list(objects[0]) if objects and isinstance(objects[0], dict) else []
    try:
        first = json.loads(next(filter(str.strip, read_lines(path))))
    except (
        ValueError,
        RecursionError,
        UserError,
    ):  # one value over several lines, or in a line that is too long
        return []
    return list(first) if isinstance(first, dict) else []


def read_all_column_names(path: Path) -> list[str]:
    """Names of the columns of all files of a table, and of the keys of all objects of JSON, which
    may differ. Raises UserError.
    """
    names = dict[str, None]()
    for part in list_parts(path):
        if detect_container(part) in COLUMNAR or not is_json(part):
            names.update(dict.fromkeys(read_column_names(part)))
            continue
        for row in read_valid_objects(part):
            names.update(dict.fromkeys(row))
    return list(names)


def read_valid_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of JSON lines, or of a list of objects, whatever their keys, without those that
    `read_rows` refuses. Raises UserError.
    """
    for part in list_parts(path):
        if _is_array(part):
            yield from (row for row in read_json(part) if isinstance(row, dict))
            continue
        for line in read_lines(part):
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row


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
            place = [title.strip() for title in header].index(name)
            counts.update(cells[place].strip() for _, cells in rows if place < len(cells))
    return counts


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
    for separator in "\t,;|" if lines else "":
        rows = [_fields(line, separator) for line in lines]
        if len(rows[0]) > 1 and _is_regular(rows, separator):
            return [name.strip() for name in rows[0]]
    return _lone_column(path, lines)


def _lone_column(path: Path, lines: Sequence[str]) -> list[str] | None:
    """The name of the only column of a table, by its first lines; None if they are text."""
    if len(lines) < 2:
        return None

    header = lines[0].strip().strip('"')
    is_quoted = all(_QUOTED.fullmatch(line.strip()) for line in lines[1:])
    is_named = path.name.removesuffix(".gz").endswith((".csv", ".tsv"))
    is_name = header.lower() in _LONE or (is_named and bool(_WORD.fullmatch(header)))
    return [header] if is_quoted or is_name else None


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


def read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line of a tab- or comma-separated table that is not empty.
    Raises UserError.
    """
    lines = ((number, line.removesuffix("\r")) for number, line in enumerate(read_lines(path), 1))
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
    rows = read_cells(path)
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
    for where, values in read_objects(path, *columns):
        for name, value in zip(columns, values, strict=True):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                what = "a list" if isinstance(value, list) else f"the value {json.dumps(value)}"
                raise UserError(
                    f"{where}: '{name}' has {what}, neither a text nor a number; correct the line"
                )
        texts = tuple(map(str, values))
        _check_surrogates(where, texts)
        yield TableRow(where, texts)


def read_objects(path: Path, *columns: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the values of some keys of each object of JSON lines, or of a list of objects, with its
    place: 'FILE, line 3'.

    Raises UserError naming the line.
    """
    for part in list_parts(path):
        rows = _objects_in_array(part) if _is_array(part) else _objects_in_lines(part)
        for where, row in rows:
            if not isinstance(row, dict):
                raise UserError(f"{where}: not a JSON object; write one object a line")
            _check_names(where, list(row), columns)
            yield where, [row[name] for name in columns]


def _is_array(path: Path) -> bool:
    """Whether a file of JSON is one list."""
    with _opened(path) as stream:
        return stream.read(1 << 10).decode("utf-8-sig", errors="ignore").lstrip().startswith("[")


def _objects_in_array(path: Path) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(read_json(path), 1):
        yield f"{path}, object {number}", row


def _objects_in_lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            yield where, json.loads(line, parse_constant=_refuse, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{where}: not a JSON object: {error}; write one object a line"
            ) from error


def _check_surrogates(where: str, texts: Sequence[str]) -> None:
    if not "".join(texts).isascii() and any(map(_SURROGATE.search, texts)):
        raise UserError(f"{where}: a text has half of a surrogate pair; correct the line")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("an object has a key twice")
    return row


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _records(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    table = read_columns(path, *columns)
    values = [convert_to_texts(path, name, table.column(name)) for name in columns]
    for number, texts in enumerate(zip(*values, strict=True), 1):
        yield TableRow(f"{path}, row {number}", texts)


def convert_to_texts(
    path: Path, name: str, column: ChunkedArray, *, numbers: bool = True
) -> list[str]:
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


def list_text_remarks(texts: Iterable[str], what: str) -> list[str]:
    """A line on texts that spell a missing value, such as 'nan'; `what` names the texts in the
    plural.
    """
    spelled: dict[str, int] = {}
    for text in texts:
        if len(text) < 6 and text.strip().lower() in _ABSENT:
            spelled[text] = spelled.get(text, 0) + 1
    listed = ", ".join(map(repr, spelled))
    return [f"{sum(spelled.values())} {what} are {listed}: missing values?"] if spelled else []


def list_label_remarks(labels: Iterable[object]) -> list[str]:
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
    return lines + list_text_remarks(
        [label for several in spellings.values() for label in several], "labels"
    )


def check_no_label(path: Path, labels: Iterable[object], no_label: str | None) -> None:
    """Raise UserError if labels hold -1 beside 0, which may stand for none, and no key decides."""
    counts = Counter(map(str, labels))
    numbers: dict[float, str] = {}
    for label in counts:
        try:
            numbers[float(label)] = label
        except ValueError:
            return

    is_counted = 0 in numbers and all(number >= 0 or number == -1 for number in numbers)
    if no_label is None and -1 in numbers and is_counted:
        name = numbers[-1]
        raise UserError(
            f"{path}: {counts[name]} rows have the label {name}, which in data sets of the hub stands for "
            f"no label; write no_label = '{name}' to leave them out, or no_label = '' if it is a class"
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


def normalise_text(text: str) -> str:
    """Lower-case a text and replace everything but letters and digits, of any script, by single
    blanks.
    """
    return _BLANK.sub(" ", text.lower()).strip()


def list_binary_columns(path: Path) -> list[str]:
    """The columns of a Parquet or Arrow table that hold bytes, such as pictures, also as the library
    `datasets` saves them; none of any other table. Raises UserError.
    """
    from pyarrow import types

    path = list_parts(path)[0]
    if detect_container(path) not in COLUMNAR:
        return []
    names = []
    for column in _footer(path)[0]:
        kind = column.type
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            kind = kind.field("bytes").type
        if types.is_binary(kind) or types.is_large_binary(kind):
            names.append(column.name)
    return names


def has_lists(path: Path, name: str) -> bool:
    """Whether a Parquet or Arrow table has a column of lists of this name. Raises UserError."""
    from pyarrow import types

    columns, _ = _footer(list_parts(path)[0])
    return name in columns.names and (
        types.is_list(kind := columns.field(name).type) or types.is_large_list(kind)
    )


def _footer(path: Path) -> tuple[Schema, int]:
    """The columns and the number of rows of a Parquet or Arrow file. Raises UserError for any
    other.
    """
    import pyarrow.parquet as parquet

    if detect_container(path) == "arrow":
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
    for part in list_parts(path):
        columns, rows = _footer(part)
        count = count + rows
        there = columns.names
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
    parts = list_parts(path)
    with _plain_errors(parts[0]):
        return pyarrow.concat_tables([_columns(part, names) for part in parts])


def _columns(path: Path, names: Sequence[str]) -> Table:
    import pyarrow.parquet as parquet

    if detect_container(path) == "arrow":
        return _arrow(path).select(list(names))
    with _plain_errors(path):
        return parquet.read_table(path, columns=list(names)).select(list(names))


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    from pyarrow import ArrowException

    kind = detect_container(path)
    if kind == "text" and path.stat().st_size:
        next(read_lines(path))  # says what stands in the place of the file
    try:
        yield
    except (ArrowException, OSError, KeyError) as error:
        what = "a whole Arrow" if kind == "arrow" else "a Parquet"
        raise UserError(f"{path} is not {what} file: {first_line(error)}; {RESTORE}") from error
