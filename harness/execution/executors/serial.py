"""Runs in this process, one after another."""

from __future__ import annotations

from harness.execution.events import Listener
from harness.execution.executors.base import Executor, Queue


class Serial(Executor):
    """Carries out one job at a time in this process."""

    def work(self, queue: Queue, listen: Listener) -> None:
        """Perform each job when it can start."""
        for job in queue:
            queue.end(job, job.perform(self.resources, listen))
