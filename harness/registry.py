"""The registry: everything that can be added by name is found by entry point.

A package adds something by declaring an entry point in one of the groups below, as this project does in its own
pyproject.toml. A registered object is imported only when it is used, and a package that fails to import affects only
the names that it registers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from harness.errors import PlugInError, UserError
from harness.foreign import exit_raises, raised_at

T = TypeVar("T")

#: kind, as named in messages -> entry point group
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
    "tracker": "harness.trackers",
    "transfer task": "harness.transfer",
}

#: the top-level modules of this project
OWN = frozenset({"harness", "harness_methods", "harness_reports"})


def suggest(word: str, known: Sequence[str]) -> str:
    """The end of an error line: the closest names, or all of them if none is close."""
    folded = {name.casefold(): name for name in reversed(known)}
    near = difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(folded[name] for name in near)}?"
    return f"known: {', '.join(known) or 'none'}"


@cache
def _points(kind: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name; several if packages disagree on where the name is defined."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUPS[kind]):
        found.setdefault(point.name, {}).setdefault(point.value, point)
    return {name: tuple(points.values()) for name, points in found.items()}


def plugin_modules() -> frozenset[str]:
    """The top-level modules in which other packages define what they register."""
    points = (point for kind in GROUPS for several in _points(kind).values() for point in several)
    return frozenset(point.module.partition(".")[0] for point in points) - OWN


def names(kind: str) -> list[str]:
    """All registered names of a kind, sorted. Imports nothing."""
    return sorted(_points(kind))


def targets(kind: str) -> dict[str, list[str]]:
    """Where the registered objects of a kind are defined, by name; several places where packages disagree."""
    return {name: [point.value for point in points] for name, points in _points(kind).items()}


def target(kind: str, name: str) -> str:
    """Where a registered object is defined, as 'module:object'. Raises UserError."""
    return _find(kind, name).value


def get(kind: str, name: str) -> Any:
    """Import and return a registered object.

    Raises UserError if the name is unknown, listing the closest names, and PlugInError if two packages register it or
    its package fails to import.
    """
    point = _find(kind, name)
    with errors_of(kind, name, "cannot be loaded"):
        return point.load()


def get_class(kind: str, name: str, base: type[T]) -> type[T]:
    """Import a registered class. Raises as `get` does, and PlugInError if it does not derive from `base`."""
    found = get(kind, name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise PlugInError(f"the {kind} '{name}' ({target(kind, name)}) is not a subclass of {_path(base)}; derive it")
    return found


def get_instance(kind: str, name: str, base: type[T]) -> T:
    """Import a registered object. Raises as `get` does, and PlugInError if it is not an instance of `base`."""
    found = get(kind, name)
    if not isinstance(found, base):
        raise PlugInError(
            f"the {kind} '{name}' ({target(kind, name)}) is not an instance of {_path(base)}; make it one"
        )
    return found


@contextmanager
def errors_of(kind: str, name: str, what: str = "failed") -> Iterator[None]:
    """Convert whatever a registered object's own code raises into a PlugInError of one line naming its package.

    A UserError passes unchanged; neither SystemExit nor os._exit ends the program.
    """
    try:
        with exit_raises():
            yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        point = _find(kind, name)
        package = f"package {point.dist.name}, " if point.dist else ""
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        place = raised_at(error, plugin_modules())
        reason += f" ({place})" if place else ""
        raise PlugInError(
            f"the {kind} '{name}' ({package}{point.value}) {what}: {reason}; repair or uninstall the package"
        ) from error


def _find(kind: str, name: str) -> EntryPoint:
    points = _points(kind)
    if name not in points:
        raise UserError(f"unknown {kind} '{name}'; {suggest(name, sorted(points))}")
    first, *others = points[name]
    if others:
        places = " and ".join(point.value for point in points[name])
        raise PlugInError(f"two packages register the {kind} '{name}': {places}; rename or uninstall one")
    return first


def _path(base: type) -> str:
    return f"{base.__module__.removesuffix('.base')}.{base.__name__}"
