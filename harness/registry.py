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
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from harness.formatting import one_line
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
    names = [name for name in known if name != word]
    folded_word = word.casefold()
    # of names that differ by case alone, the first stands for all
    name_by_folded = {name.casefold(): name for name in reversed(names)}
    having_part = [name for name in name_by_folded if folded_word in re.split(r"[.:/]", name)]
    abbreviated = [name for name in name_by_folded if _make_initials(name) == folded_word]
    abbreviated.reverse()  # into the order of `names`

    near = [*having_part, *abbreviated]
    if not abbreviated:
        near += _find_close(folded_word, name_by_folded, 0.75) or _find_close(
            folded_word, name_by_folded, 0.5
        )
    if near:
        distinct = list(dict.fromkeys(near))
        return f"did you mean {' or '.join(name_by_folded[name] for name in distinct[:3])}?"
    if otherwise:
        return otherwise
    return f"known: {', '.join(names) or 'none'}"


def _make_initials(name: str) -> str:
    """`lr` of learning_rate; empty for a name of one word."""
    words = [word for word in name.split("_") if word]
    if len(words) < 2:
        return ""
    return "".join(word[0] for word in words)


def _find_close(word: str, names: Collection[str], cutoff: float) -> list[str]:
    return difflib.get_close_matches(word, names, n=3, cutoff=cutoff)


