"""The text of a command line: `harness ...` commands to copy, and the values of --set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import UserError
from harness.spec import canonical

#: what commands and functions use where nothing is given
DEFAULT_PROFILE = "paper"
DEFAULT_RESULTS = "results"
DEFAULT_REPORT = "reports/build"
DEFAULT_JOBS = 1
DEFAULT_DEVICE: Literal["auto"] = "auto"

Override = int | float | bool | str
Option = str | int | Path | Sequence[object] | Mapping[str, object] | None


def harness_command(*words: str, **options: Option) -> str:
    """A command with its options in the order given, quoted for a shell.

    A sequence is joined by commas, a mapping (`set`) repeats its option as KEY=VALUE. Options that are None, empty or
    the default are left out. `harness_command("run", table="dalr:T3", profile="tiny")`.
    """
    typed = ["harness", *words]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            for key, item in value.items():
                typed += [flag, f"{key}={canonical(item)}"]
        elif not _is_left_out(name, value):
            typed += [flag, _text(value)]
    return shlex.join(typed)


def _is_left_out(name: str, value: object) -> bool:
    defaults = {"profile": DEFAULT_PROFILE, "results": DEFAULT_RESULTS}
    return value is None or value in ("", (), []) or str(value) == defaults.get(name)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def parse_overrides(pairs: Sequence[str]) -> dict[str, Override]:
    """Read the pairs KEY=VALUE of --set into numbers, true/false and texts. Raises UserError."""
    values: dict[str, Override] = {}
    for pair in pairs:
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not key or not text:
            raise UserError(f"--set '{pair}' is not key=value; write for example --set learning_rate=1e-4")
        values[key] = _value(canonical(text))
    return values


def _value(text: str) -> Override:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
