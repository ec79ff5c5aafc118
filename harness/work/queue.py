"""The queue from which executors take jobs.

Two commands on one results folder share the work: whoever holds the lock of a job carries it out,
the other continues with its next job and tries again later.
"""

from __future__ import annotations

import logging
import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from harness.events import Event, Listener
from harness.store import Result
from harness.work.job import Again, End, Job, Prepared, RunJob, explain_failed_need, get_error
from harness.work.resources import Estimates, Resources

log = logging.getLogger(__name__)

#: Seconds before a job that another process holds is tried again.
RETRY_S = 0.5
#: Most jobs checked for fit at a time: with thousands waiting, checking all would keep a core busy.
ASKED = 200
#: Seconds between two looks at a queue in which no job can start.
LOOK_S = 0.05


class Queue:
    """Jobs that wait or run, and the ends of the others.

    An executor takes a job, performs it anywhere and reports its end. Iterating yields one job
    after the other, each once it can start, and waits while none can. A job can start once the jobs
    that it needs have ended well; if one of these fails, it fails too. Whoever ends a job, the
    queue alone tells `listen` of it.
    """

    def __init__(self, jobs: Sequence[Job], listen: Listener = lambda event: None) -> None:
        self._listen = listen
        self._order = {job: number for number, job in enumerate(jobs)}
        ids = {job.id for job in jobs}
        #: job that cannot start yet -> ids of the jobs that it waits for; and the reverse
        self._waits: dict[Job, set[str]] = {}
        self._dependents: dict[str, list[Job]] = {}
        for job in jobs:
            needs = set(job.needs & ids)
            if needs:
                self._waits[job] = needs
            for need in needs:
                self._dependents.setdefault(need, []).append(job)

        self._runs = {job.key: job for job in jobs if isinstance(job, RunJob)}
        self._ready = [job for job in jobs if job not in self._waits]
        self._running = set[Job]()
        self._retry_at: dict[Job, float] = {}
        self._estimates: Estimates | None = None
        self._said = False
        self.stopping = False
        self.ends: list[End] = []
        #: jobs that ran out of memory beside others on a GPU
        self.alone = set[Job]()

    def __len__(self) -> int:
        """The number of jobs that have not ended; once the queue is stopped, of those that still
        run.
        """
        if self.stopping:
            return len(self._running)
        return len(self._running) + len(self._ready) + len(self._waits)

    def __iter__(self) -> Iterator[Job]:
        while self:
            job = self.take()
            if job is None:
                time.sleep(LOOK_S)
            else:
                yield job

    @property
    def waiting(self) -> list[Job]:
        return [*self._ready, *self._waits]

    def take(self, fits: Callable[[Job], bool] = lambda job: True) -> Job | None:
        """Return the first job that can start now and `fits`, or None; at most ASKED jobs are
        checked.

        A job waits for the jobs that it needs, and for RETRY_S after another process was found to
        hold its lock.
        """
        if self.stopping:
            return None

        now = time.monotonic()
        can_start = (
            index for index, job in enumerate(self._ready) if now >= self._retry_at.get(job, 0.0)
        )
        for index in islice(can_start, ASKED):
            job = self._ready[index]
            if fits(job):
                del self._ready[index]
                self._running.add(job)
                return job

        return None

    def end(self, job: Job, end: End | Again) -> None:
        """Record what `Job.perform` or `Job.fail` returned for a job; a job that has not ended is
        put back.
        """
        self._running.remove(job)
        if isinstance(end, Again):
            if end is Again.MEMORY:
                self.alone.add(job)
            elif end is Again.HELD:
                self._say_held(job)
                self._retry_at[job] = time.monotonic() + RETRY_S
            insort(self._ready, job, key=self._order.__getitem__)
        else:
            self._close(job, end)

    def _say_held(self, job: Job) -> None:
        """Warn once that another command is executing a job: waiting without a message looks like
        hanging.
        """
        if not self._said:
            log.warning(
                "%s: another command is working on it; waiting for it after the other runs", job.key
            )
        self._said = True

    def estimate_resources(self, job: Job) -> Resources:
        """The resources a job needs, estimated from similar runs: finished ones of the store, and
        those in progress.
        """
        if self._estimates is None:
            self._estimates = Estimates(job.store.frames())
        return job.estimate_resources(self._estimates)

    def observe_memory(self, event: Event) -> None:
        """Update the estimates by a run's report, so that similar jobs are placed accordingly."""
        job = self._runs.get(event.run)
        if job is None or not event.memory_mb or not self._estimates:
            return
        self._estimates.observe_memory(job.run.experiment, job.chunk, event.device, event.memory_mb)

    def stop(self) -> None:
        self.stopping = True

    def _close(self, job: Job, end: End) -> None:
        """Record and announce the end of a job; the jobs that need it can start, or fail with it."""
        self.ends.append(end)
        self._listen(_make_announcement(job, end))
        self._retry_at.pop(job, None)
        if self._estimates and isinstance(end, Result):
            self._estimates.learn([end])

        error = get_error(end)
        for dependent in self._dependents.pop(job.id, ()):
            waits = self._waits.get(dependent)
            if waits is None:
                continue  # it has failed with another job that it needs

            waits.discard(job.id)
            if error:
                del self._waits[dependent]
                self._close(dependent, dependent.fail(explain_failed_need(job.key, error)))
            elif not waits:
                del self._waits[dependent]
                insort(self._ready, dependent, key=self._order.__getitem__)


def _make_announcement(job: Job, end: End) -> Event:
    if isinstance(end, Result):
        return Event("done", job.key, result=end)
    if isinstance(end, Prepared):
        return Event("prepared", job.key, error=end.error)
    return Event("failed", job.key, error=end.error)
