"""What is typed and what commands print: plain text, in which names and messages cannot steer the terminal."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import click

from harness.errors import UserError
from harness.plaintext import one_line, visible


class OneLine(logging.Formatter):
    """Messages of `logging` as one line each."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Format a message; a traceback below it stays as it is."""
        return one_line(super().formatMessage(record))


def check_typed(words: Sequence[str]) -> None:
    """Refuse an empty word, such as an unset shell variable, and one that is no text. Raises UserError."""
    for before, word in zip(("", *words), words, strict=False):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        where = option if option.startswith("-") and option != "--" else "an argument"
        if equals and not value.strip():
            raise UserError(f"{where} is empty, perhaps an unset shell variable; give a value, or leave it out")
        if "\0" in word or any("\ud800" <= char <= "\udfff" for char in word):
            raise UserError(f"{where} is not UTF-8 text: '{word}'; give it in UTF-8")


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a text to standard output, or to standard error; control characters in it are shown, not obeyed."""
    click.echo(visible(str(text)), err=err, nl=nl)


def complain(message: str) -> int:
    """Print a user's mistake as one line; return the exit code for it."""
    echo(f"error: {one_line(message)}", err=True)
    return 2
