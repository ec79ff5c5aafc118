"""Errors that users can fix: one line, exit code 2 on the command line."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

#: advice for a damaged file, of a user or of a publisher
RESTORE = "correct it, or restore it from its source"
#: pydantic's types of errors whose messages are about Python -> about a file
_OF_FILES = {
    "extra_forbidden": "there is no such key",
    "missing": "it is missing",
    "string_too_short": "it is empty",
    "int_parsing_size": "it is too large",
    "sequence_str": "it must be a list",
    "model_type": "it must be a table",
}
#: pydantic's terms -> plain ones, in this order
_PLAIN = {
    "Input should be": "it must be",
    "String should": "it must",
    "Tuple should": "it must",
    "valid ": "",
    "integer": "whole number",
    "a boolean": "true or false",
    "a dictionary": "a table (in Python a dict)",
    "an array": "a list",
    "an object": "a mapping",
    "a array": "a list",
    "string": "text",
    "tuple": "list",
    "an instance of ": "a ",
    "a Sequence": "a list",
    "callable": "a function",
}


def describe_problems(*problems: Mapping[str, Any]) -> str:
    """What pydantic found wrong with a value, or with each type that it may have: 'it must be a
    number or a text'.
    """
    texts: dict[str, None] = {}
    for problem in problems:
        text = _OF_FILES.get(problem["type"])
        if text is None:
            # pydantic's remarks on what it was given stand at the end
            text = str(problem["msg"]).partition(", unable")[0].partition(", got")[0]
        if problem["type"] != "value_error":
            for term, plain in _PLAIN.items():
                text = text.replace(term, plain)
        texts[text.removeprefix("Value error, ")] = None
    return " or ".join(texts).replace(" or it must be ", " or ")


#: errors of a file system that a user can correct: a wrong path, no permission, no room, another
#: disk, a failing one
REFUSALS = (
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EXDEV,
    errno.EIO,
    errno.ENOTSUP,
    errno.ESTALE,
)


class UserError(Exception):
    """Wrong input, on the command line or on disk; the message is one line: what, why, what to do."""


def first_line(error: Exception) -> str:
    """The first line of an error's message, and the second after a colon; Arrow's continue with the
    schema.
    """
    lines = str(error).splitlines()
    if not lines:
        return type(error).__name__
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1].strip()}"
    return lines[0]


class NewerError(UserError):
    """A file was written by a newer harness, and is left as it is."""


class MissingData(UserError):  # noqa: N818
    """A file or model that a run needs is missing; the message says how to get it."""


class UnavailableError(UserError):
    """A name that the profile does not have, or that gives other features than a run asks for; no
    file is wrong.
    """


class PlugInError(UserError):
    """A registered object cannot be loaded, or its own code raised an error; other objects are not
    affected.
    """
