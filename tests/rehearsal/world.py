"""A machine with nothing on it: an empty data root, hub cache and results folder, and the stand-ins
to fetch from.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from counts import Counts
from hub import publish_models
from publishers import Publishers
from standin import StandIn, client_variables, serving
from typed import write_differences

from harness.profiles import load_profile

ROOT = Path(__file__).resolve().parents[2]
TYPED = Path(__file__).with_name("typed.py")


@dataclass
class World:
    """A folder with everything that the commands read and write."""

    folder: Path
    publishers: Publishers
    standin: StandIn
    variables: dict[str, str]

    @property
    def data(self) -> Path:
        """The data root."""
        return self.folder / "data"

    def well(self, command: str, **variables: str) -> str:
        """What a command line that begins with `harness` prints; it must succeed."""
        program, *words = shlex.split(command)
        assert program == "harness", command
        typed = [sys.executable, str(TYPED), str(self.folder / "differences.json"), *words]
        env = self.variables | variables
        done = subprocess.run(
            typed, cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout


@contextmanager
def world(folder: Path, counts: Counts, entries: Iterable[str]) -> Iterator[World]:
    """Publish entries of the catalogue and the models of the profile `paper`; nothing of them is
    fetched.
    """
    (folder / "data").mkdir()
    publishers = Publishers(folder / "published", counts)
    with serving() as standin:
        files = publishers.publish(standin, entries)
        publish_models(standin, load_profile("paper"))
        write_differences(folder / "differences.json", standin.address, files, counts.expected())
        own = {"HARNESS_DATA": str(folder / "data"), "HARNESS_CACHE": str(folder / "cache")}
        yield World(folder, publishers, standin, client_variables(standin, folder / "hf") | own)


def printed_commands(document: str, heading: str) -> list[str]:
    """The commands `harness ...` that a document of the project prints below a heading, without
    their comments.
    """
    text = (ROOT / document).read_text(encoding="utf-8")
    part = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.M)[1]
    block = re.search(r"```sh\n(.*?)```", part, flags=re.S)
    lines = block[1].replace("\\\n", " ").splitlines()
    return [
        " ".join(line.partition(" #")[0].split()) for line in lines if line.startswith("harness ")
    ]
