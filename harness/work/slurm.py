"""Runs as jobs of SLURM, in arrays that submitit submits."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from harness.errors import UserError
from harness.locks import locked
from harness.planning.events import Listener
from harness.runs.resources import DeviceChoice, Jobs
from harness.store.folder import Submission, forget_submission, submission
from harness.work.base import Executor, ExecutorOptions
from harness.work.job import End, Job
from harness.work.preparation import Preparation
from harness.work.queue import Queue
from harness.work.run_job import RunJob
from harness.work.slurm_commands import states
from harness.work.slurm_table import OPTIONS, slurm_table

try:
    from harness.work.slurm_submit import Submitter
    from harness.work.slurm_watch import LOOK_S, SlurmWatch
except ImportError as error:
    raise UserError(f"--executor slurm: {error}; install it with `pip install 'sentence-harness[slurm]'`") from error

log = logging.getLogger(__name__)


class Slurm(Executor):
    """Submits each job to SLURM once, and leaves it there; a command that finds nothing to submit follows the jobs.

    With `wait`, jobs belong to the command as with other executors: it follows them, and where it is stopped, so are
    they. All processes share the results folder.
    """

    settings = {
        "table": "TOML file with a table [slurm]",
        "wait": "yes: wait until all jobs have ended; stopping the command stops them too (default: no)",
        **OPTIONS,
    }

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """As many as SLURM starts."""
        return "auto"

    def __init__(self, options: ExecutorOptions) -> None:
        """Raises UserError for a setting with a value that it cannot have."""
        super().__init__(options)
        given = dict(options.settings)
        waits = given.pop("wait", "no")
        if waits not in ("yes", "no"):
            raise UserError(f"--executor-option wait={waits}: it must be yes or no")
        self.waits = waits == "yes"
        table = slurm_table(given.pop("table", None), given)
        if options.jobs != "auto":
            table = table.model_copy(update={"width": options.jobs})
        if options.device == "cpu":
            table = table.model_copy(update={"gpus": "0"})
        if options.device == "cuda" and table.gpus == "0":
            raise UserError("--device cuda: the jobs have gpus = 0; change one of the two")
        self.table = table
        self._submitter: Submitter | None = None

    def check(self, job: Job) -> None:
        """Refuse what no processor can do; the node has the GPU."""
        if self.table.gpus == "0":
            job.check("cpu")

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Submit the jobs that are not in SLURM. Wait for all where asked to, or where there were none to submit.

        Returns no ends where it does not wait. Raises UserError where SLURM refuses.
        """
        for job in jobs:
            self.check(job)
        if not jobs:
            return []
        queue = Queue(jobs, listen)
        self._submitter = Submitter(self.table, jobs[0].store, queue.resources)
        with locked(jobs[0].store.root / ".locks" / "slurm.lock", "submission to SLURM"):
            sent = self._submit(jobs, self._submitter)
        if self.waits:
            return super().execute(jobs, listen)
        if not sent:
            self._attend(queue, listen)
        return queue.ends

    def work(self, queue: Queue, listen: Listener) -> None:
        """Follow the jobs, and take them back where the command is stopped."""
        watch = self._watch(queue, listen)
        try:
            while queue:
                watch.look()
                if queue.stopping:
                    watch.stop()
                time.sleep(LOOK_S if queue else 0)
        finally:
            watch.cancel()

    def _attend(self, queue: Queue, listen: Listener) -> None:
        """Follow the jobs, which go on where this command is stopped."""
        watch = self._watch(queue, listen)
        log.warning("all runs are already submitted to SLURM; following them here (Ctrl-C stops only this command)")
        while queue:
            watch.look()
            time.sleep(LOOK_S if queue else 0)

    def _watch(self, queue: Queue, listen: Listener) -> SlurmWatch:
        submitter = self._submitter
        assert submitter is not None

        def again(job: Job) -> Submission:
            submitter.submit([job])
            return submitter.submissions[job.id]

        return SlurmWatch(queue, listen, submitter.store, submitter.submissions, again)

    def _submit(self, jobs: Sequence[Job], submitter: Submitter) -> list[str]:
        """Submit what is neither in SLURM nor at work elsewhere; return the ids of the arrays."""
        known = {job.id: note for job in jobs if (note := submission(job.store, job.id))}
        there = states()
        for name, note in known.items():
            if note.id in there and not there[note.id].ended:
                submitter.submissions[name] = note
            else:
                forget_submission(jobs[0].store, name, note.id)
        new = [job for job in jobs if job.id not in submitter.submissions]
        wanted = [job for job in new if not isinstance(job, Preparation) and _is_to_do(job)]
        return submitter.submit(_with_needs(wanted, new)) if wanted else []


def _with_needs(chosen: Sequence[Job], among: Sequence[Job]) -> list[Job]:
    """The chosen jobs and those of all that they need, directly or not, in their order."""
    wanted = {job.id for job in chosen}
    for job in reversed(among):
        if job.id in wanted:
            wanted |= job.needs
    return [job for job in among if job.id in wanted]


def _is_to_do(job: Job) -> bool:
    """Whether a job was not finished since it was planned, and no process has it."""
    if isinstance(job, RunJob) and job.finished():
        return False
    with job.store.lock(job.id) as free:
        return free