class Registered:
    """Base of classes that packages register: what each defines is noted, so that later changes are
    noticed.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _DEFINED[cls] = dict(vars(cls))
        # under its own name, since a name of a loop over functions is bound again while the module
        # is imported
        _BESIDE[cls] = {
            name: value
            for name, value in _get_module_globals(cls).items()
            if isinstance(value, FunctionType) and value.__name__ == name
        }


#: class -> what it defines, and the functions that its module has defined or imported before it
_DEFINED: Final[dict[type, dict[str, Any]]] = {}
_BESIDE: Final[dict[type, dict[str, FunctionType]]] = {}


def _get_module_globals(cls: type) -> dict[str, Any]:
    """What the module of a class defines; empty for a module that is not loaded by its name."""
    module = sys.modules.get(cls.__module__)
    return {} if module is None else vars(module)


def find_change(registered: object) -> str:
    """What was replaced since a class, or one that it extends, was defined: a member, or a function
    of its module.

    The first such name, or ''. Functions that stand below the class in the file are not noticed.
    """
    classes = getattr(registered, "__mro__", ())
    for ancestor in filter(_DEFINED.get, classes):
        present_functions = _get_module_globals(ancestor)
        for name, function in _BESIDE[ancestor].items():
            if present_functions.get(name) is not function:
                return f"{ancestor.__module__}.{name}"

        defined = _DEFINED[ancestor]
        present = vars(ancestor)
        for name in {**defined, **present}:
            value = defined.get(name)
            if present.get(name) is value:
                continue
            # other values, such as counters of a class's own, may change
            if hasattr(value, "__get__") or _is_interface(name, ancestor, classes):
                return f"{ancestor.__name__}.{name}"
    return ""


def _is_interface(name: str, owner: type, classes: Sequence[type]) -> bool:
    """Whether another class of a hierarchy has a member of this name too."""
    if name.startswith(("__", "_abc_")):
        return False
    return any(name in vars(relative) for relative in classes if relative is not owner)


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


@cache
def list_plugin_modules() -> frozenset[str]:
    """The top-level modules in which other packages define registered objects."""
    modules = set()
    for kind in GROUPS:
        for places in list_targets(kind).values():
            modules |= {place.partition(":")[0].partition(".")[0] for place in places}
    return frozenset(modules - OWN)


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
    return _get_point(kind, name).value


def get(kind: str, name: str) -> Any:
    """Import and return a registered object.

    Raises UserError if the name is unknown, listing the closest names, and PlugInError if two
    packages register it or its package fails to import.
    """
    _get_points(kind, name)  # checks the name
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
            return _get_point(kind, name).load(), ""
    except UserError as error:
        return None, str(error)


def get_class(kind: str, name: str, base: type[T]) -> type[T]:
    """Import a registered class. Raises as `get` does, and PlugInError unless it is a valid
    subclass of `base`.
    """
    registered: type[T] = _get_checked(kind, name, base)
    return registered


def get_instance(kind: str, name: str, base: type[T]) -> T:
    """Import a registered object. Raises as `get` does, and PlugInError unless it is a valid
    instance of `base`.
    """
    registered: T = _get_checked(kind, name, base)
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
        point = _get_point(kind, name)
        package = f"package {point.dist.name}, " if point.dist else ""
        reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        line = find_raising_line(error, list_plugin_modules())
        if line:
            reason += f" ({line})"
        raise PlugInError(
            f"the {kind} '{name}' ({package}{point.value}) {what}: {reason}; repair or uninstall the package"
        ) from error


def _get_points(kind: str, name: str) -> dict[str, EntryPoint]:
    """The entry points of a name by their targets. Raises UserError for an unknown name."""
    points_by_name = list_entry_points(kind)
    if name not in points_by_name:
        known = suggest(name, sorted(points_by_name))
        raise UserError(f"unknown {kind} '{one_line(name)}'; {known}")
    return points_by_name[name]


def _get_point(kind: str, name: str) -> EntryPoint:
    """The only entry point of a name. Raises UserError for an unknown one, PlugInError if packages
    disagree.
    """
    points = _get_points(kind, name)
    if len(points) > 1:
        raise PlugInError(
            f"two packages register the {kind} '{name}': {' and '.join(points)}; rename or uninstall one"
        )
    (point,) = points.values()
    return point


def _get_checked(kind: str, name: str, base: type) -> Any:
    registered = get(kind, name)
    with convert_errors(kind, name, "cannot be checked"):
        fault = _find_fault(registered, base)
    if fault:
        place = find_target(kind, name)
        raise PlugInError(f"the {kind} '{name}' ({place}) {fault}; repair or uninstall the package")
    return registered


def _find_fault(registered: Any, base: type) -> str:
    """Why an object is not a subclass (or instance) of `base` with valid declarations; empty if it
    is.
    """
    is_class = isinstance(registered, type)
    if dataclasses.is_dataclass(base) or getattr(base, "_is_protocol", False):
        if is_class or not isinstance(registered, base):
            return f"is not an instance of {_name_class(base)}"
    elif not is_class or not issubclass(registered, base):
        return f"is not a subclass of {_name_class(base)}"

    lacking = sorted(getattr(registered, "__abstractmethods__", ()))
    if lacking:
        return f"does not define {', '.join(lacking)}"

    for name, validator in _make_validators(base).items():
        fault = _find_fault_of_declaration(registered, name, validator)
        if fault:
            return fault
    return ""


def _find_fault_of_declaration(registered: Any, name: str, validator: TypeAdapter[Any]) -> str:
    """Why a declaration is missing or has a wrong value; empty if valid."""
    from pydantic import ValidationError

    if not hasattr(registered, name):
        return f"does not define {name}"
    value = getattr(registered, name)
    try:
        validator.validate_python(value)
    except ValidationError as error:
        return f"declares {name} = {value!r}: {describe_problems(*error.errors())}"
    return ""


@cache
def _make_validators(base: type) -> Mapping[str, TypeAdapter[Any]]:
    """A validator for each declaration of a base class: its class variables, or the fields of a
    dataclass.
    """
    from pydantic import TypeAdapter

    has_fields = dataclasses.is_dataclass(base)
    hints: dict[str, Any] = {}
    for ancestor in reversed(base.__mro__):
        if ancestor.__module__.partition(".")[0] not in OWN:
            continue

        annotations = {
            name: text
            for name, text in vars(ancestor).get("__annotations__", {}).items()
            if not name.startswith("_") and (has_fields or str(text).startswith("ClassVar"))
        }
        # a class of these annotations alone, since other ones may not be resolved here
        annotated = type(ancestor.__name__, (), {"__annotations__": annotations})
        hints |= get_type_hints(annotated, vars(sys.modules[ancestor.__module__]))

    validators = {}
    for name, hint in hints.items():
        is_class_variable = get_origin(hint) is ClassVar
        validators[name] = TypeAdapter(hint.__args__[0] if is_class_variable else hint)
    return validators


def _name_class(base: type) -> str:
    return f"{base.__module__.removesuffix('.base')}.{base.__name__}"


def find_raising_line(error: BaseException, packages: Collection[str]) -> str:
    """The last line of these packages in an error's traceback, as `file.py, line N`; empty if there
    is none.
    """
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in packages:
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return place
