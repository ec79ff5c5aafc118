"""Scripts of the project that are in no package, as modules."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def script(path: Path) -> ModuleType:
    """A file of Python, executed as a module of its name."""
    spec = spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    made = module_from_spec(spec)
    before = sys.modules.get(path.stem)  # `site` is also one of Python's own
    sys.modules[path.stem] = made  # dataclasses look for it there
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules[path.stem]
        if before is not None:
            sys.modules[path.stem] = before
    return made
