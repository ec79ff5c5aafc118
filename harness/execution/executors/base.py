"""The interface of executors, and the queue from which they take jobs.

Two commands on one results folder share the work: whoever holds the lock of a run carries it out, the other continues
with its next job and tries again later.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from harness.errors import UserError
from harness.execution.environment import DeviceChoice
from harness.execution.events import Listener
from harness.execution.executors.job import End, Job, Resources
from harness.execution.plan import Plan
from harness.registry import get_class
from harness.store import Store

#: Seconds before a run that another process holds is tried again.
RETRY_S = 0.5
#: Seconds between two looks at a queue in which no job can start.
LOOK_S = 0.05


class Queue:
    """Jobs that wait or run, and the ends of the others.

    An executor takes a job, performs it wherever it likes and reports its end. Iterating gives one job after the
    other, each once it can start, and waits where none can.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._waiting, self._running = list(jobs), list[Job]()
        self._retry_at: dict[Job, float] = {}
        self.ends: list[End] = []

    def __len__(self) -> int:
        """Jobs that have not ended."""
        return len(self._waiting) + len(self._running)

    def __iter__(self) -> Iterator[Job]:
        while self:
            job = self.take()
            if job is None:
                time.sleep(LOOK_S)
            else:
                yield job

    def take(self) -> Job | None:
        """Return the first job that can start now, or None.

        A job waits for its teachers in this queue, and for RETRY_S after another process was found to hold it.
        """
        unfinished = {job.fingerprint for job in (*self._waiting, *self._running)}
        for job in self._waiting:
            if not job.needs & unfinished and time.monotonic() >= self._retry_at.get(job, 0.0):
                self._waiting.remove(job)
                self._running.append(job)
                return job
        return None

    def end(self, job: Job, end: End | None) -> None:
        """Report what `Job.perform` or `Job.fail` returned for a job; None puts it back."""
        self._running.remove(job)
        if end is None:
            self._retry_at[job] = time.monotonic() + RETRY_S
            self._waiting.append(job)
        else:
            self.ends.append(end)


class Executor(ABC):
    """Distributes jobs over processes or machines. Registered as an entry point of `harness.executors`."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Carry out all jobs; return a Result or a Failure of each, in the order in which they ended.

        Raises UserError before anything runs where `check` refuses a job.
        """
        for job in jobs:
            self.check(job)
        queue = Queue(jobs)
        self.work(queue, listen)
        return queue.ends

    def check(self, job: Job) -> None:
        """Refuse a job that cannot run on this machine; to be overridden by executors that run jobs elsewhere."""
        job.check(self.resources)

    @abstractmethod
    def work(self, queue: Queue, listen: Listener) -> None:
        """Take jobs from the queue until it is empty and report the end of each to it."""


def execute(
    plan: Plan, listen: Listener, *, jobs: int = 1, device: DeviceChoice = "auto", executor: str | None = None
) -> list[End]:
    """Carry out the unfinished runs of a plan, `jobs` at a time; return their ends in the order they came.

    `executor` is a registered name; by default one job at a time runs in this process, several in processes of their
    own. A failed run is recorded and the others go on. Raises UserError for a results folder that cannot be written,
    and for a device, a precision or an executor that does not exist here.
    """
    _check_writable(plan.store)
    waiting = [Job(run, plan.inventory, plan.store) for run in plan.todo]
    resources = Resources(max(1, min(jobs, len(waiting))), device)
    name = executor or ("serial" if resources.jobs == 1 else "processes")
    return get_class("executor", name, Executor)(resources).execute(waiting, listen)


def _check_writable(store: Store) -> None:
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        probe = store.root / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"--results {store.root} cannot be written: {error.strerror}; give another folder") from error
