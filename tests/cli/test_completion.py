"""Help and shell completion: the names they offer, and that they import nothing heavy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "transformers", "pandas")
#: runs the command line and prints at its end which heavy modules it imported
SCRIPT = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr))
from harness.cli.main import main
main()
"""


def completed(line: str, cwd: Path) -> tuple[list[str], str]:
    """The names that bash would offer for the last word of a line, and the heavy modules imported for it."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    env = {**os.environ, "_HARNESS_COMPLETE": "bash_complete", **words}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=cwd, capture_output=True, text=True, check=True)
    return [offered.partition(",")[2] for offered in done.stdout.split()], done.stderr.strip()


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
def test_names_are_completed_without_heavy_imports(line: str, offered: list[str], tmp_path: Path) -> None:
    assert completed(line, tmp_path) == (offered, "imported:")


@pytest.mark.parametrize("words", [(), ("run",), ("compare",), ("data", "fetch")])
def test_help_imports_nothing_heavy(words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, *words, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: harness")
    assert done.stderr.strip() == "imported:"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(shell: str, tmp_path: Path) -> None:
    env = {**os.environ, "_HARNESS_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert f"_HARNESS_COMPLETE={shell}_complete" in done.stdout
