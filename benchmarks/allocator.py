"""What a run on the processor gains by keeping the memory that it frees (`harness.processors.keep_freed_memory`).

    HARNESS_DATA=DATA python benchmarks/allocator.py [--rounds 3] [--steps 30]

A run of the profile `small`, 30 steps of MCSE with its evaluation, each in a process of its own, in turns: with
glibc's defaults, with large blocks given back at once (4 MB), and with freed memory kept.
Bar: the last takes at most 0.85 of the time of the second. On a busy machine compare the processor's seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from unittest.mock import patch

from full_size import needs_data, student

from harness import processors

#: what is given to mallopt(3), by the name of the case
CASES = {"glibc's defaults": (), "blocks of 4 MB given back": ((-3, 4 * 2**20),), "kept": processors._KEEP}
COLUMNS = ("run s", "training s", "user s", "system s", "peak MB")


def one_run(case: str, options: argparse.Namespace) -> list[float]:
    """A run in this process; the columns of the table."""
    import harness

    harness.plan("small", methods="none", seeds=1)  # imports
    before, clock = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    with patch.object(processors, "_KEEP", CASES[case]), tempfile.TemporaryDirectory() as results:
        (result,) = harness.run(
            "small",
            methods="mcse",
            encoders=f"all-minilm-l6-v2={student()}",
            seeds=1,
            set={"steps": options.steps},
            results=results,
            executor="serial",
            device="cpu",
            progress=False,
        ).runs
    after = resource.getrusage(resource.RUSAGE_SELF)
    times = (after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
    return [time.perf_counter() - clock, result.train_seconds, *times, after.ru_maxrss / 1024]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(one_run(options.case, options)))
        return
    needs_data()
    taken: dict[str, list[list[float]]] = {case: [] for case in CASES}
    for _ in range(options.rounds):
        for case, rows in taken.items():
            command = [sys.executable, __file__, *sys.argv[1:], "--case", case]
            rows.append(json.loads(subprocess.run(command, stdout=-1, check=True, text=True).stdout.splitlines()[-1]))
    medians = {case: [statistics.median(column) for column in zip(*rows, strict=True)] for case, rows in taken.items()}
    print(f"| | {' | '.join(COLUMNS)} |\n|{' --- |' * (len(COLUMNS) + 1)}")
    for case, values in medians.items():
        print(f"| {case} | {' | '.join(format(value, ',.1f') for value in values)} |")
    _, before, after = medians.values()
    for name, columns in (("wall time", slice(0, 1)), ("processor time", slice(2, 4))):
        print(f"kept against given back, {name}: {sum(after[columns]) / sum(before[columns]):.2f}")


if __name__ == "__main__":
    main()
