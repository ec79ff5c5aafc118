"""The suite in random order five times: by one, two and four workers, beside busy processes, on
several Pythons.

    python tests/steady.py PYTHON [PYTHON] [-- ARGUMENTS OF PYTEST]

A PYTHON is that of an environment with the extra `dev`. Prints a line for each run; exits with 1
after a failure. An order comes again by `pytest --order SEED`.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

#: workers, and whether every core is busy with something else
RUNS = ((1, False), (2, False), (4, False), (2, True), (2, False))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep that many cores busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    given, _, more = "\n".join(sys.argv[1:]).partition("\n--\n")
    failed = False
    for (workers, loaded), python in zip(RUNS, cycle(given.split("\n")), strict=False):
        seed, clock = secrets.randbelow(10**6), time.monotonic()
        words = [
            python,
            "-m",
            "pytest",
            "-n",
            str(workers),
            "--dist",
            "loadfile",
            "--no-loadscope-reorder",
        ]
        with busy((os.cpu_count() or 1) if loaded else 0):
            run = subprocess.run(
                [*words, "--order", str(seed), *more.split()],
                capture_output=True,
                text=True,
                check=False,
            )
        version = subprocess.run(
            [python, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        failed |= run.returncode != 0
        if run.returncode:
            print(run.stdout, run.stderr, flush=True)
        print(
            f"{version}  -n {workers}  --order {seed}  {'beside busy processes' if loaded else 'alone'}  "
            f"{'failed' if run.returncode else 'passed'}  {(time.monotonic() - clock) / 60:.1f} min",
            flush=True,
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
