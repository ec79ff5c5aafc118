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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import click
from fake_runs import (
    SECONDS,
    EmptyRun,
    FakeRun,
    IdleRun,
    list_runs,
    make_plan,
    measure_peak_mib,
    replace_job,
)

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
        messages = SimpleQueue[tuple[Job, Event | End | Again]]()

        def perform(job: Job) -> None:
            end = job.perform(Seat("cpu"), lambda event: messages.put((job, event)))
            messages.put((job, end))

        with ThreadPoolExecutor(free) as threads:
            while queue:
                while free and (job := queue.take()):
                    free -= 1
                    threads.submit(perform, job)

                job, message = messages.get()
                if isinstance(message, Event):
                    listen(message)
                else:
                    free += 1
                    queue.end(job, message)


class Watch(threading.Thread):
    """Counts this process's open files."""

    def __init__(self, ignored_ending: str | None = None) -> None:
        """`ignored_ending` is how the names of files end that fake runs hold, and that their
        processes would hold.
        """
        super().__init__(daemon=True)
        self.most_files = 0
        self._ignored_ending = ignored_ending

    def run(self) -> None:
        while True:
            with suppress(OSError):  # closed meanwhile
                self.most_files = max(self.most_files, self._count_files())
            time.sleep(0.05)

    def _count_files(self) -> int:
        count = 0
        for path in Path("/proc/self/fd").iterdir():
            if not path.is_symlink():
                continue
            name = str(path.readlink())
            if self._ignored_ending is None or not name.endswith(self._ignored_ending):
                count += 1
        return count


@click.group(help=__doc__, invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        for command in (measure_memory, measure_processes, measure_plan, measure_scale):
            context.invoke(command)


RUNS = partial(click.option, "--runs", show_default=True, type=click.IntRange(1))
SLOTS = click.option("--slots", default=64, show_default=True, type=click.IntRange(1))


@main.command("runs")
@RUNS(default=2_000)
@SLOTS
def measure_runs(runs: int, slots: int) -> None:
    """Fake runs of one second."""
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(runs, Path(folder))
        jobs = [replace_job(job, FakeRun) for job in list_runs(plan, runs)]
        tally = Tally({job.key: job.id for job in jobs}, plan.store)
        watch = Watch(ignored_ending=".lock")
        wall_start = time.monotonic()
        processor_start = time.process_time()
        watch.start()
        ends = Slots(Execution(jobs=slots, device="cpu")).execute(jobs, tally.take)
        wall = time.monotonic() - wall_start
        run_ms = 1000 * (time.process_time() - processor_start) / runs
        assert len(ends) == tally.done == len(Store(Path(folder)).files()) == runs

    # the last round of slots counts whole, however few runs it has
    rounds = -(-runs // slots)
    ideal = rounds * SECONDS
    print(
        f"{runs} runs of {SECONDS:g} s on {slots} slots: {wall:.1f} s, "
        f"{wall / ideal - 1:.1%} above {ideal:.0f} s; driver {measure_peak_mib():.0f} MiB, "
        f"{watch.most_files} open files, {run_ms:.1f} ms of processor a run"
    )


@main.command("memory")
@RUNS(default=2_000)
@SLOTS
def measure_memory(runs: int, slots: int) -> None:
    """The same in two drivers: one that asks methods what they declare, and one that has it in its
    cache.
    """
    command = [sys.executable, __file__, "runs", "--runs", str(runs), "--slots", str(slots)]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "HARNESS_CACHE": cache}
        for name in ("first plan of an installation", "the same plan again"):
            print(f"{name}: ", end="", flush=True)
            subprocess.run(command, env=environment, check=True)


@main.command("processes")
@RUNS(default=50)
@SLOTS
def measure_processes(runs: int, slots: int) -> None:
    """What processes of the executor `local` cost that do nothing, and the open files of a driver
    of many at a time.
    """
    first_seconds = execute_locally(EmptyRun, 1, 1)
    start_seconds = execute_locally(EmptyRun, runs, 1) / runs
    busy_cores = slots / SECONDS * start_seconds
    print(
        f"the first process, with the one that it is forked from: {first_seconds:.1f} s; "
        f"{runs} more, one at a time: {1000 * start_seconds:.0f} ms each; {slots} slots of "
        f"{SECONDS:g} s would keep at most {busy_cores:.1f} cores busy with starting"
    )

    watch = Watch()
    watch.start()
    execute_locally(IdleRun, slots, slots, together=slots)
    print(f"{slots} processes at a time: {watch.most_files} files open in the driver")


def execute_locally(kind: type[RunJob], count: int, at_a_time: int, **options: int) -> float:
    """Seconds of jobs of a kind in processes of the executor `local`."""
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(count, Path(folder))
        jobs = [replace_job(job, kind, **options) for job in list_runs(plan, count)]
        start = time.monotonic()
        Local(Execution(jobs=at_a_time, device="cpu")).execute(jobs, lambda event: None)
        return time.monotonic() - start


@main.command("plan")
@RUNS(default=20_000)
def measure_plan(runs: int) -> None:
    """A plan and its jobs."""
    with tempfile.TemporaryDirectory() as folder:
        wall_start = time.monotonic()
        processor_start = time.process_time()
        plan = make_plan(runs, Path(folder))
        jobs = list_jobs(plan)
        queue = Queue(jobs)
        wall = time.monotonic() - wall_start
        planned_at = time.process_time()

        for job in iter(queue.take, None):
            queue.end(job, Prepared(job.id))
        emptied_at = time.process_time()

    print(
        f"{len(plan.runs)} runs planned as {len(jobs)} jobs: {wall:.1f} s, of processor "
        f"{planned_at - processor_start:.1f} s; the queue emptied in "
        f"{emptied_at - planned_at:.1f} s; {measure_peak_mib():.0f} MiB"
    )


@main.command("scale")
@RUNS(default=10_000)
@click.option("--slots", default=256, show_default=True, type=click.IntRange(1))
def measure_scale(runs: int, slots: int) -> None:
    """Runs of 40 minutes on GPUs, in simulated time."""
    from grid_scale import simulate_grid

    simulate_grid(runs, slots)


if __name__ == "__main__":
    main()
