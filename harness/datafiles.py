"""Data files: which files a path names, what each of them is, and its lines or its JSON.

What a file is follows from its content, never from its name: Parquet, Arrow, JSON with an object a
line or a list of objects, tab-separated (quotes have no meaning) or comma-separated (quoted where
necessary), each text plain or gzip. Only a header of one column says neither; such a table is
tab-separated if it is named .tsv.

A table, or a text of one row a line, may be in several files: a path with `*` in the file's name,
such as `train-*.parquet`, or a folder that the library `datasets` saved.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape
from pathlib import Path
from typing import IO, Any, cast

from harness.census import is_ignored
from harness.errors import RESTORE, UserError
from harness.files import open_regular, read_regular
from harness.formatting import first_of

#: maximum bytes of a line
LONGEST_LINE = 10**7

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
    "bzip2": "compressed by bzip2; unpack it, and name the file",
    "xz": "compressed by xz; unpack it, and name the file",
    "zstd": "compressed by zstd; unpack it, and name the file",
}
#: files that hold typed columns
COLUMNAR = ("parquet", "arrow")
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
#: how parts of a data set are named
PART_NAME = re.compile(
    r"(train(ing)?|dev(el(opment)?)?|val(id(ation)?)?|test(ing)?|trial|restval|eval(uation)?|hold-?out)"
    r"([\W_\d].*)?",
    re.IGNORECASE,
)


def list_parts(path: Path) -> list[Path]:
    """The files of a table or text, in order; the path itself if it is no pattern that files fit
    and no saved folder.

    Raises UserError for any other folder, and if some of the files are missing.
    """
    if path.is_dir():
        return _list_saved_files(path)
    if "*" not in path.name:
        return [path]

    pattern = escape(path.name).replace("[*]", "*")
    parts = sorted(part for part in path.parent.glob(pattern) if part.is_file())

    # names such as train-00000-of-00004.parquet say how many files there are
    stated_counts = set()
    for part in parts:
        shard = SHARD.match(part.name)
        if shard:
            stated_counts.add(int(shard[1]))
    if stated_counts and stated_counts != {len(parts)}:
        raise UserError(
            f"{len(parts)} of {max(stated_counts)} files of {path} are there; {RESTORE}"
        )
    return parts or [path]


def describe_doubtful_order(path: Path) -> str:
    """How the order of several files is in doubt: '10 stands before 2'; empty if it is not.

    Their names hold numbers, by which they would be in another order than by letters.
    """
    names = [part.name for part in list_parts(path)]
    by_number = sorted(names, key=_split_numbers)
    for name, numbered in zip(names, by_number, strict=True):
        if name != numbered:
            return f"by letters {name} comes before {numbered}, by numbers after it"
    return ""


def _split_numbers(name: str) -> list[tuple[int, str]]:
    """Texts and numbers of a name in turn, numbers compared as such."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _list_saved_files(folder: Path) -> list[Path]:
    """The files of a folder that `datasets` saved, as its state lists them."""
    splits_file = folder / "dataset_dict.json"
    try:
        if splits_file.is_file():
            splits = json.loads(read_regular(splits_file))["splits"]
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

    # with indices, the rows of the files are chosen or in another order
    if state.get("_indices_data_files") or not all(part.is_file() for part in parts):
        raise UserError(
            f"{folder} is not a folder of all its rows in order; save it again with save_to_disk"
        )
    return parts


def find_part(name: str) -> str:
    """The part of a data set that the name of a file or folder states, such as train; else empty."""
    for word in re.split(r"[\W_\d]+", name):
        if PART_NAME.fullmatch(word):
            return word.lower()
    return ""


def check_file_names(path: Path, ignore: Sequence[str] = ()) -> None:
    """Raise UserError for a pattern that fits files of several parts, unless `ignore` names it."""
    file_by_part = {find_part(file.name): file.name for file in list_parts(path)}
    is_mixed = len(file_by_part) > 1 and "" not in file_by_part
    if is_mixed and not is_ignored(path.name, ignore):
        files = first_of(list(file_by_part.values()), 5)
        raise UserError(
            f"{path} fits files of several parts, {files}; name those of one part, or "
            f"write ignore = ['{path.name}'] to read all of them"
        )


