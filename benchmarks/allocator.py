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
from small_inputs import find_student, has_data

from harness import processors

#: what is given to mallopt(3), by the name of the case
CASES = {"defaults": (), "given-back": ((-3, 4 * 2**20),), "kept": processors._KEEP}
COLUMNS = ("run s", "training s", "user s", "system s", "peak MB")


def run_case(case: str, profile: str, steps: int) -> list[float]:
    """A run in this process; the columns of the table."""
    import harness

    encoders = f"all-minilm-l6-v2={find_student()}" if profile == "small" else None
    harness.plan(profile, methods="none", seeds=1)  # imports
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    with patch.object(processors, "_KEEP", CASES[case]), tempfile.TemporaryDirectory() as results:
        finished = harness.run(
            profile,
            methods="mcse",
            encoders=encoders,
            seeds=1,
            set={"steps": steps},
            results=results,
            executor="serial",
            device="cpu",
            progress=False,
        )

    (result,) = finished.runs
    after = resource.getrusage(resource.RUSAGE_SELF)
    return [
        time.perf_counter() - start,
        result.train_seconds,
        after.ru_utime - before.ru_utime,
        after.ru_stime - before.ru_stime,
        processors.measure_peak_memory_mb("cpu"),
    ]


def run_in_process(case: str, profile: str, steps: int) -> list[float]:
    """The columns of a run in a process of its own."""
    words = ["--steps", str(steps), "--profile", profile, "--case", case]
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    columns: list[float] = json.loads(done.stdout.splitlines()[-1])
    return columns


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, type=click.Choice([*CASES]), metavar="[CASE]...")
@click.option("--rounds", default=3, show_default=True, help="Runs of each case.")
@click.option("--steps", default=30, show_default=True, help="Steps of a run.")
@click.option("--profile", type=click.Choice(["small", "tiny"]), default="small", show_default=True)
@click.option("--case", type=click.Choice([*CASES]), hidden=True)
def main(cases: tuple[str, ...], rounds: int, steps: int, profile: str, case: str | None) -> None:
    if case:
        print(json.dumps(run_case(case, profile, steps)))
        return
    if profile == "small" and not has_data():
        return

    rows_by_case: dict[str, list[list[float]]] = {name: [] for name in cases or CASES}
    for _ in range(rounds):
        for name, rows in rows_by_case.items():
            rows.append(run_in_process(name, profile, steps))

    print(f"| | {' | '.join(COLUMNS)} |\n|{' --- |' * (len(COLUMNS) + 1)}")
    medians = {}
    for name, rows in rows_by_case.items():
        medians[name] = [statistics.median(column) for column in zip(*rows, strict=True)]
        print(f"| {name} | {' | '.join(f'{value:,.1f}' for value in medians[name])} |")
    if len(medians) < len(CASES):
        return

    before = medians["given-back"]
    after = medians["kept"]
    processor = slice(COLUMNS.index("user s"), COLUMNS.index("system s") + 1)
    print(f"kept against given back, wall time: {after[0] / before[0]:.2f}")
    ratio = sum(after[processor]) / sum(before[processor])
    print(f"kept against given back, processor time: {ratio:.2f}")


if __name__ == "__main__":
    main()
