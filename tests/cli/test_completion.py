"""Help and shell completion: the names they offer, and that they import nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from harness.cli.main import cli

HEAVY = ("torch", "transformers", "pandas")
#: runs the command line and prints at its end which heavy modules it imported
SCRIPT = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
from harness.cli.main import main
main()
"""


def completed(line: str) -> list[str]:
    """The names that a shell would offer for the last word of a line."""
    *words, last = line.split(" ")[1:]
    completion = BashComplete(cli, {}, "harness", "_HARNESS_COMPLETE")
    return [item.value for item in completion.get_completions(words, last)]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("harness stat", ["status"]),
        ("harness run --methods kd", ["kdmcse"]),
        ("harness run --methods simcse,mc", ["simcse,mcse"]),
        ("harness run --profile sm", ["small"]),
        ("harness run --profile tiny --settings toy-", ["toy-text", "toy-pairs"]),
        ("harness run --settings nli+", ["nli+imagenet", "nli+librispeech"]),
        ("harness run --profile tiny --encoders ", ["toy-bert"]),
        ("harness eval x --profile tiny --suites sts,ge", ["sts,geometry"]),
        ("harness run --profile ./mine.toml --settings ", []),
        ("harness run --table dalr:T10", ["dalr:T10"]),
        ("harness run --figure mcse:F3", ["mcse:F3"]),
        ("harness run --paper k", ["kdmcse"]),
        ("harness run --executor ser", ["serial"]),
        ("harness show visualcse-", ["visualcse-sup"]),
        ("harness data fetch wiki1", ["wiki1m"]),
    ],
)
def test_names_are_completed(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_a_shell_completes_without_heavy_imports(tmp_path: Path) -> None:
    words = {"COMP_WORDS": "harness run --profile tiny --methods kd", "COMP_CWORD": "5"}
    env = {**os.environ, "_HARNESS_COMPLETE": "bash_complete", **words}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr.strip()) == ("plain,kdmcse", "imported:")


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: harness")
    assert done.stderr.strip() == "imported:"
