"""The registry: everything that packages can add by name is found by entry point.

A package adds something by declaring an entry point in one of the groups below, as this project
does in its own pyproject.toml. A registered object is imported once, when first used, and checked
against the annotations of its base class. A package that fails affects only the names that it
registers.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    TypeVar,
    cast,
    get_origin,
    get_type_hints,
)

from harness.errors import PlugInError, UserError, describe_problems
from harness.stopping import Stopped

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
    "report section": "harness.sections",
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
#: exceptions of this project that may pass through other people's code unchanged
OWN_SIGNALS: Final = (KeyboardInterrupt, GeneratorExit, Stopped)


def suggest(word: str, known: Collection[str], otherwise: str = "") -> str:
    """The end of an error line: names with this part (sts.Avg for Avg) or these initials
    (learning_rate for lr), and the closest ones.

    If none is close, it is `otherwise`, by default the list of all.
    """
    known = [name for name in known if name != word]
    folded = {name.casefold(): name for name in reversed(known)}
    parts = [name for name in folded if word.casefold() in re.split(r"[.:/]", name)]
    abbreviated = [name for name in folded if _initials_of(name) == word.casefold()]
    abbreviated.reverse()  # into the order of `known`
    near = [*parts, *abbreviated]
    if not abbreviated:
        near += _near(word, folded, 0.75) or _near(word, folded, 0.5)
    if near:
        return f"did you mean {' or '.join(folded[name] for name in [*dict.fromkeys(near)][:3])}?"
    return otherwise or f"known: {', '.join(name for name in known if name != word) or 'none'}"


def _initials_of(name: str) -> str:
    """`lr` of learning_rate; empty for a name of one word."""
    words = [word for word in name.split("_") if word]
    return "".join(word[0] for word in words) if len(words) > 1 else ""


def _near(word: str, folded: Collection[str], cutoff: float) -> list[str]:
    return difflib.get_close_matches(word.casefold(), folded, n=3, cutoff=cutoff)


class Registered:
    """Base of classes that packages register: what each defines is noted, so that later changes are
    noticed.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _DEFINED[cls] = dict(vars(cls))
        # under its own name, since a name of a loop over functions is bound again while the module
        # is imported
        functions = (
            (name, value)
            for name, value in _globals(cls).items()
            if isinstance(value, FunctionType)
        )
        _BESIDE[cls] = {name: value for name, value in functions if value.__name__ == name}


#: class -> what it defines, and the functions that its module has defined or imported before it
_DEFINED: Final[dict[type, dict[str, Any]]] = {}
_BESIDE: Final[dict[type, dict[str, FunctionType]]] = {}


def _globals(cls: type) -> dict[str, Any]:
    return vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}


def find_change(registered: object) -> str:
    """What was replaced since a class, or one that it extends, was defined: a member, or a function
    of its module.

    The first such name, or ''. Functions that stand below the class in the file are not noticed.
    """
    classes = getattr(registered, "__mro__", ())
    for each in filter(_DEFINED.get, classes):
        for name, function in _BESIDE[each].items():
            if _globals(each).get(name) is not function:
                return f"{each.__module__}.{name}"
        now = vars(each)
        defined = _DEFINED[each]
        for name in {**defined, **now}:
            value = defined.get(name)
            special = name.startswith(("__", "_abc_"))
            interface = not special and any(
                name in vars(other) for other in classes if other is not each
            )
            if now.get(name) is not value and (interface or hasattr(value, "__get__")):
                return f"{each.__name__}.{name}"
    return ""


@cache
def read_installed_entries() -> EntryPoints:
    """The entry points of all installed packages, whose files are read once a process."""
    # typed as a dictionary by group before Python 3.12, which selects alike
    return cast(EntryPoints, entry_points())


@cache
def list_entry_points(kind: str) -> dict[str, dict[str, EntryPoint]]:
    """The registered names of a kind, with their entry points by target: several if packages
    disagree about a name.
    """
    registered: dict[str, dict[str, EntryPoint]] = {}
    for point in read_installed_entries().select(group=GROUPS[kind]):
        registered.setdefault(point.name, {}).setdefault(point.value, point)
    return registered


def list_plugin_modules() -> frozenset[str]:
    """The top-level modules in which other packages define registered objects."""
    places = (
        point for kind in GROUPS for points in list_entry_points(kind).values() for point in points
    )
    return frozenset(point.partition(":")[0].partition(".")[0] for point in places) - OWN


def list_registered(kind: str) -> list[str]:
    """All registered names of a kind, sorted. Imports nothing."""
    return sorted(list_entry_points(kind))


def list_targets(kind: str) -> dict[str, list[str]]:
    """Where the registered objects of a kind are defined, by name; several places where packages
    disagree.
    """
    return {name: list(points) for name, points in list_entry_points(kind).items()}


def find_target(kind: str, name: str) -> str:
    """Where a registered object is defined, as 'module:object'. Raises UserError."""
    return _point(kind, name).value


def get(kind: str, name: str) -> Any:
    """Import and return a registered object.

    Raises UserError if the name is unknown, listing the closest names, and PlugInError if two
    packages register it or its package fails to import.
    """
    _points(kind, name)
    registered, problem = try_to_load(kind, name)
    if problem:
        raise PlugInError(problem)
    return registered


