"""What became of the columns and rows of a table: what is read, what is left out, and what may have
been meant.

A column that no key names is said. It stops the plan where it parts the rows, and where it may be
what is read: beside a column that is read under its default name, another one of its kind, such as
`caption_2` or `raw_caption` beside `caption`. A key of the profile that names a column decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from harness.census import Account, account_for, account_for_number, is_ignored
from harness.columnar import has_lists, list_binary_columns
from harness.datafiles import (
    COLUMNAR,
    PART_NAME,
    check_file_names,
    detect_container,
    is_json,
    list_parts,
)
from harness.datarows import (
    HEAD,
    TablePart,
    count_values,
    describe_parts,
    read_all_column_names,
    read_column_values,
    read_valid_objects,
)
from harness.errors import UserError

#: names of columns that part a table, whatever these hold
_PARTING = re.compile(r"splits?|folds?|partition|(is|in)_?(train|dev|val|test)\w*", re.IGNORECASE)
#: the most parts of a table
MOST_PARTS = 20
#: words of a name: `sentenceA`, `captionID` and `text2` have two
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]")
#: words that tell a version of a text or of a score
_VERSIONS = (
    *("raw", "original", "orig", "clean", "cleaned", "new", "old", "long", "short", "second"),
    *("other", "extra", "alt", "alternative", "human", "synthetic", "generated", "translated"),
)
#: words that name a score
_SCORES = ("score", "scores", "similarity", "relatedness", "rating", "ratings")


class DefaultColumn(NamedTuple):
    """A column that is read under its default name, where no key of the profile names another.

    `key` is that key, empty for none. `names` are such as those of pictures, and labels.
    """

    name: str
    holds: Literal["texts", "lists", "scores", "names", "pictures"]
    key: str = ""


def account_for_columns(
    path: Path,
    columns: Sequence[str],
    ignore: Sequence[str] = (),
    split: TablePart | None = None,
    defaults: Sequence[DefaultColumn] = (),
) -> list[Account]:
    """What became of the columns of a table, of which `columns` are read, and of its other parts
    than `split`.

    `defaults` are the names that columns have where the profile names none. Raises UserError for a
    column that parts the rows, such as `split`, and for one that may be meant, unless `columns` or
    the patterns of `ignore` name it.
    """
    check_file_names(path, ignore)
    used = [*columns] if split is None else [*columns, split.column]
    names = [name.strip() for name in read_all_column_names(path)]
    unread = [name for name in names if name not in used]
    undecided = [name for name in unread if not is_ignored(name, ignore)]
    _check_parting(path, undecided)
    _check_meant(path, undecided, [default for default in defaults if default.name in used])

    accounts = account_for("columns", used, "read")
    accounts += account_for("columns", unread, "left out", "no key names them")
    accounts += _account_for_folder(path)
    if split is not None:
        accounts += _account_for_parts(path, split)
    return accounts


def _account_for_folder(path: Path) -> list[Account]:
    """What became of the files of a folder that the library `datasets` saved."""
    if not path.is_dir():
        return []
    read = {part.name for part in list_parts(path)} | {"state.json", "dataset_info.json"}
    unlisted = sorted(file.name for file in path.iterdir() if file.name not in read)
    return account_for("files", unlisted, "left out", "state.json does not list them")


def _account_for_parts(path: Path, split: TablePart) -> list[Account]:
    """The rows of the parts of a table that are not read."""
    counts = count_values(path, split.column)
    other_parts = {name: count for name, count in counts.items() if name not in split.values}
    reason = f"of other parts: {describe_parts(other_parts)}"
    return account_for_number("rows", sum(other_parts.values()), reason)


def _check_parting(path: Path, names: Sequence[str]) -> None:
    """Raise UserError for a column that parts the rows: whether all are meant cannot be known."""
    for name in names:
        counts = _count_parts(path, name)
        if len(counts) > 1:
            first, second, *_ = counts
            split = first if name == "split" else f"{name}={first}"
            raise UserError(
                f"{path}: the column '{name}' parts its rows, {describe_parts(counts)}, and no key "
                f"says which are read; write split = '{split}' in the profile, several "
                f"parts as '{split}+{second}', or ignore = ['{name}'] to read all rows"
            )


def _count_parts(path: Path, name: str) -> dict[str, int]:
    """The rows of each part, if a column parts a table; else nothing."""
    counts = Counter[str]()
    with suppress(UserError):  # values that are no texts are no names of parts
        values = read_column_values(path, name)
        head = [value.strip() for value in islice(values, HEAD)]
        if not _PARTING.fullmatch(name) and not all(map(PART_NAME.fullmatch, head)):
            return {}
        counts.update(head)
        for value in values:
            counts[value.strip()] += 1
            if len(counts) > MOST_PARTS:
                return {}
    return counts if len(counts) <= MOST_PARTS else {}


def _check_meant(path: Path, names: Sequence[str], defaults: Sequence[DefaultColumn]) -> None:
    """Raise UserError for columns that may be meant as well as one that is read by default."""
    for default in defaults:
        similar = [name for name in names if _is_similar(path, name, default)]
        if not similar:
            continue

        advice = f"leave out what is not to be read: ignore = {similar}"
        if default.key:
            advice = f"write {default.key} = '{similar[0]}' to read it, or {advice}"
        raise UserError(
            f"{path}: the column '{similar[0]}' may be meant beside '{default.name}', which is read "
            f"under its default name; {advice}"
        )


def _is_similar(path: Path, name: str, default: DefaultColumn) -> bool:
    """Whether a column is of the kind of another one, by its name and by what it holds."""
    if default.holds == "pictures":
        return name in list_binary_columns(path)

    words = _split_name(name)
    has_name = _select_stem(words, default) == _select_stem(_split_name(default.name), default)
    if default.holds == "scores" and any(word in _SCORES for word in words):
        has_name = True
    return has_name and _has_values_of(path, name, default.holds)


def _split_name(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def _select_stem(words: Sequence[str], default: DefaultColumn) -> list[str]:
    """The words of a name without numbers, letters, versions, and languages of texts."""
    shortest = 3 if default.holds in ("texts", "lists") else 2
    long_words = [word for word in words if not word.isdigit() and len(word) >= shortest]
    return [word for word in long_words if word not in _VERSIONS]


def _has_values_of(path: Path, name: str, what: str) -> bool:
    """Whether a column holds texts of several words, numbers, or lists; names may be anything."""
    if what == "names":
        return True
    if what == "lists" and detect_container(path) in COLUMNAR:
        return has_lists(path, name)

    values = _read_head(path, name)
    if what == "lists":
        return any(isinstance(value, list) for value in values)
    if what == "scores":
        return bool(values) and all(map(_is_number, values))
    return 2 * sum(isinstance(value, str) and " " in value for value in values) > len(values)


def _read_head(path: Path, name: str) -> list[object]:
    """The first values of a column that are there; rows of JSON may lack it."""
    if detect_container(path) not in COLUMNAR and is_json(path):
        values = (row[name] for row in read_valid_objects(path) if row.get(name) is not None)
        return list(islice(values, HEAD))

    head = list[object]()
    with suppress(UserError):  # of a row of another length: the reader of the table names it
        texts = map(str.strip, read_column_values(path, name))
        head += [text for text in islice(texts, HEAD) if text not in ("", "None")]
    return head


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True
