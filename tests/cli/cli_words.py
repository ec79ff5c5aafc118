"""The type of the fixture `typed`."""

from __future__ import annotations

from collections.abc import Callable

#: a command's words -> exit code, output, errors
Typed = Callable[..., tuple[int, str, str]]
