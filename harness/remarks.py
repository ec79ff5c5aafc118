"""What is remarked about texts and labels; texts compared by their words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UserError

_NEITHER_LETTERS_NOR_DIGITS = re.compile(r"[\W_]+")
#: how a missing value is written as text
_ABSENT = ("nan", "none", "null")


def list_text_remarks(texts: Iterable[str], noun: str) -> list[str]:
    """A line on texts that spell a missing value, such as 'nan'; `noun` names the texts in the
    plural.
    """
    spelled = Counter[str]()
    for text in texts:
        # the length first: it is all that most texts take
        if len(text) < 6 and text.strip().lower() in _ABSENT:
            spelled[text] += 1
    if not spelled:
        return []
    listed = ", ".join(map(repr, spelled))
    return [f"{spelled.total()} {noun} are {listed}: missing values?"]


def list_label_remarks(labels: Iterable[object]) -> list[str]:
    """Lines on labels that differ in spelling alone, such as 1 and 1.0 or pos and Pos, and on
    missing values.
    """
    spellings: dict[object, list[str]] = {}
    for label in dict.fromkeys(map(str, labels)):
        spellings.setdefault(_find_meaning(label), []).append(label)

    lines = []
    grouped_labels = []
    for alike in spellings.values():
        grouped_labels += alike
        if len(alike) > 1:
            listed = " and ".join(map(repr, alike))
            lines.append(f"the labels {listed} count as {len(alike)} classes; are they one?")
    return lines + list_text_remarks(grouped_labels, "labels")


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


def _find_meaning(label: str) -> object:
    """The number that a label writes, or its text without case, width and blanks."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        return " ".join(unicodedata.normalize("NFKC", label).casefold().split())
    return number


def normalise_text(text: str) -> str:
    """Lower-case a text and replace everything but letters and digits, of any script, by single
    blanks.
    """
    return _NEITHER_LETTERS_NOR_DIGITS.sub(" ", text.lower()).strip()
