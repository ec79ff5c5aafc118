"""Fetches in processes of their own, with the real clients against the stand-in hub."""

from __future__ import annotations

import subprocess
import sys
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


SCRIPT = """
import sys
from pathlib import Path, PurePosixPath
from harness import fetching
from harness.fetching.entries import read_entries
from harness.errors import UserError

root, text, offline = sys.argv[1:]
entry = next(iter(read_entries(text).values()))
try:
    tell = lambda line: print(line, flush=True)
    fetching.fetch(Path(root), entry, tell, lambda name: lambda *_: None, offline == "1")
except UserError as error:
    print("error:", error)
    sys.exit(2)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def client_env(standin: StandIn, tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a hub client that uses the stand-in."""
    return client_variables(standin, tmp_path / "hf")


@pytest.fixture
def start(client_env: dict[str, str]) -> Start:
    """Start a fetch of an entry (TOML text) in a process of its own, with the real client against the stand-in."""

    def run(root: Path, text: str, offline: bool = False, **env: str) -> Any:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(root), text, str(int(offline))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=client_env | env,
        )

    return run
