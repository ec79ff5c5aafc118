"""What it costs to distribute runs: fake runs that sleep, processes that do nothing, and a large plan.

    python benchmarks/grid.py                   2,000 fake runs of one second on 64 slots, and a plan of 20,000 runs
    python benchmarks/grid.py runs 500 32       500 fake runs on 32 slots
    python benchmarks/grid.py processes 50      what a process of the executor `local` costs
    python benchmarks/grid.py plan 5000         a plan of 5,000 runs

A fake run sleeps in place of training, in a thread, since 64 processes need more cores than a desk has. All else is
real: the plan, the queue, locks, events, results, logs and the search for failures in the store. The overhead is the
wall time beyond full rounds of slots.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from fake_runs import SECONDS, EmptyRun, FakeRun

import harness
from harness.execution.events import Event, Listener
from harness.execution.executors.base import Executor, ExecutorOptions
from harness.execution.executors.job import Again, End, Job, Prepared
from harness.execution.executors.jobs import jobs_of
from harness.execution.executors.local import Local
from harness.execution.executors.queue import Queue
from harness.execution.executors.run_job import RunJob
from harness.execution.plan import Plan
from harness.execution.resources import Allocation
from harness.execution.tally import Tally
from harness.store import Store

RUNS, SLOTS, PROCESSES, PLANNED = 2_000, 64, 50, 20_000
SEEDS = 20


class Slots(Executor):
    """As many jobs at a time as it is told, whatever the cores, each in a thread."""

    def work(self, queue: Queue, listen: Listener) -> None:
        """Take jobs while slots are free; handle what the threads send."""
        free, arrived = int(self.options.jobs), SimpleQueue[tuple[Job, Event | End | Again]]()

        def perform(job: Job) -> None:
            arrived.put((job, job.perform(Allocation("cpu"), lambda event: arrived.put((job, event)))))

        with ThreadPoolExecutor(free) as threads:
            while queue:
                while free and (job := queue.take()):
                    free -= 1
                    threads.submit(perform, job)
                job, message = arrived.get()
                if isinstance(message, Event):
                    listen(message)
                else:
                    free += 1
                    queue.end(job, message)


def planned(runs: int, results: Path) -> Plan:
    """A plan of at least so many runs: half of them SimCSE, half MCSE."""
    options = -(-runs // (2 * SEEDS))
    methods = [
        f"{name}[temperature={(1 + option) / 1e5:g}]" for name in ("simcse", "mcse") for option in range(options)
    ]
    return harness.plan("tiny", methods=methods, settings="toy", seeds=SEEDS, results=results)


class Watch(threading.Thread):
    """Counts this process's open files, but for the locks of fake runs, which processes of their own would hold."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.files = 0

    def run(self) -> None:
        while True:
            with suppress(OSError):  # closed meanwhile
                names = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
                self.files = max(self.files, sum(not name.endswith(".lock") for name in names))
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


def processes(count: int) -> None:
    """Print what a process costs that does nothing but say so."""

    def used(runs: int) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            real = [job for job in jobs_of(planned(runs, Path(folder))) if isinstance(job, RunJob)][:runs]
            jobs = [EmptyRun(job.inventory, job.store, frozenset(), job.run) for job in real]
            before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            Local(ExecutorOptions(2, "cpu")).execute(jobs, lambda event: None)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - clock

    (start, _), (together, wall) = used(1), used(count)
    each = 1000 * (together - start) / (count - 1)
    print(
        f"a process: {each:.0f} ms of processor; that which they are forked from: {start:.1f} s; "
        f"{count} processes: {wall:.1f} s"
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
    what, *numbers = sys.argv[1:] or ["all"]
    counts = list(map(int, numbers))
    if what in ("all", "runs"):
        distribute(*(counts or [RUNS, SLOTS]))
    if what in ("all", "processes"):
        processes(*(counts or [PROCESSES]))
    if what in ("all", "plan"):
        plan(*(counts or [PLANNED]))


if __name__ == "__main__":
    main()
