"""Jobs in this process, one after another: for debuggers, tests and short scripts."""

from __future__ import annotations

from harness.errors import UserError
from harness.planning.events import Listener
from harness.work.base import Executor, ExecutorOptions
from harness.work.queue import Queue


class Serial(Executor):
    """Carries out one job at a time in this process; a run that crashes ends the process."""

    def __init__(self, options: ExecutorOptions) -> None:
        super().__init__(options)
        if options.jobs not in (1, "auto"):
            raise UserError("the executor serial carries out one run at a time; remove --jobs, or --executor serial")

    def work(self, queue: Queue, listen: Listener) -> None:
        """Perform each job when it can start."""
        for job in queue:
            queue.end(job, job.perform(self.share, listen))
