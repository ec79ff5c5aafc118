"""Runs as jobs of SLURM, in arrays that submitit submits; submitted once, and followed by any later
command.
"""

from __future__ import annotations

import io
import logging
import os
import shlex
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import redirect_stderr
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import UserError, first_line
from harness.events import Listener
from harness.files import DamagedError, note_in, read_within, remove, write_note
from harness.locks import locked
from harness.processors import SAFE_PATH
from harness.runs.execution import (
    DeviceChoice,
    Execution,
    Jobs,
    Seat,
    Software,
    shared_variables,
)
from harness.store import Store
from harness.store.folder import Submission, forget_submission, read_submission, write_submission
from harness.work.base import Death, Executor, StartedJob
from harness.work.failures import SMALLER
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.jobs import Preparation
from harness.work.queue import Queue
from harness.work.report import REPORT, Report
from harness.work.slurm.commands import (
    NOT_ITS_FAULT,
    OPTIONS,
    SlurmState,
    cancel,
    read_largest_array,
    read_last_state,
    read_slurm_options,
    read_states,
)

try:
    import submitit
    from submitit.core.utils import FailedSubmissionError, JobPaths, UncompletedJobError

    from harness.work.slurm.task import SlurmTask
except ImportError as error:
    raise UserError(
        f"--executor slurm: {error}; install it with `pip install 'sentence-harness[slurm]'`"
    ) from error

log = logging.getLogger(__name__)

#: Seconds between two queries to SLURM, which all users share, and between two reads of the files
#: of running jobs.
ASK_S = 10.0
LOOK_S = 1.0
#: Seconds after which an array that was noted, and is not in SLURM, counts as never submitted.
SUBMITS_S = 10.0
#: Number of SLURM's answers that a job has ended before it counts as dead without a result: its
#: files may come late.
ABSENT = 2
#: The name of this batch system in notes on submitted jobs.
SYSTEM = "SLURM"
#: Times that a job may be queued again at its time limit.
TIMEOUTS = 100


#: in the folder of an array of jobs until each of them has a note of its own
_ARRAY_FILE = "array.json"


