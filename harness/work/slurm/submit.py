"""Jobs of a plan as job arrays of SLURM, each after those that it needs."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from datetime import UTC, datetime

import submitit
from submitit.core.utils import FailedSubmissionError, JobPaths, UncompletedJobError

from harness.errors import UserError, first_line
from harness.runs.environment import Allocation, Resources
from harness.store import Store
from harness.store.folder import Submission, note_submission
from harness.work.job import Job
from harness.work.slurm.commands import SlurmTable, largest_array
from harness.work.slurm.task import Needed, SlurmOrder, SlurmTask
from harness.work.software import SHARED_VARIABLES, Software

#: What notes on submitted jobs call this batch system.
SYSTEM = "SLURM"
#: Times that a job may be queued again at its time limit.
TIMEOUTS = 100


class Submitter:
    """Submits jobs; `submissions` are the notes on all known SLURM jobs, by job."""

    def __init__(self, table: SlurmTable, store: Store, needs_of: Callable[[Job], Resources]) -> None:
        """`needs_of` gives what a job needs of a machine."""
        self.table, self.store, self.needs_of = table, Store(store.root.resolve()), needs_of
        self.submissions: dict[str, Submission] = {}
        self._folder = self.store.root / ".slurm" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Submit jobs, listed after those that they need, and note where each is; return the ids of the arrays.

        Raises UserError where sbatch refuses an array; those before it stay submitted.
        """
        known = {job: note.id for job, note in self.submissions.items()}
        sent: list[str] = []
        for on_gpu, array in self._arrays(jobs):
            after = {known[need] for job in array for need in job.needs if need in known}
            if self.table.width:  # arrays one after the other, so that the limit holds for all together
                after.update(sent[-1:])
            notes = self._submit(array, sorted(after), on_gpu=on_gpu)
            self.submissions |= notes
            sent.append(next(iter(notes.values())).id.partition("_")[0])
            known |= dict.fromkeys(notes, sent[-1])
        return sent

    def _arrays(self, jobs: Sequence[Job]) -> Iterator[tuple[bool, list[Job]]]:
        """Jobs by stage, since a dependency is of a whole array, and by whether they use a GPU, which comes first."""
        stages: dict[str, int] = {}
        found: dict[tuple[int, bool], list[Job]] = {}
        for job in jobs:
            stages[job.id] = 1 + max((stages.get(need, 0) for need in job.needs), default=0)
            on_gpu = self.table.gpus[-1] != "0" and self.needs_of(job).gpu_memory_mb > 0
            found.setdefault((stages[job.id], on_gpu), []).append(job)
        most = largest_array()
        for (_, on_gpu), members in sorted(found.items(), key=lambda item: item[0]):
            for start in range(0, len(members), most):
                yield on_gpu, members[start : start + most]

    def _submit(self, jobs: Sequence[Job], after: Sequence[str], *, on_gpu: bool) -> dict[str, Submission]:
        allocation = Allocation("cuda" if on_gpu else "cpu", self.table.cpus)
        tasks = [
            SlurmTask(SlurmOrder(replace(job, store=self.store), allocation, self._needed(job), Software.here()))
            for job in jobs
        ]
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                executor = submitit.SlurmExecutor(self._folder, max_num_timeout=TIMEOUTS)
                executor.update_parameters(**self._parameters(jobs, after, on_gpu=on_gpu))
                sent = executor.submit_array(tasks)
        except (UncompletedJobError, FailedSubmissionError, RuntimeError, OSError) as error:
            why = first_line(error).removeprefix("sbatch: error: ")
            raise UserError(
                f"SLURM refused {len(tasks)} of the jobs: {why}; correct the options and run the command again"
            ) from error
        notes = {}
        for job, number in zip(jobs, (one.job_id for one in sent), strict=True):
            log = JobPaths(self._folder, number).stdout
            notes[job.id] = Submission(system=SYSTEM, id=number, key=job.key, folder=self._folder, log=log)
            note_submission(self.store, job.id, notes[job.id])
        return notes

    def _needed(self, job: Job) -> tuple[Needed, ...]:
        """The needs of a job that are in SLURM; others ended well before."""
        found = ((need, self.submissions[need]) for need in sorted(job.needs) if need in self.submissions)
        return tuple(Needed(note.key, note.id, need) for need, note in found)

    def _parameters(self, jobs: Sequence[Job], after: Sequence[str], *, on_gpu: bool) -> dict[str, object]:
        """What submitit is told of an array; None is left to the site."""
        table = self.table
        further = {"requeue": True, **table.sbatch}
        memory = table.memory or f"{max(self.needs_of(job).memory_mb for job in jobs)}M"
        return {
            "job_name": "harness",
            "partition": table.partition,
            "account": table.account,
            "qos": table.qos,
            "constraint": table.constraint,
            "time": table.time,
            "signal_delay_s": table.notice,
            "gres": f"gpu:{table.gpus}" if on_gpu else None,
            "cpus_per_task": table.cpus,
            "srun_args": [f"--cpus-per-task={table.cpus}"],  # srun has not inherited it since SLURM 22.05
            "mem": memory,
            "array_parallelism": table.width or len(jobs),
            "dependency": f"afterany:{':'.join(after)}" if after else None,
            "setup": [*_exports(os.environ), *table.setup],
            "stderr_to_stdout": True,
            "additional_parameters": {name: value for name, value in further.items() if value is not False},
        }


def _exports(environment: Mapping[str, str]) -> Iterable[str]:
    """Lines that give a job the variables of this process, where the site does not pass them on; no secrets."""
    for name, value in sorted(environment.items()):
        if name.startswith(SHARED_VARIABLES) and not name.endswith("TOKEN"):
            yield f"export {name}={shlex.quote(value)}"
