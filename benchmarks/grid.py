"""What it costs to distribute runs: fake runs that sleep, processes that do nothing, a large plan,
a large grid.

Without a command, everything but `runs` is measured, with the default numbers.

A fake run sleeps in place of training, in a thread, since 64 starts a second need more cores than a
desk has. All else is real: the plan, the queue, locks, events, results and logs. The overhead is
the wall time beyond full rounds of slots. Seconds of processor are those of the driver, unless a
line says otherwise; wall times depend on what else the machine does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import click
from fake_runs import SECONDS, EmptyRun, FakeRun, IdleRun, peak_mb, planned

from harness.events import Event, Listener
from harness.runs.execution import Execution, Seat
from harness.store import Store
from harness.work.base import Executor
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.jobs import list_jobs
from harness.work.local import Local
from harness.work.queue import Queue
from harness.work.tally import Tally


class Slots(Executor):
    """As many jobs at a time as it is told, whatever the cores, each in a thread."""

    def work(self, queue: Queue, listen: Listener) -> None:
        """Take jobs while slots are free; handle what the threads send."""
        free = int(self.options.jobs)
        arrived = SimpleQueue[tuple[Job, Event | End | Again]]()

        def perform(job: Job) -> None:
            arrived.put((job, job.perform(Seat("cpu"), lambda event: arrived.put((job, event)))))

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
        """`leave_out` is how the names of files end that fake runs hold, and that their processes
        would hold.
        """
        super().__init__(daemon=True)
        self.files = 0
        self.leave_out = leave_out

    def run(self) -> None:
        while True:
            with suppress(OSError):  # closed meanwhile
                names = [
                    str(path.readlink())
                    for path in Path("/proc/self/fd").iterdir()
                    if path.is_symlink()
                ]
                kept = [
                    name
                    for name in names
                    if not self.leave_out or not name.endswith(self.leave_out)
                ]
                self.files = max(self.files, len(kept))
            time.sleep(0.05)


@click.group(help=__doc__, invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        for command in (memory, processes, plan, scale):
            context.invoke(command)


def counted(runs: int, slots: int | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """A command with the number of runs, and of those at a time."""

    def made(function: Callable[..., None]) -> click.Command:
        for name, default in (("slots", slots), ("runs", runs)):
            if default is not None:
                option = click.option(
                    f"--{name}", default=default, show_default=True, type=click.IntRange(1)
                )
                function = option(function)
        return main.command(function.__name__)(function)

    return made


@counted(2_000, 64)
def runs(runs: int, slots: int) -> None:
    """Fake runs of one second."""
    with tempfile.TemporaryDirectory() as folder:
        made = planned(runs, Path(folder))
        real = [job for job in list_jobs(made) if isinstance(job, RunJob)][:runs]
        jobs = [
            FakeRun(job.id, job.key, job.inventory, job.store, frozenset(), job.run) for job in real
        ]
        tally = Tally({job.key: job.id for job in jobs}, made.store)
        watch = Watch(".lock")
        clock = time.monotonic()
        cpu = time.process_time()
        watch.start()
        ends = Slots(Execution(jobs=slots, device="cpu")).execute(jobs, tally.take)
        wall = time.monotonic() - clock
        cpu = time.process_time() - cpu
        assert len(ends) == tally.done == len(Store(Path(folder)).files()) == runs
        ideal = -(-runs // slots) * SECONDS
        print(
            f"{runs} runs of {SECONDS:g} s on {slots} slots: {wall:.1f} s, {wall / ideal - 1:.1%} above {ideal:.0f} s; "
            f"driver {peak_mb():.0f} MiB, {watch.files} open files, {1000 * cpu / runs:.1f} ms of processor a run"
        )


@counted(2_000, 64)
def memory(runs: int, slots: int) -> None:
    """The same in two drivers: one that asks methods what they declare, and one that has it in its
    cache.
    """
    with tempfile.TemporaryDirectory() as cache:
        for when in ("first plan of an installation", "the same plan again"):
            print(f"{when}: ", end="", flush=True)
            command = [sys.executable, __file__, "runs", "--runs", str(runs), "--slots", str(slots)]
            subprocess.run(command, env={**os.environ, "HARNESS_CACHE": cache}, check=True)


@counted(50, 64)
def processes(runs: int, slots: int) -> None:
    """What processes of the executor `local` cost that do nothing, and the open files of a driver
    of many at a time.
    """

    def seconds(kind: type[RunJob], count: int, at_a_time: int, **more: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            real = [
                job for job in list_jobs(planned(count, Path(folder))) if isinstance(job, RunJob)
            ][:count]
            jobs = [
                kind(job.id, job.key, job.inventory, job.store, frozenset(), job.run, **more)
                for job in real
            ]
            clock = time.monotonic()
            Local(Execution(jobs=at_a_time, device="cpu")).execute(jobs, lambda event: None)
            return time.monotonic() - clock

    first = seconds(EmptyRun, 1, 1)
    each = seconds(EmptyRun, runs, 1) / runs
    print(
        f"the first process, with the one that it is forked from: {first:.1f} s; {runs} more, one at a time: "
        f"{1000 * each:.0f} ms each; {slots} slots of {SECONDS:g} s would keep at most {slots / SECONDS * each:.1f} "
        "cores busy with starting"
    )
    watch = Watch()
    watch.start()
    seconds(IdleRun, slots, slots, together=slots)
    print(f"{slots} processes at a time: {watch.files} files open in the driver")


@counted(20_000)
def plan(runs: int) -> None:
    """A plan and its jobs."""
    with tempfile.TemporaryDirectory() as folder:
        clock = time.monotonic()
        cpu = time.process_time()
        made = planned(runs, Path(folder))
        jobs = list_jobs(made)
        queue = Queue(jobs)
        wall = time.monotonic() - clock
        used = time.process_time() - cpu
        for job in iter(queue.take, None):
            queue.end(job, Prepared(job.id))
        emptied = time.process_time() - cpu - used
        print(
            f"{len(made.runs)} runs planned as {len(jobs)} jobs: {wall:.1f} s, of processor {used:.1f} s; "
            f"the queue emptied in {emptied:.1f} s; {peak_mb():.0f} MiB"
        )


@counted(10_000, 256)
def scale(runs: int, slots: int) -> None:
    """Runs of 40 minutes on GPUs, in simulated time."""
    from grid_scale import scale as simulated

    simulated(runs, slots)


if __name__ == "__main__":
    main()