def detect_container(path: Path) -> str:
    """What a file is by its first bytes, of several files the first one.

    One of parquet, arrow, hdf5, npy, zip, gzip, safetensors and text. Raises UserError.
    """
    try:
        with open_regular(list_parts(path)[0]) as file:
            first_bytes = file.read(64)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; {RESTORE}") from error

    for signature, name in _CONTAINERS.items():
        if first_bytes.startswith(signature):
            return name

    # a header of JSON behind its length, whose upper bytes are zero
    if b"\0" in first_bytes[:8] and _SAFETENSORS.match(first_bytes):
        return "safetensors"
    return "text"


@contextmanager
def _open_text(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a text, plain or gzip. Raises UserError where they cannot be read or decoded."""
    kind = detect_container(path)
    remedy = _find_remedy(path, kind)
    if remedy:
        raise UserError(f"{path} is {remedy}")
    if kind not in ("text", "gzip"):
        raise UserError(
            f"{path} is no text but a file of the format {kind}; name its columns in the profile if it is a table"
        )

    try:
        with open_regular(path) as file:
            if kind == "text":
                yield file
            else:
                with gzip.open(file) as unpacked:
                    yield cast(IO[bytes], unpacked)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text: {error}; {RESTORE}") from error


def _find_remedy(path: Path, kind: str) -> str:
    """What a file of a format that is not read is, and what to do; empty for others."""
    if kind == "zip":
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name in _REMEDIES:
                    return _REMEDIES[name]
    return _REMEDIES.get(kind, "")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of UTF-8 text, plain or gzip, split at line feeds only and read lazily.

    Raises UserError naming the line when a file is damaged, not UTF-8, blank, or no data at all.
    """
    for part in list_parts(path):
        yield from _read_lines_of_file(part)


def _read_lines_of_file(path: Path) -> Iterator[str]:
    number = 0
    is_blank = True
    with _open_text(path) as stream:
        # calls with a limit, since iterating a file would read a line of any length
        read_line = partial(stream.readline, LONGEST_LINE + 1)
        try:
            for number, raw in enumerate(iter(read_line, b""), start=1):
                if len(raw) > LONGEST_LINE:
                    raise UserError(
                        f"{path}, line {number} has more than {LONGEST_LINE / 1e6:.0f} MB; lines end with a line feed: "
                        "is it the right file?"
                    )

                if number == 1:
                    line = raw.decode("utf-8-sig")
                    _check_first_line(path, line)
                else:
                    line = raw.decode()
                is_blank = is_blank and not line.strip()
                yield line.removesuffix("\n")
        except UnicodeDecodeError as error:
            place = f"{path}, line {number}, cannot be read as UTF-8 text"
            raise UserError(f"{place}: {error}; save it as UTF-8, or {RESTORE}") from error

    if is_blank:
        raise UserError(f"{path} is empty; {RESTORE}")


def _check_first_line(path: Path, line: str) -> None:
    for beginning, description in _NO_DATA.items():
        if beginning.match(line):
            raise UserError(f"{path} is {description}")

    if "\r" in line.rstrip("\r") and not line.endswith("\n"):
        raise UserError(
            f"{path} has carriage returns and no line feed; end its lines with a line feed"
        )


def is_json(path: Path) -> bool:
    """Whether a text is JSON, by its beginning: an object, an array, or an object a line. Raises
    UserError.
    """
    return _JSON.match(_read_beginning(list_parts(path)[0], 1 << 16)) is not None


def is_json_array(path: Path) -> bool:
    """Whether a file of JSON is one list. Raises UserError."""
    return _read_beginning(path, 1 << 10).lstrip().startswith("[")


def _read_beginning(path: Path, size: int) -> str:
    """The first bytes of a text, as far as they can be decoded."""
    with _open_text(path) as stream:
        return stream.read(size).decode("utf-8-sig", errors="ignore")


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UserError naming the line."""
    with _open_text(path) as stream:
        text = stream.read().decode("utf-8-sig")
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UserError(f"{path}{line}: not JSON: {error}; {RESTORE}") from error


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for a key twice, NaN and Infinity, and
    RecursionError.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_key)


def _refuse_repeated_key(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("an object has a key twice")
    return values


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