@cache
def try_to_load(kind: str, name: str) -> tuple[Any, str]:
    """A registered object, or why it cannot be imported; cached, since a failing import may take
    long too.
    """
    try:
        with convert_errors(kind, name, "cannot be loaded"):
            return _point(kind, name).load(), ""
    except UserError as error:
        return None, str(error)


def get_class(kind: str, name: str, base: type[T]) -> type[T]:
    """Import a registered class. Raises as `get` does, and PlugInError unless it is a valid
    subclass of `base`.
    """
    registered: type[T] = _checked(kind, name, base)
    return registered


def get_instance(kind: str, name: str, base: type[T]) -> T:
    """Import a registered object. Raises as `get` does, and PlugInError unless it is a valid
    instance of `base`.
    """
    registered: T = _checked(kind, name, base)
    return registered


@contextmanager
def convert_errors(kind: str, name: str, what: str = "failed") -> Iterator[None]:
    """Convert any error of a registered object's own code into a PlugInError of one line naming its
    package.

    A UserError passes unchanged. Other errors do not end the program.
    """
    try:
        yield
    except (UserError, *OWN_SIGNALS):
        raise
    except BaseException as error:
        point = _point(kind, name)
        package = f"package {point.dist.name}, " if point.dist else ""
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        where = find_raising_line(error, list_plugin_modules())
        reason += f" ({where})" if where else ""
        raise PlugInError(
            f"the {kind} '{name}' ({package}{point.value}) {what}: {reason}; repair or uninstall the package"
        ) from error


def _points(kind: str, name: str) -> dict[str, EntryPoint]:
    known = list_entry_points(kind)
    if name not in known:
        raise UserError(f"unknown {kind} '{name}'; {suggest(name, sorted(known))}")
    return known[name]


def _point(kind: str, name: str) -> EntryPoint:
    """The only entry point of a name. Raises UserError for an unknown one, PlugInError if packages
    disagree.
    """
    first, *others = (points := _points(kind, name)).values()
    if others:
        places = " and ".join(points)
        raise PlugInError(
            f"two packages register the {kind} '{name}': {places}; rename or uninstall one"
        )
    return first


def _checked(kind: str, name: str, base: type) -> Any:
    registered = get(kind, name)
    with convert_errors(kind, name, "cannot be checked"):
        wrong = _fault(registered, base)
    if wrong:
        where = find_target(kind, name)
        raise PlugInError(f"the {kind} '{name}' ({where}) {wrong}; repair or uninstall the package")
    return registered


def _fault(loaded: Any, base: type) -> str:
    """Why an object is not a subclass (or instance) of `base` with valid declarations; empty if it
    is.
    """
    instance = dataclasses.is_dataclass(base) or getattr(base, "_is_protocol", False)
    if instance and (isinstance(loaded, type) or not isinstance(loaded, base)):
        return f"is not an instance of {_path(base)}"
    if not instance and not (isinstance(loaded, type) and issubclass(loaded, base)):
        return f"is not a subclass of {_path(base)}"
    if lacking := sorted(getattr(loaded, "__abstractmethods__", ())):
        return f"does not define {', '.join(lacking)}"
    return next(
        filter(None, (_misfit(loaded, name, check) for name, check in _declared(base).items())), ""
    )


def _misfit(loaded: Any, name: str, check: TypeAdapter[Any]) -> str:
    """Why a declaration is missing or has a wrong value; empty if valid."""
    from pydantic import ValidationError

    if not hasattr(loaded, name):
        return f"does not define {name}"
    try:
        check.validate_python(getattr(loaded, name))
    except ValidationError as error:
        return f"declares {name} = {getattr(loaded, name)!r}: {describe_problems(*error.errors())}"
    return ""


@cache
def _declared(base: type) -> Mapping[str, TypeAdapter[Any]]:
    """A validator for each declaration of a base class: its class variables, or the fields of a
    dataclass.
    """
    from pydantic import TypeAdapter

    hints: dict[str, Any] = {}
    for each in reversed(
        [ancestor for ancestor in base.__mro__ if ancestor.__module__.partition(".")[0] in OWN]
    ):
        own = {
            name: text
            for name, text in vars(each).get("__annotations__", {}).items()
            if not name.startswith("_")
        }
        if not dataclasses.is_dataclass(base):
            own = {name: text for name, text in own.items() if str(text).startswith("ClassVar")}
        hints |= get_type_hints(
            type(each.__name__, (), {"__annotations__": own}), vars(sys.modules[each.__module__])
        )
    return {
        name: TypeAdapter(hint.__args__[0] if get_origin(hint) is ClassVar else hint)
        for name, hint in hints.items()
    }


def _path(base: type) -> str:
    return f"{base.__module__.removesuffix('.base')}.{base.__name__}"


def find_raising_line(error: BaseException, packages: Collection[str]) -> str:
    """The last line of these packages in an error's traceback, as `file.py, line N`; empty if there
    is none.
    """
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            where = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return where
