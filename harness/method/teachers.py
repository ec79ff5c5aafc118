"""Names of teachers in a method's options."""

from __future__ import annotations

import re

#: a run's key, whose setting may contain '+', or a teacher of the profile; text in brackets is masked by NUL
_TEACHER = r"run:[^/+]+/[^/]+/[^/+]+/seed-\d+|[^/+\0]+"
_TEACHERS = re.compile(rf"({_TEACHER})(?:\+(?={_TEACHER})|$)")


def split_teachers(text: str) -> tuple[str, ...]:
    """Split the teachers' names in an option's value, joined by '+'. Raises ValueError if they cannot be read."""
    found = list(_TEACHERS.finditer(_masked(text)))
    if not found or sum(len(match.group()) for match in found) != len(text):
        raise ValueError(f"'{text}' is not a list of teachers; join their names by '+', as in simcse+diffcse")
    return tuple(text[slice(*match.span(1))] for match in found)


def _masked(text: str) -> str:
    """Replace brackets and what they enclose, which may hold further keys, by NUL."""
    depth, masked = 0, ""
    for letter in text:
        depth += letter == "["
        masked += "\0" if depth else letter
        depth -= letter == "]"
    return masked
