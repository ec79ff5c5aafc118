"""The code of registered objects: its hash, and the cached declarations of this project's classes.

The results of a plug-in depend on its files: the module that it registers, and what that imports of
its own package, of modules beside it, and of other plug-ins. They are found by reading the import
statements, so that they do not depend on what else a process has imported; a module imported by a
computed name is not found. Files of data in the packages of these modules count too, whatever reads
them; files elsewhere, variables of the environment and the network cannot be known. This project's
own code has versions instead (`BACKEND_VERSION`, `Suite.version`).

A file of Python is known by its syntax tree (`harness.syntax`), so that a comment, a docstring or a
formatter's run is no other code, and other files by their bytes. Results of earlier versions know
every file by its bytes; `known_by` asks for the hash in their notation.

Declarations of this project's classes are cached, so that a plan does not import torch:

CACHE/declarations/KEY.json           a note (`harness.files`): question -> answer

KEY is a hash of the contents of this project's Python files, but for those that no declared class
may import, and of the names that all packages register. Classes of other packages are always
imported, since it is unknown which files their declarations depend on; a class whose module is
already loaded is read directly. A damaged or unwritable file is treated as missing.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from harness.caches import get_cache_folder
from harness.errors import PlugInError, UserError
from harness.files import DamagedError, parse_note, read_regular, write_note
from harness.registry import (
    GROUPS,
    OWN,
    convert_errors,
    find_change,
    find_target,
    list_plugin_modules,
    list_targets,
)
from harness.sources import digest, hash_file
from harness.syntax import hash_of_syntax

#: what a hash of code is made from; results of earlier versions have that of the bytes
KnownBy = Literal["syntax", "bytes"]

#: folders of installed packages, where neighbouring modules do not belong together
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: ends of the names of files in a package that are no data
_NO_DATA = (".py", ".pyi", ".pyc", *EXTENSION_SUFFIXES, "py.typed")
#: packages whose declarations depend only on their own files
_DECLARING: Final = ("harness", "harness_methods")
#: rooms of this project that no method, suite, teacher or encoder may import (docs/architecture.md):
#: what these declare does not depend on them
UNDECLARED_ROOMS: Final = frozenset(
    {
        *("api", "cli", "command_line", "commands", "corpora", "fetching", "grid", "papers"),
        *("planning", "profiles", "reading", "reporting", "runs", "setting", "store", "toy"),
        *("training", "work"),
    }
)
#: number of cache files kept for earlier states of the code
_KEPT_FILES: Final = 20
_STARTED: Final = time.time_ns()


def hash_code(kind: str, name: str, known_by: KnownBy = "syntax") -> str:
    """SHA-256 (hex) of the code of a registered object; empty for this project's own.

    Raises as `hash_module_code`, and UserError for a class that this process has changed.
    """
    module, _, member = find_target(kind, name).partition(":")
    change = find_change(getattr(sys.modules.get(module), member, None))
    if change:
        raise UserError(
            f"{change} was replaced after its class was defined, so results would not be those of the {kind} '{name}'; "
            f"restart the process, and write the change into a {kind} of your own"
        )
    return hash_module_code(module, known_by)


def hash_module_code(module: str, known_by: KnownBy = "syntax") -> str:
    """SHA-256 (hex) of a module with what it imports of its package and the data of that; empty for
    this project's own.

    Raises PlugInError if what a file does has changed since this process imported it, since the old
    code would run.
    """
    top = module.partition(".")[0]
    if top in OWN or top in sys.stdlib_module_names:
        return ""
    hashes = []
    for name, path in _find_files(module).items():
        hashes.append((name, _hash_checked(name, path, known_by)))
        if path.name == "__init__.py":
            for data_name, data_path in _list_data(path.parent):
                hashes.append((f"{name}/{data_name}", hash_file(data_path)))
    hashes.sort()
    return digest(hashes) if known_by == "bytes" else digest("syntax", hashes)


def _list_data(package: Path) -> Iterator[tuple[str, Path]]:
    """The files of data of a package: in its folder, and in folders that are no packages."""
    for folder, subfolders, names in os.walk(package):
        # what stays in the list is walked next
        subfolders[:] = [name for name in subfolders if _is_data_folder(Path(folder, name))]
        for name in names:
            if not name.startswith(".") and not name.endswith(_NO_DATA):
                path = Path(folder, name)
                yield path.relative_to(package).as_posix(), path


def _is_data_folder(folder: Path) -> bool:
    is_package = (folder / "__init__.py").is_file()
    return not folder.name.startswith((".", "__")) and not is_package


def _find_files(module: str) -> dict[str, Path]:
    """The files of a module, of its imports, and of the packages that contain them."""
    files: dict[str, Path] = {}
    packages = list_plugin_modules() | {module.partition(".")[0]}
    folder = _find_folder(module)
    pending = [module]
    while pending:
        parts = pending.pop().split(".")
        is_beside = folder is not None and _find_in_folder(folder, parts[0]) is not None
        if parts[0] not in packages and not is_beside:
            continue

        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            path = None if name in files else _find_file(name)
            if path is not None:
                files[name] = path
                pending += _list_imports(name, path)
    return files


def _find_folder(module: str) -> Path | None:
    """The folder that contains a module's package; None for installed packages."""
    top = _find_file(module.partition(".")[0])
    if top is None:
        return None
    folder = top.parent.parent if top.name == "__init__.py" else top.parent
    return None if folder.name in _INSTALLED else folder


