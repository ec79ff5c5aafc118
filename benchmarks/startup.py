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


def measure(words: list[str], environment: dict[str, str], rounds: int) -> tuple[float, float, int]:
    """Median seconds, peak MB and modules of one command."""
    env = {**os.environ, **environment}
    seconds = []
    last = ""
    for _ in range(rounds):
        start = time.perf_counter()
        command = [sys.executable, "-c", SCRIPT, *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
        last = done.stderr.splitlines()[-1]
    memory, modules = last.split()
    return statistics.median(seconds), float(memory), int(modules)


def finished_plan(folder: str) -> list[str]:
    """Run a tiny grid and return the words that ask for it again."""
    words = [
        "run",
        "--profile",
        "tiny",
        "--methods",
        "simcse,mcse",
        "--seeds",
        "1",
        "--set",
        "steps=4",
    ]
    words += ["--results", folder]
    for _ in range(2):  # the second one keeps what the first declared
        subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, check=True)
    return words


@click.command(help=__doc__)
@click.option("--rounds", default=10, show_default=True, help="Processes of each command.")
def main(rounds: int) -> None:
    folder = tempfile.TemporaryDirectory()
    again = finished_plan(folder.name)
    count = str(len(COMPLETION["COMP_WORDS"].split()) - 1)
    for name, words, environment in (
        ("harness --help", ["--help"], {}),
        ("harness run --help", ["run", "--help"], {}),
        ("a finished plan again", again, {}),
        ("harness status of it", ["status", *again[1:]], {}),
        ("completion of --suites", [], {**COMPLETION, "COMP_CWORD": count}),
    ):
        seconds, memory, modules = measure(words, environment, rounds)
        print(f"{name:24} {seconds:.2f} s  {memory:.0f} MB  {modules} modules")


if __name__ == "__main__":
    main()
