"""The one place that writes a `harness ...` command for a person to copy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from harness.spec import canonical

#: what commands and functions use where nothing is given
DEFAULT_PROFILE = "paper"
DEFAULT_RESULTS = "results"
DEFAULT_REPORT = "reports/build"

Option = str | int | Sequence[object] | Mapping[str, object] | None


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
