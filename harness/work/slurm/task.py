"""One job of a plan inside a SLURM job, which saves and is queued again when SLURM reclaims the node."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass
from time import monotonic, sleep
from types import FrameType

from submitit.core.utils import UncompletedJobError
from submitit.helpers import Checkpointable, DelayedSubmission

from harness.runs.environment import Allocation
from harness.stopping import request_stop, stop_requested, withdraw_stop
from harness.store import Store
from harness.store.folder import forget_submission
from harness.work.failures import GRACE_S, TimeLimitError
from harness.work.job import Again, End, Job, cause, error_of
from harness.work.reports import EventWriter, Report
from harness.work.software import Software

#: Seconds for which a job waits for another process to free its lock, and for files of another node to be seen.
PATIENCE_S, FILES_S = 120.0, 30.0
#: Seconds between two looks at either.
LOOK_S = 1.0
#: Seconds within which the main thread notices a signal.
SIGNAL_S = 0.2
#: Seconds after SIGTERM in which SLURM ends the job or queues it again: the longest grace time we know of.
ENDED_S = 3600.0


@dataclass(frozen=True)
class Needed:
    """Another job in SLURM that must have ended well, by its key, its id there and its own id."""

    key: str
    id: str
    job: str


@dataclass(frozen=True)
class SlurmOrder:
    """A job as it is submitted. `software` is that of the command which submitted it."""

    job: Job
    allocation: Allocation
    needs: tuple[Needed, ...]
    software: Software

    @property
    def report(self) -> Report:
        """The report of the process that asks."""
        return Report.of(self.job.store, self.job.id, own_id())


class SlurmTask(Checkpointable):
    """Performs the job in a thread, so that the idle main thread receives signals.

    USR2, before the time limit and wherever SLURM is told to send it: the job saves, and is queued again (submitit's
    `checkpoint`). TERM, before preemption: it saves, and waits for SLURM to queue it again or to kill it. INT, from the
    command that waits for it: it saves, and ends.
    """

    def __init__(self, order: SlurmOrder, end: End | None = None) -> None:
        """`end` is given where the job ended while it was queued again."""
        self.order, self.end = order, end
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._found: End | Again | BaseException = Again.STOPPED
        self._ended = False
        self._terminated = False

    def __getstate__(self) -> dict[str, object]:
        return {"order": self.order, "end": self.end}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __call__(self) -> End | Again:
        """Perform the job; return how it ended, or why it did not."""
        withdraw_stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        job, report = self.order.job, self.order.report
        try:
            self._thread.start()
            limit, started = job.limit_s, monotonic()
            while self._thread.is_alive():  # a signal that another thread gets would not wake this one
                self._thread.join(SIGNAL_S)
                if limit is not None and monotonic() - started > limit + GRACE_S:
                    with EventWriter(report.events) as write:
                        self._found = job.fail(TimeLimitError(limit), write)
                    break
            until = monotonic() + ENDED_S
            while self._terminated and self._found is Again.STOPPED and monotonic() < until:
                sleep(SIGNAL_S)
        except (UncompletedJobError, subprocess.SubprocessError, OSError) as error:  # of submitit, at USR2
            if isinstance(self._found, Again):
                with EventWriter(report.events) as write:
                    self._found = job.fail(f"saved, but could not be queued again: {error}", write)
        report.write_end(self._found)
        if isinstance(self._found, BaseException):
            raise self._found
        forget_submission(job.store, job.id, own_id())
        return self._found

    def checkpoint(self) -> DelayedSubmission:
        """Let the job save and stop; return what is to run once SLURM starts it again."""
        request_stop()
        # a second join in a signal handler can wait for ever for a lock of the first, which the handler interrupted
        while self._thread.is_alive() and not self._ended:  # it may not have started
            sleep(SIGNAL_S)
        end = None if isinstance(self._found, Again | BaseException) else self._found
        return DelayedSubmission(SlurmTask(self.order, end))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._terminated = number == signal.SIGTERM
        request_stop()

    def _perform(self) -> None:
        try:
            self._found = self.end or _perform(self.order)
        except BaseException as error:  # the main thread raises it
            self._found = error
        finally:
            self._ended = True


def own_id() -> str:
    """The id of the job in SLURM that this process belongs to."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")


def _perform(order: SlurmOrder) -> End | Again:
    job = order.job
    with EventWriter(order.report.events) as write:
        if difference := order.software.difference(Software.here()):
            where = f"the software of {socket.gethostname()} differs from that of the command that submitted the job"
            return job.fail(f"{where}: {difference}; run the same command to submit it again", write)
        for needed in order.needs:
            if why := _lacks(needed, job.store):
                return job.fail(why, write)
        until = monotonic() + PATIENCE_S
        while (end := job.perform(order.allocation, write)) is Again.HELD:  # such as its own process before a requeue
            if stop_requested() or monotonic() >= until:
                break
            sleep(LOOK_S)
        return end


def _lacks(needed: Needed, store: Store) -> str:
    """Why a need is not met; empty if it is."""
    until = monotonic() + FILES_S
    report = Report.of(store, needed.job, needed.id)
    while (found := report.end()) is None and monotonic() < until:
        sleep(LOOK_S)
    if found is None:
        return cause(needed.key, f"it was killed before it ended (SLURM {needed.id})")
    if isinstance(found, Again):
        return cause(needed.key, f"it has not ended: {found.value} (SLURM {needed.id})")
    error = found if isinstance(found, str) else error_of(found)
    return cause(needed.key, error) if error else ""
