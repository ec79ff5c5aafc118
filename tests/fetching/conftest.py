"""Fetches in processes of their own, with the real clients against the stand-in hub."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standin import StandIn, client_variables, serving


@pytest.fixture
def standin() -> Iterator[StandIn]:
    """A server on a free port of loopback."""
    with serving() as held:
        yield held


#: the command line with entries of the test's own
MAIN = """
import sys
from importlib import import_module
module = import_module("harness.fetching.entries")
made = module.read_entries(open(sys.argv.pop(1)).read())
module.entries = lambda: made
from harness.cli.main import main
main()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def client_env(standin: StandIn, tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a hub client that uses the stand-in."""
    return client_variables(standin, tmp_path / "hf")


@pytest.fixture
def command() -> list[str]:
    """The command line; its first word is a file of entries that are the test's own."""
    return [sys.executable, "-c", MAIN]


@pytest.fixture
def start(client_env: dict[str, str], command: list[str], tmp_path: Path) -> Start:
    """Start `harness data fetch` of an entry (TOML text), with the real client against the
    stand-in.
    """

    def run(root: Path, text: str, *words: str, **env: str) -> Any:
        (name,) = tomllib.loads(text)
        (tmp_path / "entries.toml").write_text(text)
        typed = [
            *command,
            str(tmp_path / "entries.toml"),
            "data",
            "fetch",
            name,
            "--data-root",
            str(root),
            *words,
        ]
        root.mkdir(exist_ok=True)
        return subprocess.Popen(
            typed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=client_env | env
        )

    return run
