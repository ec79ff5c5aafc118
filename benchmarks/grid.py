"""What it costs to distribute runs: fake runs that sleep, processes that do nothing, a large plan, a large grid.

    python benchmarks/grid.py                     everything below, with the numbers below
    python benchmarks/grid.py runs 2000 64        fake runs of one second on 64 slots
    python benchmarks/grid.py memory 2000 64      the same in drivers of their own: after an installation, and again
    python benchmarks/grid.py processes 50 64     what a process of the executor `local` costs; 64 at a time
    python benchmarks/grid.py plan 20000          a plan
    python benchmarks/grid.py scale 10000 256     a grid of runs of 40 minutes on 256 GPUs, in simulated time

A fake run sleeps in place of training, in a thread, since 64 starts a second need more cores than a desk has. All else
is real: the plan, the queue, locks, events, results and logs. The overhead is the wall time beyond full rounds of
slots. Seconds of processor are those of the driver, unless a line says otherwise; wall times depend on what else the
machine does.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from fake_runs import SECONDS, EmptyRun, FakeRun, IdleRun, peak_mb, planned

from harness.planning.events import Event, Listener
from harness.runs.environment import Allocation
from harness.store import Store
from harness.work.base import Executor, ExecutorOptions
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.jobs import jobs_of
from harness.work.local import Local
from harness.work.queue import Queue
from harness.work.tally import Tally

RUNS, SLOTS, PROCESSES, PLANNED, LARGE, GPUS = 2_000, 64, 50, 20_000, 10_000, 256


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


class Watch(threading.Thread):
    """Counts this process's open files."""

    def __init__(self, leave_out: str = "") -> None:
        """`leave_out` is how the names of files end that fake runs hold, and that their processes would hold."""
        super().__init__(daemon=True)
        self.files, self.leave_out = 0, leave_out

    def run(self) -> None:
        while True:
            with suppress(OSError):  # closed meanwhile
                names = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
                kept = [name for name in names if not self.leave_out or not name.endswith(self.leave_out)]
                self.files = max(self.files, len(kept))
            time.sleep(0.05)


def distribute(runs: int, slots: int) -> None:
    """Print what the driver of fake runs takes."""
    with tempfile.TemporaryDirectory() as folder:
        made = planned(runs, Path(folder))
        real = [job for job in jobs_of(made) if isinstance(job, RunJob)][:runs]
        jobs = [FakeRun(job.inventory, job.store, frozenset(), job.run) for job in real]
        tally, watch, clock, cpu = (
            Tally({job.key: job.id for job in jobs}, made.store),
            Watch(".lock"),
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


def memory(runs: int, slots: int) -> None:
    """Print the same of two drivers: one that asks methods what they declare, and one that has it in its cache."""
    with tempfile.TemporaryDirectory() as cache:
        for when in ("first plan of an installation", "the same plan again"):
            print(f"{when}: ", end="", flush=True)
            command = [sys.executable, __file__, "runs", str(runs), str(slots)]
            subprocess.run(command, env={**os.environ, "HARNESS_CACHE": cache}, check=True)


def processes(count: int, slots: int) -> None:
    """Print what a process costs that does nothing but say so, and how many files a driver of `slots` at a time has."""

    def used(kind: type[RunJob], runs: int, at_a_time: int) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            real = [job for job in jobs_of(planned(runs, Path(folder))) if isinstance(job, RunJob)][:runs]
            jobs = [kind(job.inventory, job.store, frozenset(), job.run) for job in real]
            before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            Local(ExecutorOptions(at_a_time, "cpu")).execute(jobs, lambda event: None)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - clock

    (start, _), (together, wall) = used(EmptyRun, 1, 2), used(EmptyRun, count, 2)
    each = (together - start) / (count - 1)
    print(
        f"a process: {1000 * each:.0f} ms of processor of its own; that which they are forked from: {start:.1f} s; "
        f"{count} processes, two at a time: {wall:.1f} s; {slots} slots of {SECONDS:g} s would keep "
        f"{slots / SECONDS * each:.1f} cores busy with starting"
    )
    watch = Watch()
    watch.start()
    used(IdleRun, slots, slots)
    print(f"{slots} processes at a time: {watch.files} files open in the driver")


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
    if what == "runs":
        distribute(*(counts or [RUNS, SLOTS]))
    if what in ("all", "memory"):
        memory(*(counts or [RUNS, SLOTS]))
    if what in ("all", "processes"):
        processes(*(counts or [PROCESSES, SLOTS]))
    if what in ("all", "plan"):
        plan(*(counts or [PLANNED]))
    if what in ("all", "scale"):
        from grid_scale import scale

        scale(*(counts or [LARGE, GPUS]))


if __name__ == "__main__":
    main()
