"""The type of the fixture `install` of tests/plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

#: writes and installs a package: its name, the code of its one module, and {group: {name: object of the module}}
Install = Callable[[str, str, Mapping[str, Mapping[str, str]]], Path]
