"""Seconds to read a folder of results: without an index, with one, and after some results have
changed.

Prints a line for 1,000 and 10,000 results, or for the numbers given; 100,000 need 2.5 GB of disk.
Each reading is a process of its own. The frame is that of all scores of whole tasks, with the
tables' types of columns.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import click
from made_up import write_results

GROWTH = (1_000, 10_000)
SCRIPT = """
import resource, sys, time
from pathlib import Path
import numpy, pandas, pydantic
import harness
from harness.store import Store, frames_of
clock = time.perf_counter()
results = Store(Path(sys.argv[1])).frames()
index = time.perf_counter() - clock
rows = len(frames_of(results).flat())
both = time.perf_counter() - clock
assert len(results) == int(sys.argv[2]) and not results.problems
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
cpu = time.process_time()
print(f"{index:6.2f} s, with the frame {both:6.2f} s ({cpu:.2f} s of CPU with imports), {peak:5.0f} MiB, {rows} scores")
"""


def measure_reading(folder: Path, count: int, name: str) -> None:
    """Read a folder in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, str(folder), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(f"{count:7} results, {name:22} {done.stdout.strip()}", flush=True)


@click.command(help=__doc__)
@click.argument("results", nargs=-1, type=click.IntRange(1))
def main(results: tuple[int, ...]) -> None:
    """Print the growth."""
    for count in results or GROWTH:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_results(folder, count, log=False)
            measure_reading(folder, count, "first reading")
            measure_reading(folder, count, "second reading")
            measure_reading(folder, count, "third reading")
            for path in sorted(folder.glob("*/*/*/*/*.json"))[:100]:
                path.write_text(path.read_text() + "\n")
            measure_reading(folder, count, "100 have changed")
            (index,) = folder.glob(".cache/*")
            print(f"{count:7} results, index {index.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
