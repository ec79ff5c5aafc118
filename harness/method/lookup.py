"""Methods by what a user types: a name, a package, a folder, a module or a file."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UserError
from harness.files import expand
from harness.method.base import Method
from harness.registry import (
    OWN,
    OWN_SIGNALS,
    find_raising_line,
    find_target,
    get_class,
    list_registered,
)
from harness.spec import Variant
from harness.tomlfiles import read_content


def find_methods(place: str) -> list[type[Method]]:
    """The methods of a package, its folder, a module, a MODULE:CLASS or a Python file; a folder
    need not be installed.

    The registered methods, else those defined there. Raises UserError if there are none or an
    import fails.
    """
    module_name, colon, class_name = place.partition(":")
    if not colon:
        registered = [
            name
            for name in list_registered("method")
            if top_package(find_target("method", name).partition(":")[0]) == module_name
        ]
        if registered:
            return [get_class("method", name, Method) for name in registered]

        if (expand(module_name) / "pyproject.toml").is_file():
            methods = []
            for declared in make_importable(expand(module_name)):
                methods += find_methods(declared)
            return methods

    in_module = [
        value
        for value in vars(import_module(module_name)).values()
        if inspect.isclass(value) and issubclass(value, Method)
    ]
    if colon:
        methods = [method for method in in_module if method.__name__ == class_name]
    else:
        methods = [method for method in in_module if _is_users_own(method)]
    if not methods:
        missing_class = f"class {class_name} derived" if colon else "class derived"
        raise UserError(
            f"{module_name} has no {missing_class} from harness.method.Method; name the module that defines the method"
        )
    return list(dict.fromkeys(methods))


def find_variants(place: str) -> list[type[Method]]:
    """The methods of a name or of `find_methods`, with values as in `mcse[lambda=1]`. Raises
    UserError.
    """
    name = place
    values = ""
    parts = re.fullmatch(r"([^\[@]+)((?:\[.*\])?(?:@\w+)?)", place)
    if parts is not None and not Path(place).expanduser().exists():
        name, values = parts.groups()

    methods = (
        [get_class("method", name, Method)]
        if name in list_registered("method")
        else find_methods(name)
    )
    if not values:
        return methods
    variant = Variant.parse(f"x{values}")
    return [set_values(method, replace(variant, name=method.name)) for method in methods]


def set_values(method: type[Method], variant: Variant) -> type[Method]:
    """Derive a method with the values of a variant in place of its defaults, which may leave out
    terms. Raises UserError.
    """
    values = dict(variant.options)
    method.configure(variant.reading, values)
    configure = classmethod(
        lambda cls, reading, *layers: method.configure(reading, values, *layers)
    )
    members = {
        "configure": configure,
        "optional_terms": method.terms,
        "name": str(variant),
        "__doc__": method.__doc__,
        "__module__": method.__module__,
    }
    return type(method.__name__, (method,), members)


def top_package(module: str) -> str:
    """The package of a dotted name that an import begins with."""
    return module.partition(".")[0]


def make_importable(folder: Path) -> list[str]:
    """Put a package's folder on the path, and return the MODULE:CLASS of each method that it
    declares. Raises UserError for none.
    """
    try:
        content: Any = read_content(folder / "pyproject.toml", "project")
        declared = [*content["project"]["entry-points"]["harness.methods"].values()]
        # a TypeError for a value that is no text
        if not "".join(declared):
            raise KeyError
    except (KeyError, TypeError, AttributeError):
        table = '[project.entry-points."harness.methods"]'
        raise UserError(
            f"{folder}/pyproject.toml declares no method; add the table {table}"
        ) from None

    sys.path[:0] = [str(path.resolve()) for path in (folder / "src", folder) if path.is_dir()]
    return declared


def import_module(name: str) -> ModuleType:
    """Import a module by its name, or a Python file, whose folder becomes importable. Raises
    UserError.
    """
    module = name
    path = expand(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise UserError(
                f"there is no file {name}; give a Python file, a package or MODULE:CLASS"
            )
        module = path.stem
        sys.path.insert(0, str(path.resolve().parent))
        sys.modules.pop(module, None)
        importlib.invalidate_caches()

    try:
        return importlib.import_module(module)
    except (UserError, *OWN_SIGNALS):
        raise
    except BaseException as error:
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == top_package(module)
        advice = "fix it"
        if is_absent:
            advice = "give its folder or file, or install it: `pip install -e FOLDER`"
        raise UserError(
            f"{name} cannot be imported: {describe_error(error, module)}; {advice}"
        ) from error


def describe_error(error: BaseException, module: str) -> str:
    """An error in a line, with the last line of a module's package in its traceback."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    line = find_raising_line(error, {top_package(module)})
    return f"{message} ({line})" if line else message


def _is_users_own(method: type[Method]) -> bool:
    return top_package(method.__module__) not in OWN and not inspect.isabstract(method)
