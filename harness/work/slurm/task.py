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
        self._arguments = job, seat, software, needs
        self.job = job
        self.end = end
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._outcome: End | Again | BaseException = Again.STOPPED
        self._ended = False
        self._terminated = False

    def __reduce__(self) -> tuple[object, ...]:
        return SlurmTask, (*self._arguments, self.end)

    def __call__(self) -> End | Again:
        """Perform the job; return how it ended, or why it did not."""
        withdraw_stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        job = self.job
        report = Report.of(job, get_own_id())
        try:
            self._thread.start()
            self._wait_for_end()
        # from submitit, after USR2
        except (UncompletedJobError, subprocess.SubprocessError, OSError) as error:
            if isinstance(self._outcome, Again):
                self._outcome = job.fail(f"saved, but could not be queued again: {error}")

        report.write_end(self._outcome)
        if isinstance(self._outcome, BaseException):
            raise self._outcome

        forget_submission(job.store, job.id, get_own_id())
        return self._outcome

    def _wait_for_end(self) -> None:
        """Wait until the job has ended, or has exceeded its limit; after SIGTERM, for SLURM."""
        limit_s = self.job.limit_s
        started = monotonic()
        # a signal that another thread gets would not wake this one
        while self._thread.is_alive():
            self._thread.join(SIGNAL_S)
            if limit_s is not None and monotonic() - started > limit_s + GRACE_S:
                self._outcome = self.job.fail(TimeLimitError(limit_s))
                break

        until = monotonic() + ENDED_S
        while self._terminated and self._outcome is Again.STOPPED and monotonic() < until:
            sleep(SIGNAL_S)

    def checkpoint(self) -> DelayedSubmission:
        """Let the job save and stop; return what is to run once SLURM starts it again."""
        request_stop()
        # a second join in a signal handler can wait for ever for a lock of the first, which the
        # handler interrupted
        while self._thread.is_alive() and not self._ended:  # it may not have started
            sleep(SIGNAL_S)
        end = None
        if not isinstance(self._outcome, Again | BaseException):
            end = self._outcome
        return DelayedSubmission(SlurmTask(*self._arguments, end))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._terminated = number == signal.SIGTERM
        request_stop()

    def _perform(self) -> None:
        try:
            self._outcome = self.end or _perform_after_needs(*self._arguments)
        except BaseException as error:  # the main thread raises it
            self._outcome = error
        finally:
            self._ended = True


def get_own_id() -> str:
    """The id of the job in SLURM that this process belongs to."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID')}"
    return os.environ.get("SLURM_JOB_ID", "")


def _perform_after_needs(
    job: Job, seat: Seat, software: Software, needs: Sequence[tuple[str, Report]]
) -> End | Again:
    difference = software.difference(Software.here())
    if difference:
        host = socket.gethostname()
        return job.fail(
            f"the software of {host} differs from that of the command that submitted the job: "
            f"{difference}; run the same command to submit it again"
        )

    for key, report in needs:
        error = _explain_missing(key, report)
        if error:
            return job.fail(error)

    until = monotonic() + PATIENCE_S
    write = Report.of(job, get_own_id()).write
    end = job.perform(seat, write)
    # such as its own process before a requeue
    while end is Again.HELD and not stop_requested() and monotonic() < until:
        sleep(LOOK_S)
        end = job.perform(seat, write)
    return end


def _explain_missing(key: str, report: Report) -> str:
    """Why a needed job has not ended well; empty if it has."""
    until = monotonic() + FILES_S
    while (end := report.read()) is None and monotonic() < until:
        sleep(LOOK_S)
    number = report.path.stem
    if end is None:
        return explain_failed_need(key, f"it was killed before it ended (SLURM {number})")
    if isinstance(end, Again):
        return explain_failed_need(key, f"it has not ended: {end.value} (SLURM {number})")

    error = end if isinstance(end, str) else get_error(end)
    if not error:
        return ""
    return explain_failed_need(key, error)
