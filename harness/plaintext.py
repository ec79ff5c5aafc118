"""Texts of users, results and libraries as plain text: nothing in them can act as a command where they are shown.

A terminal reads escape sequences, a spreadsheet formulas, and HTML, Markdown and LaTeX their markup. Texts are cleaned
here, each for the place where it is shown; HTML is escaped by its templates, of texts that `visible` has cleaned.
"""

from __future__ import annotations

import re
from html import unescape

#: Characters of the longest word of a message, about three lines of a terminal, and of either end of a longer one.
LONGEST_WORD, WORD_ENDS = 300, 100
#: Bytes of the longest name in a folder, on every common file system.
LONGEST_NAME = 255
_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")
#: control characters but for tab and line feed, line separators, marks that reorder what follows, lone surrogates
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "λ": "lambda", "μ": "mu", "τ": "tau"}
_LATEX = {
    **{char: rf"$\{name}$" for char, name in _GREEK.items()},
    **{char: f"\\{char}" for char in "{}_&%#$"},
    **{"[": "{[}", "]": "{]}"},  # LaTeX reads a bracket after a line's end as an option
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "*": r"$^{*}$", "†": r"$^{\dagger}$", "±": r"$\pm$", "–": "--"},
}


def visible(text: str) -> str:
    r"""Write control characters and marks of direction as escapes, such as \x1b; tabs and line feeds stay."""
    if text.isprintable():  # most texts are: this is faster than a search
        return text
    return _HIDDEN.sub(lambda found: _code(found.group()), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """A text as one line of a message; of a word that would fill the screen the middle is left out."""
    line = re.sub(r"\s*[\n\t]\s*", " ", visible(text)).strip()
    return _LONG_WORD.sub(lambda found: f"{found.group()[:WORD_ENDS]}…{found.group()[-WORD_ENDS:]}", line)


def for_markdown(text: str) -> str:
    """A text in which nothing becomes markup or a link, ends a cell or starts a line; commands stay code."""
    parts = re.split(r"(`harness\s[^`|]*`)", " ".join(visible(text).split()))
    return "".join(part if at % 2 else _escaped(part) for at, part in enumerate(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text)
    return text.replace("://", "&#58;//").replace("www.", "www&#46;")


def from_markdown(text: str) -> str:
    """A text of `for_markdown` as its reader sees it."""
    return unescape(re.sub(r"\\([\\`*_\[\]|#~])", r"\1", text))


def for_latex(text: str) -> str:
    """A text without commands. Characters that a plain installation cannot print become their code points."""
    return "".join(_LATEX.get(char) or _printable(char) for char in text)


def for_csv(value: object) -> object:
    """A cell that a spreadsheet shows as it is: a text that would be a formula gets an apostrophe, numbers stay."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) and not _is_number(text) else text


def _code(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def _printable(char: str) -> str:
    if char.isspace():
        return " "
    if " " <= char <= "~" or ("À" <= char <= "ÿ" and char not in "ÐÞðþ×÷"):
        return char
    return f"U+{ord(char):04X}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
