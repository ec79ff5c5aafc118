"""Declarations of this project's registered classes, cached so that a plan does not import torch.

CACHE/declarations/KEY.json           a note (`harness.files`): question -> answer

KEY is a hash of the contents of every Python file of this project and of the names that all packages register. Code of
other packages is always asked, since it is unknown which files its answers depend on; so is a class whose module is
loaded already. A file that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.caches import cache_folder
from harness.files import DamagedError, note_in, read_regular, write_note
from harness.registry import GROUPS, errors_of, target, targets
from harness.sources import digest

#: packages whose declarations depend on nothing but their own files
_OWN: Final = ("harness", "harness_methods")
#: files of earlier states of the code that are kept
_KEPT: Final = 20


class Declarations:
    """Cached declarations of registered classes."""

    def __init__(self) -> None:
        self._file = cache_folder() / "declarations" / f"{state_of_code()[:32]}.json"
        self._known = _read(self._file)
        self._new = False

    def ask(self, kind: str, name: str, question: object, answer: Callable[[], Any]) -> Any:
        """The answer, a JSON value. `answer` computes it from the class, which it imports; errors are not kept.

        Raises UserError, and PlugInError for what the class itself raises.
        """

        def asked() -> Any:
            with errors_of(kind, name):
                return json.loads(json.dumps(answer()))

        module = target(kind, name).partition(":")[0]
        if module.partition(".")[0] not in _OWN:
            return asked()
        key = digest(kind, name, question)
        if module in sys.modules or key not in self._known:
            found = asked()
            self._new |= self._known.get(key) != found
            self._known[key] = found
        return self._known[key]

    def save(self) -> None:
        if not self._new:
            return
        self._new = False
        self._known = _read(self._file) | self._known
        with suppress(OSError):
            write_note(self._file, self._known)
            files = sorted(self._file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            for old in files[:-_KEPT]:
                old.unlink(missing_ok=True)


def declarations() -> Declarations:
    """The declarations of this process, in the cache folder of now."""
    return _in_folder(cache_folder())


@cache
def _in_folder(folder: Path) -> Declarations:
    return Declarations()


@cache
def state_of_code() -> str:
    """A hash of the project's code and of all registered names."""
    state = hashlib.sha256()
    for package in _OWN:
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                content = path.read_bytes()
                state.update(f"{package}/{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest(state.hexdigest(), {kind: targets(kind) for kind in GROUPS}, sys.version)


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, DamagedError):
        return note_in(read_regular(file))
    return {}
