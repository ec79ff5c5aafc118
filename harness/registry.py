"""The one registry: everything that can be added by name is found by entry point.

A package adds a thing by declaring an entry point in one of the groups below, exactly as this
project does in its own pyproject.toml. Targets are imported only when they are asked for.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness.errors import UserError

#: kind, as a person types it -> entry point group
GROUPS = {
    "method": "harness.methods",
    "corpus": "harness.corpora",
    "encoder": "harness.encoders",
    "executor": "harness.executors",
    "figure kind": "harness.figures",
    "mteb task": "harness.mteb",
    "pooling": "harness.poolings",
    "retrieval task": "harness.retrieval",
    "setting option": "harness.setting_options",
    "similarity task": "harness.similarity",
    "suite": "harness.suites",
    "teacher": "harness.teachers",
    "teacher kind": "harness.teacher_kinds",
    "transfer task": "harness.transfer",
}


def suggest(word: str, known: list[str] | tuple[str, ...]) -> str:
    """The end of an error line: the nearest names, or all of them when none is near."""
    near = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {', '.join(known) or 'none'}"


@cache
def _points(kind: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUPS[kind]):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise UserError(
                f"two packages register the {kind} '{point.name}': {other.value} and {point.value}; "
                "uninstall or rename one"
            )
    return found


def names(kind: str) -> list[str]:
    """All registered names of a kind, sorted."""
    return sorted(_points(kind))


def target(kind: str, name: str) -> str:
    """Where a registered thing lives, as 'module:object'."""
    return _find(kind, name).value


def get(kind: str, name: str) -> Any:
    """Import and return a registered thing.

    Raises UserError when the name is unknown (with the nearest names) or its package fails to import.
    """
    point = _find(kind, name)
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"the {kind} '{name}' ({point.value}) cannot be loaded: {error}; mend or uninstall its package"
        ) from error


def _find(kind: str, name: str) -> EntryPoint:
    points = _points(kind)
    if name not in points:
        raise UserError(f"unknown {kind} '{name}'; {suggest(name, sorted(points))}")
    return points[name]
