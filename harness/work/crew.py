"""Jobs in other processes: started, followed by what they report until they end, and stopped.

An executor for processes elsewhere is a `Crew`, which says how a process is started, whether it is gone, and how it is
asked to stop. All else is the same for a process of this machine, a task of Ray and a job of SLURM.
"""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from harness.planning.events import Event, Listener
from harness.store import Result
from harness.work.failures import GRACE_S, TimeLimitError
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.queue import RETRY_S, Queue
from harness.work.reports import EventReader, Report

log = logging.getLogger(__name__)

#: Processes that may die under a job before it counts as failed: it may be what kills them.
DEATHS = 3


@dataclass(eq=False)
class Out:
    """A job that a process has; `started` by the clock of this process, `told`: its end was passed on."""

    job: Job
    report: Report
    started: float = math.inf
    told: bool = False

    @cached_property
    def events(self) -> EventReader:
        return EventReader(self.report.events)


@dataclass(frozen=True)
class Death:
    """Why a process is gone that reported no end; `again`: the job may be carried out by another one."""

    why: str
    again: bool = False


AnyOut = TypeVar("AnyOut", bound=Out)


class Crew(ABC, Generic[AnyOut]):
    """Carries out a queue in other processes."""

    def __init__(self, queue: Queue, listen: Listener) -> None:
        self.queue, self.listen = queue, listen
        self.out: dict[Job, AnyOut] = {}
        self.deaths = Counter[Job]()
        self._asked_to_stop = False

    def work(self) -> None:
        start_at = 0.0
        try:
            while self.queue:
                if time.monotonic() >= start_at:
                    self.start()
                    start_at = time.monotonic() + RETRY_S
                if self.queue.stopping and not self._asked_to_stop:
                    self._asked_to_stop = True
                    self.stop()
                if self.queue:
                    self.wait()
                if self.look():
                    start_at = 0.0
        finally:
            self.cancel()

    @abstractmethod
    def start(self) -> None:
        """Take the jobs from the queue that can start, and give each to a process."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for a part of a second, or until something happens."""

    @abstractmethod
    def death(self, out: AnyOut) -> Death | None:
        """Why a process is gone; None while it may report more."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all processes to save and end."""

    @abstractmethod
    def cancel(self) -> None:
        """End all processes at once."""

    def kill(self, out: AnyOut) -> None:
        """End a process that does not react to its time limit."""

    def release(self, out: AnyOut) -> None:
        """Give back what a process had, which is gone or will be."""

    def delivered(self, out: AnyOut, end: End) -> End:
        """The end of a job, once its files are in the store."""
        return end

    def look(self) -> bool:
        """Pass on what processes have reported; return whether one has ended."""
        before = len(self.out)
        for out in list(self.out.values()):
            death = self.death(out)  # first: of a process that is gone, all files are there
            self._pass_on(out)
            end = out.report.end()
            if end is not None:
                self._end(out, end)
            elif death is not None:
                self._mourn(out, death)
            elif out.job.limit_s is not None and time.monotonic() > out.started + out.job.limit_s + 2 * GRACE_S:
                self.kill(out)
                self.close(out, out.job.fail(TimeLimitError(out.job.limit_s), self.listen))
        return len(self.out) < before

    def _pass_on(self, out: AnyOut) -> None:
        for event in out.events:
            self.listen(event)
            out.told |= event.run == out.job.key and event.kind in ("done", "failed", "prepared")

    def _end(self, out: AnyOut, end: End | Again | str) -> None:
        self._pass_on(out)
        if isinstance(end, str):
            end = out.job.fail(end, self.listen)
        elif not isinstance(end, Again):
            if not out.told:  # a file of another node that is not seen yet
                self.listen(_last_event(out.job, end))
            end = self.delivered(out, end)
        self.close(out, end)

    def _mourn(self, out: AnyOut, death: Death) -> None:
        """Give a job to another process where that may help, and else let it fail."""
        job = out.job
        self.deaths[job] += 1
        if isinstance(job, RunJob) and (result := job.finished()):
            self.close(out, result)
        elif not death.again:
            self.close(out, job.fail(death.why, self.listen))
        elif self.queue.stopping:
            self.close(out, Again.STOPPED)
        elif self.deaths[job] < DEATHS:
            log.warning("%s: its process died (%s); another one resumes from the last checkpoint", job.key, death.why)
            self.close(out, Again.LOST)
        else:
            why = f"{self.deaths[job]} processes died while running it; the last one: {death.why}"
            self.close(out, job.fail(why, self.listen))

    def close(self, out: AnyOut, end: End | Again) -> None:
        """Report the end of a job, or put it back into the queue."""
        del self.out[out.job]
        self.release(out)
        self.queue.end(out.job, end)


def _last_event(job: Job, end: End) -> Event:
    if isinstance(end, Result):
        return Event("done", job.key, result=end)
    return Event("prepared" if isinstance(end, Prepared) else "failed", job.key, error=end.error)
