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

KEY is a hash of the contents of every Python file of this project and of the names that all
packages register. Classes of other packages are always imported, since it is unknown which files
their declarations depend on; a class whose module is already loaded is read directly. A damaged or
unwritable file is treated as missing.
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
#: number of cache files kept for earlier states of the code
_KEPT_FILES: Final = 20
_STARTED: Final = time.time_ns()


def hash_code(kind: str, name: str, known_by: KnownBy = "syntax") -> str:
    """SHA-256 (hex) of the code of a registered object; empty for this project's own.

    Raises as `hash_module_code`, and UserError for a class that this process has changed.
    """
    module, _, member = find_target(kind, name).partition(":")
    if change := find_change(getattr(sys.modules.get(module), member, None)):
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
    files = _find_files(module)
    hashes = [(name, _content(name, path, known_by)) for name, path in files.items()]
    for name, path in files.items():
        if path.name == "__init__.py":
            hashes += [(f"{name}/{data}", hash_file(file)) for data, file in _data_of(path.parent)]
    hashes.sort()
    return digest(hashes) if known_by == "bytes" else digest("syntax", hashes)


def _data_of(package: Path) -> Iterator[tuple[str, Path]]:
    """The files of data of a package: in its folder, and in folders that are no packages."""
    for folder, subfolders, names in os.walk(package):
        subfolders[:] = [
            name
            for name in subfolders
            if not name.startswith((".", "__")) and not Path(folder, name, "__init__.py").is_file()
        ]
        for name in names:
            if not name.startswith(".") and not name.endswith(_NO_DATA):
                path = Path(folder, name)
                yield path.relative_to(package).as_posix(), path


def _find_files(module: str) -> dict[str, Path]:
    """The files of a module, of its imports, and of the packages that contain them."""
    files: dict[str, Path] = {}
    packages = list_plugin_modules() | {module.partition(".")[0]}
    folder = _folder_of(module)
    pending = [module]
    while pending:
        parts = pending.pop().split(".")
        is_read = parts[0] in packages or (folder and _in_folder(folder, parts[0]))
        if not is_read:
            continue

        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            path = None if name in files else _file(name)
            if path is not None:
                files[name] = path
                pending += _imports(name, path)
    return files


def _folder_of(module: str) -> Path | None:
    """The folder that contains a module's package; None for installed packages."""
    top = _file(module.partition(".")[0])
    folder = top and (top.parent.parent if top.name == "__init__.py" else top.parent)
    return folder if folder and folder.name not in _INSTALLED else None


def _file(name: str) -> Path | None:
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
    folders = [
        Path(folder).joinpath(*rest[:-1]) for folder in spec.submodule_search_locations or ()
    ]
    return next(filter(None, (_in_folder(folder, rest[-1]) for folder in folders)), None)


def _in_folder(folder: Path, name: str) -> Path | None:
    names = (
        f"{name}/__init__.py",
        f"{name}.py",
        *(f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES),
    )
    return next((folder / each for each in names if (folder / each).is_file()), None)


def _imports(name: str, path: Path) -> Iterator[str]:
    """Modules in the import statements of a file, and imported names that may be modules."""
    if path.suffix != ".py":
        return
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (
        SyntaxError,
        ValueError,
        RecursionError,
    ):  # raised for a file that cannot be imported either
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join(filter(None, (*above, node.module or "")))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _content(name: str, path: Path, known_by: KnownBy) -> str:
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
        self._known = _read(self._file)
        self._new = False
        self._held: dict[str, Any] | None = None

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
        key = digest(kind, name, question)
        if self._held is None:
            return self._answer(key, kind, name, answer)
        if key not in self._held:
            self._held[key] = self._answer(key, kind, name, answer)
        return self._held[key]

    def _answer(self, key: str, kind: str, name: str, answer: Callable[[], Any]) -> Any:

        def asked() -> Any:
            with convert_errors(kind, name):
                return json.loads(json.dumps(answer()))

        if not self._is_kept(kind, name):
            return asked()

        module, _, _ = find_target(kind, name).partition(":")
        if module in sys.modules or key not in self._known:
            kept = asked()
            self._new |= self._known.get(key) != kept
            self._known[key] = kept
        return self._known[key]

    def recall(self, kind: str, name: str, question: object) -> Any:
        """The answer if it is kept, else None."""
        key = digest(kind, name, question)
        return self._known.get(key) if self._is_kept(kind, name) else None

    def _is_kept(self, kind: str, name: str) -> bool:
        """Whether answers are kept: of this project's classes, as their files have them."""
        module, _, member = find_target(kind, name).partition(":")
        is_ours = module.partition(".")[0] in _DECLARING
        return is_ours and not find_change(getattr(sys.modules.get(module), member, None))

    def read_again(self) -> None:
        """Add the answers that other processes have kept since."""
        self._known = _read(self._file) | self._known

    def save(self) -> None:
        """Keep the answers, unless a file of the project has changed since this process started."""
        if not self._new or any(path.stat().st_ctime_ns > _STARTED for _, _, path in _own_files()):
            return
        self._new = False
        self.read_again()
        with suppress(OSError):
            write_note(self._file, self._known)
            files = sorted(
                self._file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns
            )
            for old in files[:-_KEPT_FILES]:
                old.unlink(missing_ok=True)


def get_declarations() -> Declarations:
    """The declarations of this process, in the current cache folder; kept there when it ends."""
    return _declarations_in(get_cache_folder())


@cache
def _declarations_in(folder: Path) -> Declarations:
    known = Declarations()
    atexit.register(known.save)
    return known


@cache
def hash_state_of_code() -> str:
    """A hash of the project's code and of all registered names."""
    state = hashlib.sha256()
    for package, name, path in _own_files():
        content = path.read_bytes()
        state.update(f"{package}/{name} {len(content)}\n".encode() + content)
    return digest(state.hexdigest(), {kind: list_targets(kind) for kind in GROUPS}, sys.version)


def _own_files() -> Iterator[tuple[str, str, Path]]:
    """The package, the name in it and the path of each Python file of this project."""
    for package in _DECLARING:
        yield from ((package, name, path) for name, path in list_python_files(package))


def list_python_files(module: str) -> Iterator[tuple[str, Path]]:
    """Name and path of each Python file of a top-level module, which is not imported; none if it is
    not found.
    """
    spec = find_spec(module)
    if (
        spec
        and spec.submodule_search_locations is None
        and spec.origin
        and spec.origin.endswith(".py")
    ):
        yield f"{module}.py", Path(spec.origin)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        yield from (
            (path.relative_to(folder).as_posix(), path)
            for path in sorted(Path(folder).rglob("*.py"))
        )


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, DamagedError):
        return parse_note(read_regular(file))
    return {}
