"""The interface of executors, and what they share: the order of jobs, locks, finished runs and failures.

Two commands on one results folder share the work: whoever holds the lock of a run carries it out, the other goes on
with its next job and looks again later.
"""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import UserError
from harness.execution.environment import DeviceChoice, Machine, pick_device
from harness.execution.events import Event, Listener
from harness.execution.inventory import Inventory
from harness.execution.plan import Plan, PlannedRun
from harness.execution.run import log_file, run_one
from harness.registry import get
from harness.store import Failure, Result, Spec, Store
from harness.training.trainer import check_precision

#: Seconds before a run that another process holds is tried again.
RETRY_S = 0.5
#: Seconds between two looks at a queue in which no job can start.
LOOK_S = 0.05

#: How a job ended.
End = Result | Failure


@dataclass(frozen=True)
class Resources:
    """What an executor may use: `jobs` runs at a time, each on `device`."""

    jobs: int = 1
    device: DeviceChoice = "auto"


@dataclass(frozen=True, eq=False)
class Job:
    """One planned run. It can be pickled and performed in any process that sees the results folder."""

    run: PlannedRun
    inventory: Inventory
    store: Store

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its training, which locks and `needs` go by."""
        return self.run.fingerprint

    @property
    def spec(self) -> Spec:
        """Which run it is."""
        return Spec.of(self.run.resolved.spec)

    @property
    def needs(self) -> frozenset[str]:
        """Fingerprints of the runs that are its teachers."""
        return self.run.needs

    def check(self, resources: Resources) -> None:
        """Raise UserError where this machine does not have the device or the run's precision."""
        device = pick_device(resources.device)
        if self.run.resolved.method.trains:
            check_precision(self.run.resolved.training.precision, device)

    def perform(self, resources: Resources, listen: Listener) -> End | None:
        """Train and evaluate the run under its lock; return None when another process holds the lock.

        A run that was finished since it was planned is not repeated. An error is recorded and returned as a Failure.
        """
        with self.store.lock(self.fingerprint) as acquired:
            if not acquired:
                return None
            try:
                finished = self.store.find(self.inventory.profile.name, self.spec, self.fingerprint)
                protocol = self.inventory.protocol
                if finished and all(finished.evaluated(suite, protocol(suite)) for suite in self.run.todo):
                    listen(Event("done", self.run.key, result=finished))
                    return finished
                machine = Machine.of_run(resources.device, resources.jobs)
                return run_one(self.run, self.inventory, self.store, machine, listen)
            except Exception as error:
                return self.fail(error, listen)

    def fail(self, error: Exception | str, listen: Listener) -> Failure:
        """Record the run's failure with its log so far, and report it."""
        kind = "" if isinstance(error, UserError | str) else f"{type(error).__name__}: "
        failure = Failure(
            spec=self.spec,
            profile=self.inventory.profile.name,
            fingerprint=self.fingerprint,
            error=f"{kind}{error}",
            traceback="".join(traceback.format_exception(error)) if isinstance(error, Exception) else "",
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        log = log_file(self.store, self.run)
        self.store.save_failure(failure, log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "")
        listen(Event("failed", self.run.key, error=failure.error))
        return failure


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
    plan: Plan, store: Store, listen: Listener, *, jobs: int = 1, device: DeviceChoice = "auto", executor: str = ""
) -> list[End]:
    """Carry out the unfinished runs of a plan, `jobs` at a time; return their ends in the order they came.

    `executor` is a registered name; by default one job at a time runs in this process, several in processes of their
    own. A failed run is recorded and the others go on. Raises UserError for a results folder that cannot be written,
    and for a device, a precision or an executor that does not exist here.
    """
    _check_writable(store)
    waiting = [Job(run, plan.inventory, store) for run in plan.todo]
    resources = Resources(max(1, min(jobs, len(waiting))), device)
    make = get("executor", executor or ("serial" if resources.jobs == 1 else "processes"))
    ends: list[End] = make(resources).execute(waiting, listen)
    return ends


def _check_writable(store: Store) -> None:
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        probe = store.root / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"--results {store.root} cannot be written: {error.strerror}; give another folder") from error
