"""What it costs to distribute runs: fake runs that sleep, each in a process of its own, and a large plan.

    python benchmarks/grid.py                   2,000 fake runs of one second on 64 slots, and a plan of 20,000 runs
    python benchmarks/grid.py runs 500 32       500 fake runs on 32 slots
    python benchmarks/grid.py plan 5000         a plan of 5,000 runs

A fake run sleeps in place of training; everything around it is real: the plan, the queue, the executor `local` with its
processes, locks and events, and the results, logs and failures in the store. Overhead is the wall time beyond that of
as many full rounds of slots. It counts the start of the process that all others are forked from.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

from fake_runs import SECONDS, FakeRun

import harness
from harness.execution.executors.base import ExecutorOptions
from harness.execution.executors.job import Prepared
from harness.execution.executors.jobs import jobs_of
from harness.execution.executors.local import Local
from harness.execution.executors.queue import Queue
from harness.execution.executors.run_job import RunJob
from harness.execution.executors.seats import CoreSeats, Seats
from harness.execution.plan import Plan
from harness.execution.tally import Tally
from harness.store import Store

RUNS, SLOTS, PLANNED = 2_000, 64, 20_000
SEEDS = 20


class Slots(Local):
    """The local executor with as many slots as it is told, whatever the cores."""

    def seats(self, queue: Queue) -> Seats:
        return CoreSeats(int(self.options.jobs))


def planned(runs: int, results: Path) -> Plan:
    """A plan of at least so many runs: half of them SimCSE, half MCSE."""
    options = -(-runs // (2 * SEEDS))
    methods = [
        f"{name}[temperature={(1 + option) / 1e5:g}]" for name in ("simcse", "mcse") for option in range(options)
    ]
    return harness.plan("tiny", methods=methods, settings="toy", seeds=SEEDS, results=results)


class Watch(threading.Thread):
    """Counts this process's open files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.files = 0

    def run(self) -> None:
        while True:
            self.files = max(self.files, sum(1 for _ in Path("/proc/self/fd").iterdir()))
            time.sleep(0.05)


def peak_mb() -> float:
    """The largest resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def distribute(runs: int, slots: int) -> None:
    """Print what the driver of fake runs takes."""
    with tempfile.TemporaryDirectory() as folder:
        made = planned(runs, Path(folder))
        real = [job for job in jobs_of(made) if isinstance(job, RunJob)][:runs]
        jobs = [FakeRun(job.inventory, job.store, frozenset(), job.run) for job in real]
        tally, watch, clock, cpu = (
            Tally({job.key: job.id for job in jobs}, made.store),
            Watch(),
            time.monotonic(),
            time.process_time(),
        )
        watch.start()
        ends = Slots(ExecutorOptions(slots, "cpu")).execute(jobs, tally.take)
        wall, cpu = time.monotonic() - clock, time.process_time() - cpu
        assert len(ends) == tally.done == len(Store(Path(folder)).files()) == runs
        ideal = -(-runs // slots) * SECONDS
        print(
            f"{runs} runs of {SECONDS:g} s on {slots} slots: {wall:.1f} s, {wall / ideal - 1:.1%} above {ideal:.0f} s; "
            f"driver {peak_mb():.0f} MiB, {watch.files} open files, {1000 * cpu / runs:.1f} ms of processor a run"
        )


def plan(runs: int) -> None:
    """Print what a plan and its jobs take."""
    with tempfile.TemporaryDirectory() as folder:
        clock, cpu = time.monotonic(), time.process_time()
        made = planned(runs, Path(folder))
        jobs = jobs_of(made)
        queue = Queue(jobs)
        wall, used = time.monotonic() - clock, time.process_time() - cpu
        for job in iter(queue.take, None):
            queue.end(job, Prepared(job.id))
        emptied = time.process_time() - cpu - used
        print(
            f"{len(made.runs)} runs planned as {len(jobs)} jobs: {wall:.1f} s, of processor {used:.1f} s; "
            f"the queue emptied in {emptied:.1f} s; {peak_mb():.0f} MiB"
        )


def main() -> None:
    """Print the table."""
    what, *numbers = sys.argv[1:] or ["both"]
    counts = list(map(int, numbers))
    if what in ("both", "runs"):
        distribute(*(counts or [RUNS, SLOTS]))
    if what in ("both", "plan"):
        plan(*(counts or [PLANNED]))


if __name__ == "__main__":
    main()
