"""Scripts of the project that are in no package, as modules."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def script(path: Path) -> ModuleType:
    """A file of Python, executed as a module of its name."""
    spec = spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
