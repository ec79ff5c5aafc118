"""Runs as jobs of SLURM, in arrays that submitit submits; submitted once, and followed by any later command."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass

from harness.errors import UserError
from harness.locks import locked
from harness.planning.events import Event, Listener
from harness.runs.environment import DeviceChoice, Jobs
from harness.store.folder import Submission, forget_submission, submission
from harness.work.base import Executor, ExecutorOptions
from harness.work.crew import Crew, Death, Out
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.jobs import Preparation
from harness.work.queue import Queue
from harness.work.reports import Report
from harness.work.slurm.commands import NOT_ITS_FAULT, OPTIONS, SlurmState, cancel, last_state, slurm_table, states

try:
    from harness.work.slurm.submit import Submitter
except ImportError as error:
    raise UserError(f"--executor slurm: {error}; install it with `pip install 'sentence-harness[slurm]'`") from error

log = logging.getLogger(__name__)

#: Seconds between two questions to SLURM, which serves everybody, and between two looks at files of jobs at work.
ASK_S, LOOK_S = 10.0, 1.0
#: Answers of SLURM in which a job must have ended, before it counts as dead without a result: files take their time.
ABSENT = 2


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
        super().__init__(options)
        self.waits = self.switch("wait", "no")
        keys = {name: text for name, text in options.settings.items() if name in OPTIONS}
        table = slurm_table(options.settings.get("table"), keys)
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
        assert self._submitter is not None
        _Submissions(queue, listen, self._submitter, mine=True).work()

    def _attend(self, queue: Queue, listen: Listener) -> None:
        """Follow the jobs, which go on where this command is stopped."""
        assert self._submitter is not None
        log.warning("all runs are already submitted to SLURM; following them here (Ctrl-C stops only this command)")
        _Submissions(queue, listen, self._submitter, mine=False).work()

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


@dataclass(eq=False, kw_only=True)
class _Submitted(Out):
    """A job in SLURM. `absent` counts the answers of SLURM in which it had ended without a report."""

    note: Submission
    state: SlurmState
    absent: int = 0


class _Submissions(Crew[_Submitted]):
    """Follows the jobs of a queue in SLURM until they end; `mine`: they end with this command."""

    def __init__(self, queue: Queue, listen: Listener, submitter: Submitter, *, mine: bool) -> None:
        super().__init__(queue, listen)
        self.submitter, self.mine = submitter, mine
        self.notes = submitter.submissions
        self._asked = float("-inf")

    def start(self) -> None:
        """Follow a job where SLURM has it, else look for its end elsewhere, or submit it."""
        while (job := self.queue.take()) is not None:
            if job.id in self.notes:
                self._follow(job)
            elif (end := self._elsewhere(job)) is not None:
                self.queue.end(job, end)
            else:
                try:
                    self.submitter.submit([job])
                except UserError as error:
                    self.queue.end(job, job.fail(error, self.listen))
                else:
                    self._follow(job)

    def _follow(self, job: Job) -> None:
        note = self.notes[job.id]
        report = Report.of(job.store, job.id, note.id)
        self.out[job] = _Submitted(job, report, note=note, state=SlurmState("PENDING"))

    def _elsewhere(self, job: Job) -> End | Again | None:
        """How a job ended that is not in SLURM; None where it did not."""
        if isinstance(job, Preparation) and job not in self.deaths:  # made earlier: no run needs it in SLURM
            self.listen(Event("prepared", job.key))
            return Prepared(job.id)
        if isinstance(job, RunJob) and (result := job.finished()):
            self.listen(Event("done", job.key, result=result))
            return result
        with job.store.lock(job.id) as free:
            return None if free else Again.HELD

    def wait(self) -> None:
        time.sleep(LOOK_S)
        if time.monotonic() - self._asked >= ASK_S:
            self._ask()

    def _ask(self) -> None:
        """Ask SLURM where all jobs are; where it does not answer, nothing has changed."""
        self._asked = time.monotonic()
        try:
            there = states()
        except UserError as error:
            log.warning("%s; still waiting", error)
            return
        for out in self.out.values():
            out.state = there.get(out.note.id, SlurmState("UNKNOWN"))
            out.absent += out.state.ended

    def death(self, out: _Submitted) -> Death | None:
        """None while its files may take their time to be seen here."""
        if out.absent < ABSENT:
            return None
        state = last_state(out.note.id) or out.state.state
        why = f"the SLURM job {out.note.id} ended without a result ({state or 'unknown state'}); log: {out.note.log}"
        return Death(why, again=state in NOT_ITS_FAULT or self.queue.stopping)

    def stop(self) -> None:
        """Take back the jobs that wait; ask those at work to save and end."""
        self._ask()
        working = {job.id for job, out in self.out.items() if not out.state.waits}
        cancel((self.notes[name].id for name in working), signal="INT")
        self._take_back(self.notes.keys() - working)
        for out in list(self.out.values()):
            if out.job.id not in working:
                self.close(out, Again.STOPPED)

    def cancel(self) -> None:
        if self.mine:
            self._take_back(set(self.notes))

    def close(self, out: _Submitted, end: End | Again) -> None:
        """Where a job is put back, those that need it are submitted again: they would start without its output."""
        super().close(out, end)
        if isinstance(end, Again):
            lost = {out.job.id}
            for job in self.queue.waiting:
                if job.needs & lost:
                    lost.add(job.id)
            self._take_back(lost & self.notes.keys())

    def release(self, out: _Submitted) -> None:
        self.notes.pop(out.job.id, None)
        out.report.events.unlink(missing_ok=True)  # the end is for jobs that need this one
        forget_submission(self.submitter.store, out.job.id, out.note.id)

    def _take_back(self, names: Set[str]) -> None:
        cancel(self.notes[name].id for name in names)
        for name in names:
            forget_submission(self.submitter.store, name, self.notes.pop(name).id)
