"""Numbers and texts as they are shown. Every message, page and file rounds alike.

A terminal reads escape sequences, a spreadsheet formulas, and HTML, Markdown and LaTeX their
markup. Texts of users, results and libraries are cleaned here, each for the place where it is
shown, so that nothing in them can act as a command; HTML is escaped by its templates, of texts that
`visible` has cleaned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from html import unescape
from math import ceil

#: Longest word shown whole in a message, about three lines of a terminal; characters kept at each
#: end of a longer one.
LONGEST_WORD = 300
WORD_ENDS = 100
#: Bytes of the longest name in a folder, on every common file system.
LONGEST_NAME = 255
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
#: control characters but for tab and line feed, line separators, marks of text direction, lone
#: surrogates
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_REMARK = re.compile(r", [\w ]+$")
_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "λ": "lambda", "μ": "mu", "τ": "tau"}
_LATEX = {
    "[": "{[}",  # LaTeX reads a bracket after a line's end as an option
    "]": "{]}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "*": "{*}",
    "–": "--",
    "−": "$-$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    "¶": r"\P{}",
    "‖": r"$\parallel$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
}
_LATEX.update({char: rf"$\{name}$" for char, name in _GREEK.items()})
_LATEX.update({char: f"\\{char}" for char in "{}_&%#$"})


def visible(text: str) -> str:
    r"""Write control characters and marks of direction as escapes, such as \x1b; tabs and line
    feeds stay.
    """
    if text.isprintable():  # most texts are: this is faster than a search
        return text
    return _HIDDEN.sub(lambda match: _write_escape(match.group()), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A text as one line of a message; the middle of a word longer than LONGEST_WORD is left out."""
    line = re.sub(r"\s*[\n\t]\s*", " ", visible(text)).strip()
    return _LONG_WORD.sub(_shorten_word, line)


def _shorten_word(match: re.Match[str]) -> str:
    word = match.group()
    return f"{word[:WORD_ENDS]}…{word[-WORD_ENDS:]}"


def for_markdown(text: str) -> str:
    """A text in which nothing becomes markup or a link, ends a cell or starts a line; commands stay
    code.
    """
    line = " ".join(visible(text).split())
    if not _MARKUP.search(line):
        return line
    parts = re.split(r"(`harness\s[^`|]*`)", line)
    # the parts at odd places are the commands
    parts[::2] = map(_escape_markdown, parts[::2])
    return "".join(parts)


#: what becomes markup or a link, and what of it is not written with a backslash
_MARKUP = re.compile(r"[\\`*_\[\]|#~&<]|://|www\.")
_ENTITIES = {"&": "&amp;", "<": "&lt;", "://": "&#58;//", "www.": "www&#46;"}


def _escape_markdown(text: str) -> str:
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)


def from_markdown(text: str) -> str:
    """A text of `for_markdown` as its reader sees it."""
    return unescape(re.sub(r"\\([\\`*_\[\]|#~])", r"\1", text))


def for_latex(text: str) -> str:
    """A text without commands. Characters that a plain installation cannot print become their code
    points.
    """
    return "".join(map(_escape_latex, text))


def for_csv(value: object) -> object:
    """A cell that a spreadsheet shows as it is: what would be a formula gets an apostrophe, numbers
    and ranges stay.
    """
    if not isinstance(value, str):
        return value
    text = visible(value)
    if text.startswith(("=", "+", "-", "@", "\t")) and not _is_number(text):
        return f"'{text}"
    return text


def _write_escape(char: str) -> str:
    if ord(char) < 256:
        return f"\\x{ord(char):02x}"
    return f"\\u{ord(char):04x}"


@cache
def _escape_latex(char: str) -> str:
    if char in _LATEX:
        return _LATEX[char]
    if char.isspace():
        return " "
    is_printable = " " <= char <= "~" or ("À" <= char <= "ÿ" and char not in "ÐÞðþ×÷")
    return char if is_printable else f"U+{ord(char):04X}"


def _is_number(text: str) -> bool:
    """Whether a text is a number, or a range as `interval_text` writes it, perhaps with a remark
    after a comma.
    """
    ends = _REMARK.sub("", text).split(" to ")
    try:
        return all(math.isfinite(float(end)) for end in ends)
    except ValueError:
        return False


def fixed(value: float, digits: int) -> str:
    """The one rounding rule: to the nearest decimal of the unrounded value; zero has no sign."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        return text.removeprefix("-")
    return text


def at_most(value: float, digits: int) -> str:
    """A bound, rounded up, so that the text is never below it."""
    unit = 10**digits
    return fixed(ceil(round(value * unit, 6)) / unit, digits)


def signed(value: float, digits: int) -> str:
    """As `fixed`, with a plus sign for what is above zero."""
    text = fixed(value, digits)
    if float(text) > 0:
        return f"+{text}"
    return text


def interval_text(
    low: float, high: float, digits: int, text: Callable[[float, int], str] = fixed
) -> str:
    """`1.20 to 3.40`, both ends as `fixed` or `signed`."""
    return f"{text(low, digits)} to {text(high, digits)}"


#: levels of significance that a rounded p-value must not seem to reach
_LEVELS = (0.05, 0.01, 0.001)


def p_value(p: float) -> str:
    """`p = 0.0235`, `p = 0.42` or `p < 0.0001`; `p < 0.05` where rounding would give 0.0500, so that
    the text never contradicts a verdict.
    """
    if p < 0.0001:
        return "p < 0.0001"
    text = fixed(p, 2 if p >= 0.1 else 4)
    for level in _LEVELS:
        if p < level <= float(text):
            return f"p < {level:g}"
    return f"p = {text}"


def count_of(number: int, thing: str) -> str:
    """`1 seed`, `3 seeds`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing}s"


def first_of(items: Sequence[str], most: int, between: str = ", ") -> str:
    """The first items, and how many there are more: `a, b and 3 more`."""
    text = between.join(items[:most])
    if len(items) > most:
        text += f" and {len(items) - most} more"
    return text


def points(number: float) -> str:
    """`1 point`, `0.5 points`."""
    if number == 1:
        return "1 point"
    return f"{number:g} points"


def duration(seconds: float) -> str:
    """A readable wall time: `12.1 s`, `3 min 20 s`, `5 h 02 min`."""
    if seconds < 60:
        return f"{fixed(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def about_minutes(seconds: float) -> str:
    """An estimate of a wall time, without more digits than it has: `20 seconds`, `25 minutes`, `5 hours`."""
    if seconds < 60:
        return count_of(max(1, round(seconds)), "second")
    if seconds < 5400:
        return count_of(round(seconds / 60), "minute")
    return count_of(round(seconds / 3600), "hour")
