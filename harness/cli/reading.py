"""Results as commands read them: one line on standard error for each file that cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import echo

if TYPE_CHECKING:
    from harness.reporting.results import Results


def read_results(folder: Path, profile: str | None = None, named: Collection[str] = ()) -> Results:
    """Read the results of a folder and warn of those that are left out, except of `named` ones, which were."""
    from harness import api

    found = api.results(folder, profile)
    warn(line for line in found.problems if line not in named)
    return found


def warn(lines: Iterable[str]) -> None:
    """Print what is left out or doubtful, one line each."""
    for line in lines:
        echo(f"warning: {line}", err=True)