class SubmittedArray(BaseModel):
    """An array of jobs that is being submitted: its name in SLURM, id and key of each job, and the
    ids in SLURM of those that it waits for.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    jobs: tuple[tuple[str, str], ...]
    after: tuple[str, ...] = ()


def _read_array(path: Path, store: Store) -> SubmittedArray | None:
    """The note on an array; None where it is gone or damaged."""
    try:
        return SubmittedArray.model_validate(note_in(read_within(store.root, path)))
    except (OSError, DamagedError, ValidationError):
        return None


class Slurm(Executor):
    """Submits each job to SLURM once, and leaves it there; a command that finds nothing to submit
    follows the jobs.

    With `wait`, jobs belong to the command as with other executors: it follows them, and if it is
    stopped, they stop too. All processes share the results folder.
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

    def __init__(self, options: Execution) -> None:
        super().__init__(options)
        self.waits = self.switch("wait", "no")
        keys = {name: text for name, text in self.asked.items() if name in OPTIONS}
        table = read_slurm_options(self.asked.get("table"), keys)
        if self.jobs != "auto":
            table = table.model_copy(update={"width": self.jobs})
        if options.device == "cpu":
            table = table.model_copy(update={"gpus": "0"})
        if options.device == "cuda" and table.gpus == "0":
            raise UserError("--device cuda: the jobs have gpus = 0; change one of the two")
        self.table = table
        self.store: Store
        #: the notes on all known jobs in SLURM, by the ids of the jobs
        self.submissions: dict[str, Submission] = {}
        #: the last answer of SLURM on each job, by its id there, and in how many it had ended
        #: without a report
        self._states: dict[str, SlurmState] = {}
        self._absent = Counter[Job]()
        self._asked = float("-inf")

    def check(self, job: Job) -> None:
        """Refuse a job that cannot run on a CPU if no GPU is used; GPUs of nodes cannot be checked
        here.
        """
        if self.table.gpus == "0":
            job.check("cpu")

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Submit the jobs that are not in SLURM. Wait for all if asked to, or if there were none to
        submit.

        Returns no ends if it does not wait. Raises UserError if SLURM refuses.
        """
        self.admit(jobs)
        if not jobs:
            return []
        queue = self.queue = Queue(jobs, listen)
        self.store = Store(jobs[0].store.root.resolve())
        lock_file = self.store.root / ".locks" / "slurm.lock"
        with locked(lock_file, "submission to SLURM", within=self.store.root):
            submitted = self._submit_new(jobs)
        if self.waits:
            return self.work_until_stopped(queue, listen)
        if not submitted:
            log.warning(
                "all runs are already submitted to SLURM; following them here (Ctrl-C stops only this command)"
            )
            self.work(queue, listen)
        return queue.ends

    def _submit_new(self, jobs: Sequence[Job]) -> bool:
        """Submit the jobs that are neither in SLURM nor in progress elsewhere; return whether there
        were any.
        """
        there = read_states()
        self._complete_notes(there)
        for job in jobs:
            if (note := read_submission(self.store, job.id)) is None:
                continue
            if note.id in there and not there[note.id].ended:
                self.submissions[job.id] = note
            else:
                forget_submission(self.store, job.id, note.id)
        new = [job for job in jobs if job.id not in self.submissions]
        wanted = [job for job in new if not isinstance(job, Preparation) and _is_to_do(job)]
        if wanted:
            self._submit(_add_needs(wanted, new))
        return bool(wanted)

    def _complete_notes(self, there: Mapping[str, SlurmState]) -> None:
        """Write the notes on arrays whose command was killed between `sbatch` and these notes."""
        for path in sorted((self.store.root / ".slurm").glob(f"*/{_ARRAY_FILE}")):
            array = _read_array(path, self.store)
            if array is None:
                continue
            number = _find_array_number(array.name, there)
            # an `sbatch` may outlive its command
            until = path.stat().st_mtime + SUBMITS_S
            while not number and time.time() < until:
                time.sleep(LOOK_S)
                number = _find_array_number(array.name, read_states())
            if number:
                self._write_notes(array, path.parent, number)
            remove(path, self.store.root)

    def _write_notes(
        self, array: SubmittedArray, folder: Path, number: str
    ) -> dict[str, Submission]:
        """Write the notes on the jobs of an array, whose id in SLURM is a number; return them."""
        notes = {}
        for index, (job, key) in enumerate(array.jobs):
            own_number = number if len(array.jobs) == 1 else f"{number}_{index}"
            log = JobPaths(folder, own_number).stdout
            notes[job] = Submission(
                system=SYSTEM, id=own_number, key=key, log=log, after=array.after
            )
            write_submission(self.store, job, notes[job])
        return notes

    def start(self) -> None:
        """Follow a job where SLURM has it, else look for its end elsewhere, or submit it."""
        while (job := self.queue.take()) is not None:
            if job.id in self.submissions:
                self._follow(job)
            elif (end := self._find_end(job)) is not None:
                self.queue.end(job, end)
            else:
                try:
                    self._submit([job])
                except UserError as error:
                    self.queue.end(job, job.fail(error))
                else:
                    self._follow(job)

    def _follow(self, job: Job) -> None:
        note = self.submissions[job.id]
        self._states[note.id] = SlurmState("PENDING")
        self._absent.pop(job, None)
        self.out[job] = StartedJob(job, Report.of(job, note.id), note)

    def _find_end(self, job: Job) -> End | Again | None:
        """The end of a job that is not in SLURM; None if it has not ended."""
        if (
            isinstance(job, Preparation) and job not in self.deaths
        ):  # made earlier: no run needs it in SLURM
            return Prepared(job.id)
        if isinstance(job, RunJob) and (result := job.find_result()):
            return result
        with job.store.lock(job.id) as free:
            return None if free else Again.HELD

    def wait(self) -> None:
        time.sleep(LOOK_S)
        if time.monotonic() - self._asked >= ASK_S:
            self._update_states()

    def _update_states(self) -> None:
        """Ask SLURM for the states of all jobs; if it does not answer, the known states stay."""
        self._asked = time.monotonic()
        try:
            there = read_states()
        except UserError as error:
            log.warning("%s; still waiting", error)
            return
        for job, started in self.out.items():
            self._states[started.handle.id] = there.get(started.handle.id, SlurmState("UNKNOWN"))
            self._absent[job] += self._states[started.handle.id].ended

    def death(self, started: StartedJob) -> Death | None:
        """Why a job ended without a result; None while its files may not be visible here yet."""
        if self._absent[started.job] < ABSENT:
            return None
        note: Submission = started.handle
        state = read_last_state(note.id) or self._states[note.id].state
        why = f"the SLURM job {note.id} ended without a result ({state or 'unknown state'}); log: {note.log}"
        if state == "OUT_OF_MEMORY":
            why += f"; --executor-option memory=SIZE asks for more, or {SMALLER}"
        return Death(why, again=state in NOT_ITS_FAULT or self.queue.stopping)

    def stop(self) -> None:
        """Cancel the jobs that wait; ask running ones to save and end."""
        self._update_states()
        working = {
            job.id for job, started in self.out.items() if not self._states[started.handle.id].waits
        }
        cancel((self.submissions[name].id for name in working), signal="INT")
        self._take_back(self.submissions.keys() - working)
        for started in list(self.out.values()):
            if started.job.id not in working:
                self.close(started, Again.STOPPED)

    def cancel(self) -> None:
        if self.waits:  # they end with this command
            self._take_back(set(self.submissions))

    def close(self, started: StartedJob, end: End | Again) -> None:
        """If a job is put back, cancel those that need it, for resubmission: they would start
        without its output.
        """
        super().close(started, end)
        if isinstance(end, Again):
            lost = {started.job.id}
            for job in self.queue.waiting:
                if job.needs & lost:
                    lost.add(job.id)
            self._take_back(lost & self.submissions.keys())

    def release(self, started: StartedJob) -> None:
        self.submissions.pop(started.job.id, None)
        started.report.keep_end()  # for jobs that need this one
        forget_submission(self.store, started.job.id, started.handle.id)

    def _take_back(self, names: Set[str]) -> None:
        cancel(self.submissions[name].id for name in names)
        for name in names:
            forget_submission(self.store, name, self.submissions.pop(name).id)

    def _submit(self, jobs: Sequence[Job]) -> None:
        """Submit jobs, listed after those that they need, and note where each is.

        Raises UserError where sbatch refuses an array; those before it stay submitted.
        """
        known = {job: note.id for job, note in self.submissions.items()}
        array_id = ""
        for on_gpu, array in self._group_into_arrays(jobs):
            after = {known[need] for job in array for need in job.needs if need in known}
            if (
                self.table.width and array_id
            ):  # one array after the other, so that the limit holds for all together
                after.add(array_id)
            notes = self._submit_array(array, sorted(after), on_gpu=on_gpu)
            self.submissions |= notes
            array_id = next(iter(notes.values())).id.partition("_")[0]
            known |= dict.fromkeys(notes, array_id)

    def _group_into_arrays(self, jobs: Sequence[Job]) -> Iterator[tuple[bool, list[Job]]]:
        """Arrays of jobs of the same stage (a dependency is on a whole array) and with the same use
        of a GPU.
        """
        stages: dict[str, int] = {}
        arrays: dict[tuple[int, bool], list[Job]] = {}
        for job in jobs:
            stages[job.id] = 1 + max((stages.get(need, 0) for need in job.needs), default=0)
            on_gpu = (
                self.table.gpus[-1] != "0" and self.queue.estimate_resources(job).gpu_memory_mb > 0
            )
            arrays.setdefault((stages[job.id], on_gpu), []).append(job)
        most = read_largest_array()
        for (_, on_gpu), members in sorted(arrays.items(), key=lambda item: item[0]):
            for start in range(0, len(members), most):
                yield on_gpu, members[start : start + most]

    def _submit_array(
        self, jobs: Sequence[Job], after: Sequence[str], *, on_gpu: bool
    ) -> dict[str, Submission]:
        seat = Seat("cuda" if on_gpu else "cpu", self.table.cpus)
        software = Software.here()
        tasks = [
            SlurmTask(replace(job, store=self.store), seat, software, self._list_needs(job))
            for job in jobs
        ]
        mark = uuid.uuid4().hex[:8]
        folder = self.store.root / ".slurm" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{mark}"
        array = SubmittedArray(
            name=f"harness-{mark}",
            jobs=tuple((job.id, job.key) for job in jobs),
            after=tuple(after),
        )
        # noted first: after a kill the jobs are found in SLURM by the name of the array
        write_note(folder / _ARRAY_FILE, array.model_dump(mode="json"), self.store.root)
        try:
            with redirect_stderr(io.StringIO()):
                executor = submitit.SlurmExecutor(folder, max_num_timeout=TIMEOUTS)
                parameters = self._make_parameters(array, jobs, on_gpu=on_gpu)
                executor.update_parameters(**parameters)
                sent = executor.submit_array(tasks)
        except (UncompletedJobError, FailedSubmissionError, RuntimeError, OSError) as error:
            remove(folder / _ARRAY_FILE, self.store.root)
            why = first_line(error).removeprefix("sbatch: error: ")
            raise UserError(
                f"SLURM refused {len(tasks)} of the jobs: {why}; correct the options and run the command again"
            ) from error
        notes = self._write_notes(array, folder, sent[0].job_id.partition("_")[0])
        remove(folder / _ARRAY_FILE, self.store.root)
        return notes

    def _list_needs(self, job: Job) -> list[tuple[str, Report]]:
        """The keys and reports of the jobs in SLURM that a job needs; others ended well before."""
        submitted = (
            (need, self.submissions[need]) for need in sorted(job.needs) if need in self.submissions
        )
        return [
            (note.key, Report(self.store.work(need) / f"{note.id}{REPORT}"))
            for need, note in submitted
        ]

    def _make_parameters(
        self, array: SubmittedArray, jobs: Sequence[Job], *, on_gpu: bool
    ) -> dict[str, object]:
        """The parameters of an array for submitit; None is left to the site."""
        table = self.table
        further = {"requeue": True, **table.sbatch}
        memory = (
            table.memory or f"{max(self.queue.estimate_resources(job).memory_mb for job in jobs)}M"
        )
        return {
            "job_name": array.name,
            "partition": table.partition,
            "account": table.account,
            "qos": table.qos,
            "constraint": table.constraint,
            "time": table.time,
            "signal_delay_s": table.notice,
            "gres": f"gpu:{table.gpus}" if on_gpu else None,
            "cpus_per_task": table.cpus,
            "srun_args": [
                f"--cpus-per-task={table.cpus}"
            ],  # srun has not inherited it since SLURM 22.05
            "mem": memory,
            "array_parallelism": table.width or len(jobs),
            "dependency": f"afterany:{':'.join(array.after)}" if array.after else None,
            "setup": [*_list_exports(os.environ), *table.setup],
            "stderr_to_stdout": True,
            "additional_parameters": {
                name: value for name, value in further.items() if value is not False
            },
        }


def _find_array_number(name: str, there: Mapping[str, SlurmState]) -> str:
    """The id in SLURM of the array, or the single job, of a name; empty where there is none."""
    for number, state in there.items():
        if state.name == name:
            return number.partition("_")[0]
    return ""


def _add_needs(chosen: Sequence[Job], among: Sequence[Job]) -> list[Job]:
    """The chosen jobs and all jobs that they need, directly or not, in the order of `among`."""
    wanted = {job.id for job in chosen}
    for job in reversed(among):
        if job.id in wanted:
            wanted |= job.needs
    return [job for job in among if job.id in wanted]


def _is_to_do(job: Job) -> bool:
    """Whether a job is still unfinished, and no process is executing it."""
    if isinstance(job, RunJob) and job.find_result():
        return False
    with job.store.lock(job.id) as free:
        return free


def _list_exports(environment: Mapping[str, str]) -> Iterable[str]:
    """Lines that give a job the variables of this process, where the site does not pass them on; no
    secrets.
    """
    yield f"export {SAFE_PATH}=1"
    for name, value in shared_variables(environment).items():
        yield f"export {name}={shlex.quote(value)}"
