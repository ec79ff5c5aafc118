"""Time, memory and modules of `harness --help`, of one shell completion, and of a finished plan
that is asked again.

Prints the median wall time of some processes, the largest resident memory and the number of
imported modules.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import click

#: ends a command with its memory in MB and its number of modules
SCRIPT = """
import atexit, resource, sys
def usage():
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    print(f"{peak:.0f} {len(sys.modules)}", file=sys.stderr)
atexit.register(usage)
from harness.cli.main import main
main()
"""
COMPLETION = {
    "_HARNESS_COMPLETE": "bash_complete",
    "COMP_WORDS": "harness run --profile tiny --suites s",
}


class Usage(NamedTuple):
    """Median seconds, peak MB and modules of one command."""

    seconds: float
    memory_mb: float
    modules: int


def measure(words: list[str], environment: dict[str, str], rounds: int) -> Usage:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *words],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        seconds.append(time.perf_counter() - start)

    memory, modules = done.stderr.splitlines()[-1].split()
    return Usage(statistics.median(seconds), float(memory), int(modules))


def finish_plan(folder: str) -> list[str]:
    """Run a tiny grid and return the options that ask for it again."""
    options = ["--profile", "tiny", "--methods", "simcse,mcse", "--seeds", "1"]
    options += ["--set", "steps=4", "--results", folder]
    command = [sys.executable, "-c", SCRIPT, "run", *options]
    for _ in range(2):  # the second one keeps what the first declared
        subprocess.run(command, capture_output=True, check=True)
    return options


@click.command(help=__doc__)
@click.option("--rounds", default=10, show_default=True, help="Processes of each command.")
def main(rounds: int) -> None:
    # of the word that is completed
    place = str(len(COMPLETION["COMP_WORDS"].split()) - 1)
    completion = {**COMPLETION, "COMP_CWORD": place}
    with tempfile.TemporaryDirectory() as folder:
        options = finish_plan(folder)
        commands = (
            ("harness --help", ["--help"], {}),
            ("harness run --help", ["run", "--help"], {}),
            ("a finished plan again", ["run", *options], {}),
            ("harness status of it", ["status", *options], {}),
            ("completion of --suites", [], completion),
        )
        for name, words, environment in commands:
            usage = measure(words, environment, rounds)
            print(
                f"{name:24} {usage.seconds:.2f} s  {usage.memory_mb:.0f} MB  "
                f"{usage.modules} modules"
            )


if __name__ == "__main__":
    main()
