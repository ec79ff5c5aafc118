"""One job of a plan inside a SLURM job, which saves and is queued again when SLURM reclaims the
node.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from time import monotonic, sleep
from types import FrameType

from submitit.core.utils import UncompletedJobError
from submitit.helpers import Checkpointable, DelayedSubmission

from harness.runs.execution import Seat, Software
from harness.stopping import request_stop, stop_requested, withdraw_stop
from harness.store.folder import forget_submission
from harness.work.failures import GRACE_S, TimeLimitError
from harness.work.job import Again, End, Job, explain_failed_need, get_error
from harness.work.report import Report

#: Seconds for which a job waits for another process to free its lock, and for files of another node
#: to be seen.
PATIENCE_S = 120.0
FILES_S = 30.0
#: Seconds between two checks of the lock or the files.
LOOK_S = 1.0
#: Seconds within which the main thread notices a signal.
SIGNAL_S = 0.2
#: Seconds after SIGTERM within which SLURM kills the job or queues it again: the longest grace time
#: we know of.
ENDED_S = 3600.0


class SlurmTask(Checkpointable):
    """Performs the job in a thread, so that the idle main thread receives signals.

    USR2, before the time limit and wherever SLURM is told to send it: the job saves, and is queued
    again (submitit's `checkpoint`). TERM, before preemption: it saves, and waits for SLURM to queue
    it again or to kill it. INT, from the command that waits for it: it saves, and ends.
    """

    def __init__(
        self,
        job: Job,
        seat: Seat,
        software: Software,
        needs: Sequence[tuple[str, Report]],
        end: End | None = None,
    ) -> None:
        """`software` is that of the command which submits the job.

        `needs` are the keys and reports of the jobs in SLURM that must have ended well. `end` is
        given if the job ended while it was being queued again.
        """
        self._given = job, seat, software, needs
        self.job = job
        self.end = end
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._found: End | Again | BaseException = Again.STOPPED
        self._ended = False
        self._terminated = False

    def __reduce__(self) -> tuple[object, ...]:
        return SlurmTask, (*self._given, self.end)

    def __call__(self) -> End | Again:
        """Perform the job; return how it ended, or why it did not."""
        withdraw_stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        job = self.job
        report = Report.of(self.job, get_own_id())
        try:
            self._thread.start()
            limit = job.limit_s
            started = monotonic()
            while (
                self._thread.is_alive()
            ):  # a signal that another thread gets would not wake this one
                self._thread.join(SIGNAL_S)
                if limit is not None and monotonic() - started > limit + GRACE_S:
                    self._found = job.fail(TimeLimitError(limit))
                    break
            until = monotonic() + ENDED_S
            while self._terminated and self._found is Again.STOPPED and monotonic() < until:
                sleep(SIGNAL_S)
        except (
            UncompletedJobError,
            subprocess.SubprocessError,
            OSError,
        ) as error:  # from submitit, after USR2
            if isinstance(self._found, Again):
                self._found = job.fail(f"saved, but could not be queued again: {error}")
        report.write_end(self._found)
        if isinstance(self._found, BaseException):
            raise self._found
        forget_submission(job.store, job.id, get_own_id())
        return self._found

    def checkpoint(self) -> DelayedSubmission:
        """Let the job save and stop; return what is to run once SLURM starts it again."""
        request_stop()
        # a second join in a signal handler can wait for ever for a lock of the first, which the
        # handler interrupted
        while self._thread.is_alive() and not self._ended:  # it may not have started
            sleep(SIGNAL_S)
        end = None if isinstance(self._found, Again | BaseException) else self._found
        return DelayedSubmission(SlurmTask(*self._given, end))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._terminated = number == signal.SIGTERM
        request_stop()

    def _perform(self) -> None:
        try:
            self._found = self.end or _perform_after_needs(*self._given)
        except BaseException as error:  # the main thread raises it
            self._found = error
        finally:
            self._ended = True


def get_own_id() -> str:
    """The id of the job in SLURM that this process belongs to."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    task = os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")


def _perform_after_needs(
    job: Job, seat: Seat, software: Software, needs: Sequence[tuple[str, Report]]
) -> End | Again:
    if difference := software.difference(Software.here()):
        where = f"the software of {socket.gethostname()} differs from that of the command that submitted the job"
        return job.fail(f"{where}: {difference}; run the same command to submit it again")
    for key, report in needs:
        if why := _explain_missing(key, report):
            return job.fail(why)
    until = monotonic() + PATIENCE_S
    write = Report.of(job, get_own_id()).write
    while (
        end := job.perform(seat, write)
    ) is Again.HELD:  # such as its own process before a requeue
        if stop_requested() or monotonic() >= until:
            break
        sleep(LOOK_S)
    return end


def _explain_missing(key: str, report: Report) -> str:
    """Why a needed job has not ended well; empty if it has."""
    until = monotonic() + FILES_S
    while (end := report.read()) is None and monotonic() < until:
        sleep(LOOK_S)
    if end is None:
        return explain_failed_need(key, f"it was killed before it ended (SLURM {report.path.stem})")
    if isinstance(end, Again):
        return explain_failed_need(key, f"it has not ended: {end.value} (SLURM {report.path.stem})")
    error = end if isinstance(end, str) else get_error(end)
    return explain_failed_need(key, error) if error else ""
