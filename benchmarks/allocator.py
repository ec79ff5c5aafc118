"""What a run on the processor gains by keeping the memory that it frees
(`harness.processors.keep_freed_memory`).

A run of MCSE with its evaluation, each in a process of its own, in turns: with glibc's defaults,
with large blocks given back at once (4 MB), and with freed memory kept. The profile `small` reads
its data from HARNESS_DATA. Bar: the last takes at most 0.85 of the time of the second. On a busy
machine compare the processor's seconds.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from unittest.mock import patch

import click
from full_size import has_data, student

from harness import processors

#: what is given to mallopt(3), by the name of the case
CASES = {"defaults": (), "given-back": ((-3, 4 * 2**20),), "kept": processors._KEEP}
COLUMNS = ("run s", "training s", "user s", "system s", "peak MB")


def one_run(case: str, profile: str, steps: int) -> list[float]:
    """A run in this process; the columns of the table."""
    import harness

    harness.plan(profile, methods="none", seeds=1)  # imports
    before = resource.getrusage(resource.RUSAGE_SELF)
    clock = time.perf_counter()
    with patch.object(processors, "_KEEP", CASES[case]), tempfile.TemporaryDirectory() as results:
        (result,) = harness.run(
            profile,
            methods="mcse",
            encoders=f"all-minilm-l6-v2={student()}" if profile == "small" else None,
            seeds=1,
            set={"steps": steps},
            results=results,
            executor="serial",
            device="cpu",
            progress=False,
        ).runs
    after = resource.getrusage(resource.RUSAGE_SELF)
    times = (after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime)
    return [time.perf_counter() - clock, result.train_seconds, *times, after.ru_maxrss / 1024]


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=3, show_default=True, help="Runs of each case.")
@click.option("--steps", default=30, show_default=True, help="Steps of a run.")
@click.option("--profile", type=click.Choice(["small", "tiny"]), default="small", show_default=True)
@click.option("--case", type=click.Choice([*CASES]), hidden=True)
def main(cases: tuple[str, ...], rounds: int, steps: int, profile: str, case: str | None) -> None:
    if case:
        print(json.dumps(one_run(case, profile, steps)))
        return
    if profile == "small" and not has_data():
        return
    taken: dict[str, list[list[float]]] = {case: [] for case in cases or CASES}
    for _ in range(rounds):
        for name, rows in taken.items():
            words = ["--steps", str(steps), "--profile", profile, "--case", name]
            command = [sys.executable, __file__, *words]
            rows.append(
                json.loads(
                    subprocess.run(command, stdout=-1, check=True, text=True).stdout.splitlines()[
                        -1
                    ]
                )
            )
    medians = {
        case: [statistics.median(column) for column in zip(*rows, strict=True)]
        for case, rows in taken.items()
    }
    print(f"| | {' | '.join(COLUMNS)} |\n|{' --- |' * (len(COLUMNS) + 1)}")
    for name, values in medians.items():
        print(f"| {name} | {' | '.join(format(value, ',.1f') for value in values)} |")
    if len(medians) < len(CASES):
        return
    _, before, after = medians.values()
    for name, columns in (("wall time", slice(0, 1)), ("processor time", slice(2, 4))):
        print(f"kept against given back, {name}: {sum(after[columns]) / sum(before[columns]):.2f}")


if __name__ == "__main__":
    main()
