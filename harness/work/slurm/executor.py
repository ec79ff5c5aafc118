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
from harness.files import DamagedError, parse_note, read_within, remove, write_note
from harness.locks import hold_lock
from harness.processors import SAFE_PATH
from harness.runs.execution import (
    DeviceChoice,
    Execution,
    Jobs,
    Seat,
    Software,
    list_shared_variables,
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
        return SubmittedArray.model_validate(parse_note(read_within(store.root, path)))
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
        with hold_lock(lock_file, "submission to SLURM", within=self.store.root):
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
        states = read_states()
        self._complete_notes(states)
        for job in jobs:
            note = read_submission(self.store, job.id)
            if note is None:
                continue
            if note.id in states and not states[note.id].ended:
                self.submissions[job.id] = note
            else:
                forget_submission(self.store, job.id, note.id)

        new_jobs = [job for job in jobs if job.id not in self.submissions]
        runs = [job for job in new_jobs if not isinstance(job, Preparation) and _is_to_do(job)]
        if not runs:
            return False

        self._submit(_add_needs(runs, new_jobs))
        return True

    def _complete_notes(self, states: Mapping[str, SlurmState]) -> None:
        """Write the notes on arrays whose command was killed between `sbatch` and these notes."""
        for path in sorted((self.store.root / ".slurm").glob(f"*/{_ARRAY_FILE}")):
            array = _read_array(path, self.store)
            if array is None:
                continue

            number = _find_array_number(array.name, states)
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
            log_path = JobPaths(folder, own_number).stdout
            note = Submission(
                system=SYSTEM, id=own_number, key=key, log=log_path, after=array.after
            )
            write_submission(self.store, job, note)
            notes[job] = note

        return notes

    def start(self) -> None:
        """Follow a job where SLURM has it, else look for its end elsewhere, or submit it."""
        while (job := self.queue.take()) is not None:
            if job.id in self.submissions:
                self._follow(job)
                continue
            end = self._find_end(job)
            if end is not None:
                self.queue.end(job, end)
                continue
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
        """The end of a job that is not in SLURM; None if it has to be submitted, and Again.HELD while
        another process works on it.
        """
        # a run in need of it would have brought it to SLURM: it was made earlier
        if isinstance(job, Preparation) and job not in self.deaths:
            return Prepared(job.id)

        if isinstance(job, RunJob):
            result = job.find_result()
            if result is not None:
                return result

        with job.store.lock(job.id) as acquired:
            return None if acquired else Again.HELD

    def wait(self) -> None:
        time.sleep(LOOK_S)
        if time.monotonic() - self._asked >= ASK_S:
            self._update_states()

    def _update_states(self) -> None:
        """Ask SLURM for the states of all jobs; if it does not answer, the known states stay."""
        self._asked = time.monotonic()
        try:
            states = read_states()
        except UserError as error:
            log.warning("%s; still waiting", error)
            return

        for job, started in self.out.items():
            state = states.get(started.handle.id, SlurmState("UNKNOWN"))
            self._states[started.handle.id] = state
            if state.ended:
                self._absent[job] += 1

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
        working = set()
        for job, started in self.out.items():
            if not self._states[started.handle.id].waits:
                working.add(job.id)
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
        ids_in_slurm = {job: note.id for job, note in self.submissions.items()}
        array_id = ""
        for on_gpu, array in self._group_into_arrays(jobs):
            after = set[str]()
            for job in array:
                after.update(ids_in_slurm[need] for need in job.needs if need in ids_in_slurm)
            # one array after the other, so that the limit holds for all together
            if self.table.width and array_id:
                after.add(array_id)

            notes = self._submit_array(array, sorted(after), on_gpu=on_gpu)
            self.submissions |= notes
            array_id = next(iter(notes.values())).id.partition("_")[0]
            ids_in_slurm |= dict.fromkeys(notes, array_id)

    def _group_into_arrays(self, jobs: Sequence[Job]) -> Iterator[tuple[bool, list[Job]]]:
        """Arrays of jobs of the same stage (a dependency is on a whole array) and with the same use
        of a GPU.
        """
        has_gpus = self.table.gpus[-1] != "0"
        stages: dict[str, int] = {}
        arrays: dict[tuple[int, bool], list[Job]] = {}
        for job in jobs:
            stage = 1 + max((stages.get(need, 0) for need in job.needs), default=0)
            stages[job.id] = stage
            on_gpu = has_gpus and self.queue.estimate_resources(job).gpu_memory_mb > 0
            arrays.setdefault((stage, on_gpu), []).append(job)

        largest = read_largest_array()
        for stage, on_gpu in sorted(arrays):
            members = arrays[stage, on_gpu]
            for start in range(0, len(members), largest):
                yield on_gpu, members[start : start + largest]

    def _submit_array(
        self, jobs: Sequence[Job], after: Sequence[str], *, on_gpu: bool
    ) -> dict[str, Submission]:
        seat = Seat("cuda" if on_gpu else "cpu", self.table.cpus)
        software = Software.here()
        tasks = []
        for job in jobs:
            own_job = replace(job, store=self.store)
            tasks.append(SlurmTask(own_job, seat, software, self._list_needs(job)))

        mark = uuid.uuid4().hex[:8]
        folder = self.store.root / ".slurm" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{mark}"
        names = tuple((job.id, job.key) for job in jobs)
        array = SubmittedArray(name=f"harness-{mark}", jobs=names, after=tuple(after))
        note_path = folder / _ARRAY_FILE
        # noted first: after a kill the jobs are found in SLURM by the name of the array
        write_note(note_path, array.model_dump(mode="json"), self.store.root)
        try:
            with redirect_stderr(io.StringIO()):
                executor = submitit.SlurmExecutor(folder, max_num_timeout=TIMEOUTS)
                parameters = self._make_parameters(array, jobs, on_gpu=on_gpu)
                executor.update_parameters(**parameters)
                submitted = executor.submit_array(tasks)
        except (UncompletedJobError, FailedSubmissionError, RuntimeError, OSError) as error:
            remove(note_path, self.store.root)
            reason = first_line(error).removeprefix("sbatch: error: ")
            raise UserError(
                f"SLURM refused {len(tasks)} of the jobs: {reason}; correct the options and run the command again"
            ) from error

        notes = self._write_notes(array, folder, submitted[0].job_id.partition("_")[0])
        remove(note_path, self.store.root)
        return notes

    def _list_needs(self, job: Job) -> list[tuple[str, Report]]:
        """The keys and reports of the jobs in SLURM that a job needs; others ended well before."""
        needs = []
        for need in sorted(job.needs):
            note = self.submissions.get(need)
            if note is not None:
                report = Report(self.store.work(need) / f"{note.id}{REPORT}")
                needs.append((note.key, report))
        return needs

    def _make_parameters(
        self, array: SubmittedArray, jobs: Sequence[Job], *, on_gpu: bool
    ) -> dict[str, object]:
        """The parameters of an array for submitit; None is left to the site."""
        table = self.table
        memory = table.memory
        if memory is None:
            largest_mb = max(self.queue.estimate_resources(job).memory_mb for job in jobs)
            memory = f"{largest_mb}M"
        options = {"requeue": True, **table.sbatch}
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
            # srun has not inherited it since SLURM 22.05
            "srun_args": [f"--cpus-per-task={table.cpus}"],
            "mem": memory,
            "array_parallelism": table.width or len(jobs),
            "dependency": f"afterany:{':'.join(array.after)}" if array.after else None,
            "setup": [*_list_exports(os.environ), *table.setup],
            "stderr_to_stdout": True,
            "additional_parameters": {
                name: value for name, value in options.items() if value is not False
            },
        }


def _find_array_number(name: str, states: Mapping[str, SlurmState]) -> str:
    """The id in SLURM of the array, or the single job, of a name; empty where there is none."""
    for number, state in states.items():
        if state.name == name:
            return number.partition("_")[0]
    return ""


def _add_needs(jobs: Sequence[Job], all_jobs: Sequence[Job]) -> list[Job]:
    """Jobs and all jobs that they need, directly or not, in the order of `all_jobs`."""
    ids = {job.id for job in jobs}
    for job in reversed(all_jobs):
        if job.id in ids:
            ids |= job.needs
    return [job for job in all_jobs if job.id in ids]


def _is_to_do(job: Job) -> bool:
    """Whether a job is still unfinished, and no process is executing it."""
    if isinstance(job, RunJob) and job.find_result():
        return False
    with job.store.lock(job.id) as acquired:
        return acquired


def _list_exports(environment: Mapping[str, str]) -> Iterable[str]:
    """Lines that give a job the variables of this process, where the site does not pass them on; no
    secrets.
    """
    yield f"export {SAFE_PATH}=1"
    for name, value in list_shared_variables(environment).items():
        yield f"export {name}={shlex.quote(value)}"