def _find_file(name: str) -> Path | None:
    """Find the file of a module without importing; None if there is none, as for a package without
    `__init__.py`.
    """
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except ValueError:  # raised for __main__
        return None
    if spec is None or top in OWN:
        return None
    if not rest:
        return Path(spec.origin) if spec.has_location and spec.origin else None

    for location in spec.submodule_search_locations or ():
        folder = Path(location).joinpath(*rest[:-1])
        path = _find_in_folder(folder, rest[-1])
        if path is not None:
            return path
    return None


def _find_in_folder(folder: Path, name: str) -> Path | None:
    """The file of a module in a folder, by the order in which Python looks."""
    for ending in ("/__init__.py", ".py", *EXTENSION_SUFFIXES):
        path = folder / f"{name}{ending}"
        if path.is_file():
            return path
    return None


def _list_imports(name: str, path: Path) -> Iterator[str]:
    """Modules in the import statements of a file, and imported names that may be modules."""
    if path.suffix != ".py":
        return
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, RecursionError):
        return  # it cannot be imported either

    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve_import(node, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _resolve_import(node: ast.ImportFrom, package: str) -> str:
    """The module that a statement in a package imports from: a dot stands for the package, each
    further one for the package around it.
    """
    parts: list[str] = []
    if node.level:
        parts = package.split(".")
        parts = parts[: len(parts) + 1 - node.level]
    if node.module:
        parts.append(node.module)
    return ".".join(filter(None, parts))


def _hash_checked(name: str, path: Path, known_by: KnownBy) -> str:
    """The hash of a file. Raises PlugInError if what it does has changed since this process
    imported it.
    """
    content = path.read_bytes()
    of_bytes = hashlib.sha256(content).hexdigest()
    of_syntax = hash_of_syntax(content) if path.suffix == ".py" else None
    operations = of_syntax or of_bytes
    spec = getattr(sys.modules.get(name), "__spec__", None)
    # kept with the module's spec: a new import has a new spec
    if spec is not None and vars(spec).setdefault("_harness_content", operations) != operations:
        raise PlugInError(
            f"the code in {path.name} has changed since this process imported it; restart it (in a notebook: the "
            "kernel)"
        )
    return of_bytes if known_by == "bytes" else operations


class Declarations:
    """Cached declarations of registered classes."""

    def __init__(self) -> None:
        self._file = get_cache_folder() / "declarations" / f"{hash_state_of_code()[:32]}.json"
        self._answers = _read_answers(self._file)
        self._is_changed = False
        self._held: dict[tuple[str, str, str], Any] | None = None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Within the block each question is answered once: a report asks some ten thousand times,
        and no class changes while it is written.
        """
        outer = self._held
        self._held = {} if outer is None else outer
        try:
            yield
        finally:
            self._held = outer

    def ask(self, kind: str, name: str, question: object, answer: Callable[[], Any]) -> Any:
        """The answer, a JSON value. `answer` computes it from the class, which it imports; errors
        are not kept.

        Raises UserError, and PlugInError for what the class itself raises.
        """
        if self._held is None:
            return self._answer(kind, name, question, answer)
        # a digest would take as long as the rest of a question that is asked often
        held_key = (kind, name, repr(question))
        if held_key not in self._held:
            self._held[held_key] = self._answer(kind, name, question, answer)
        return self._held[held_key]

    def _answer(self, kind: str, name: str, question: object, answer: Callable[[], Any]) -> Any:
        def ask_class() -> Any:
            with convert_errors(kind, name):
                return json.loads(json.dumps(answer()))

        if not self._is_kept(kind, name):
            return ask_class()

        key = digest(kind, name, question)
        module, _, _ = find_target(kind, name).partition(":")
        if module in sys.modules or key not in self._answers:
            present = ask_class()
            self._is_changed |= self._answers.get(key) != present
            self._answers[key] = present
        return self._answers[key]

    def recall(self, kind: str, name: str, question: object) -> Any:
        """The answer if it is kept, else None."""
        key = digest(kind, name, question)
        return self._answers.get(key) if self._is_kept(kind, name) else None

    def _is_kept(self, kind: str, name: str) -> bool:
        """Whether answers are kept: of this project's classes, as their files have them."""
        module, _, member = find_target(kind, name).partition(":")
        is_ours = module.partition(".")[0] in _DECLARING
        return is_ours and not find_change(getattr(sys.modules.get(module), member, None))

    def read_again(self) -> None:
        """Add the answers that other processes have kept since."""
        self._answers = _read_answers(self._file) | self._answers

    def save(self) -> None:
        """Keep the answers, unless a file of the project has changed since this process started."""
        if not self._is_changed:
            return
        if any(path.stat().st_ctime_ns > _STARTED for _, _, path in _list_own_files()):
            return

        self._is_changed = False
        self.read_again()
        with suppress(OSError):
            write_note(self._file, self._answers)
            files = list(self._file.parent.glob("*.json"))
            files.sort(key=lambda path: path.stat().st_mtime_ns)
            for old_file in files[:-_KEPT_FILES]:
                old_file.unlink(missing_ok=True)


def get_declarations() -> Declarations:
    """The declarations of this process, in the current cache folder; kept there when it ends."""
    return _get_declarations_in(get_cache_folder())


@cache
def _get_declarations_in(folder: Path) -> Declarations:
    declarations = Declarations()
    atexit.register(declarations.save)
    return declarations


@cache
def hash_state_of_code() -> str:
    """A hash of the code that declared classes may depend on, and of all registered names."""
    state = hashlib.sha256()
    for package, name, path in _list_own_files():
        content = path.read_bytes()
        state.update(f"{package}/{name} {len(content)}\n".encode() + content)
    return digest(state.hexdigest(), {kind: list_targets(kind) for kind in GROUPS}, sys.version)


def _list_own_files() -> Iterator[tuple[str, str, Path]]:
    """The package, the name in it and the path of each Python file of this project that a declared
    class may depend on.
    """
    for package in _DECLARING:
        for name, path in list_python_files(package):
            room = name.partition("/")[0].removesuffix(".py")
            if package != "harness" or room not in UNDECLARED_ROOMS:
                yield package, name, path


def list_python_files(module: str) -> Iterator[tuple[str, Path]]:
    """Name and path of each Python file of a top-level module, which is not imported; none if it is
    not found.
    """
    spec = find_spec(module)
    if spec is None:
        return

    if spec.submodule_search_locations is None:
        if spec.origin and spec.origin.endswith(".py"):
            yield f"{module}.py", Path(spec.origin)
        return

    for folder in spec.submodule_search_locations:
        for path in sorted(Path(folder).rglob("*.py")):
            yield path.relative_to(folder).as_posix(), path


def _read_answers(file: Path) -> dict[str, Any]:
    with suppress(OSError, DamagedError):
        return parse_note(read_regular(file))
    return {}
