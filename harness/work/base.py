"""Executors: their interface, the loop that starts, follows and stops jobs in other processes; the
states of runs.
"""

from __future__ import annotations

import logging
import math
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, ClassVar, Final, TypeVar, get_args

from harness.caches import check_cache
from harness.command_line import harness_command
from harness.commands import note_places
from harness.errors import UserError
from harness.events import Listener, forward_to_both
from harness.files import remove
from harness.locks import try_lock
from harness.planning.plan import Plan, PlannedRun, RunState
from harness.registry import get_class, suggest
from harness.runs.execution import DeviceChoice, Execution, Jobs, Seat
from harness.stopping import Interrupted, request_stop, stop_on_signals, withdraw_stop
from harness.store import Failure, Result, Store
from harness.store.folder import (
    Submission,
    is_in_progress,
    read_submissions,
    refuse_linked,
    supersede,
)
from harness.work.failures import GRACE_S, TimeLimitError, parse_time_limit
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.jobs import list_jobs
from harness.work.queue import RETRY_S, Queue
from harness.work.report import Report
from harness.work.slurm.commands import SlurmState, read_states

log = logging.getLogger(__name__)
T = TypeVar("T")

#: The executor used if none is named.
DEFAULT: Final = "local"
#: Number of processes that die executing a job before it counts as failed: the job may be the
#: cause.
DEATHS = 3


@dataclass(eq=False)
class StartedJob:
    """A job given to a process: the executor's `handle` of it, and when it `started`, by the clock
    of this process.
    """

    job: Job
    report: Report
    handle: Any
    started: float = math.inf


@dataclass(frozen=True)
class Death:
    """Why a process is gone without reporting an end; `again`: another process may execute the job."""

    why: str
    again: bool = False


class Executor:
    """Distributes jobs over processes or machines. Registered as an entry point of
    `harness.executors`.

    `settings` names the options that only this executor has, each with a line about it. An executor
    either takes jobs from the queue and performs them itself (`work`), or gives them to other
    processes: it implements `start`, `death`, `stop` and `cancel`, and where needed the methods
    after them. All else is the same for a process of this machine, a task of Ray and a job of
    SLURM.
    """

    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: Execution) -> None:
        """Raises UserError for a setting that this executor does not have."""
        self.options = options
        self.asked: Mapping[str, str] = options.executor_options or {}
        self.queue = Queue(())
        self.listen: Listener = lambda event: None
        #: jobs that were given to processes, and how many processes died with each
        self.out: dict[Job, StartedJob] = {}
        self.deaths = Counter[Job]()
        for name in self.asked:
            if name not in self.settings:
                own = suggest(name, sorted(self.settings))
                raise UserError(
                    f"the executor {type(self).__name__.lower()} has no option '{name}'; {own}"
                )

    def setting(self, name: str, default: str, convert: Callable[[str], T], what: str) -> T:
        """The value of a setting. Raises UserError if `convert` fails: the value must be `what`."""
        text = self.asked.get(name, default)
        try:
            return convert(text)
        except (ValueError, KeyError) as error:
            raise UserError(f"--executor-option {name}={text}: it must be {what}") from error

    def switch(self, name: str, default: str) -> bool:
        """A setting that is yes or no."""
        return self.setting(name, default, {"yes": True, "no": False}.__getitem__, "yes or no")

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """The number of runs at a time if none is given."""
        return 1

    @classmethod
    def prepare(cls) -> None:
        """Begin what the first jobs would wait for, and return at once; called before the encoders
        of a plan are tried.
        """

    @property
    def jobs(self) -> Jobs:
        """The number of jobs at a time."""
        return self.options.jobs or 1

    @property
    def share(self) -> Seat:
        """An equal share of this machine for each job that runs at the same time."""
        return Seat.equal(self.options.device, 1 if self.jobs == "auto" else self.jobs)

    def check(self, job: Job) -> None:
        """Refuse a job that cannot run on this machine; to be overridden by executors that run jobs
        elsewhere.
        """
        job.check(self.options.device)

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Carry out all jobs; return the end of each, in the order in which they ended.

        Raises UserError before anything runs if `check` refuses a job. After the first signal to
        stop, no more jobs start, and running ones save and stop; then Interrupted is raised.
        """
        self.admit(jobs)
        return self.work_until_stopped(Queue(jobs, listen), listen)

    def admit(self, jobs: Sequence[Job]) -> None:
        """Check all jobs, then move away what runs to train again have. Raises UserError, before
        anything is moved.

        A link in a work folder is refused: the libraries that read and write models follow links.
        """
        for job in jobs:
            self.check(job)
            refuse_linked(job.store, job.store.work(job.id))
        again = [job for job in jobs if isinstance(job, RunJob) and job.run.redo]
        if again:
            runs = [(job.inventory.profile.name, job.spec, job.id) for job in again]
            supersede(again[0].store, runs)

    def work_until_stopped(self, queue: Queue, listen: Listener) -> list[End]:
        """Work until all jobs have ended or this process is asked to stop; return their ends.
        Raises Interrupted.
        """
        signals: list[int] = []

        def stop(number: int) -> None:
            signals.append(number)
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            log.warning(
                "%s: stopping after the current runs have saved; repeat to stop immediately", name
            )
            queue.stop()
            request_stop()

        try:
            with stop_on_signals(stop):
                self.work(queue, forward_to_both(queue.observe_memory, listen))
        finally:
            withdraw_stop()

        if signals:
            raise Interrupted(signals[0])
        return queue.ends

    def work(self, queue: Queue, listen: Listener) -> None:
        """Take jobs from the queue until it is empty and report the end of each to it; `listen`
        gets their events.

        Once `queue.stopping` is set, jobs in other processes are asked to stop
        (`harness.stopping`).
        """
        self.queue = queue
        self.listen = listen
        start_at = 0.0
        asked_to_stop = False
        try:
            while queue:
                if monotonic() >= start_at:
                    self.start()
                    start_at = monotonic() + RETRY_S
                if queue.stopping and not asked_to_stop:
                    asked_to_stop = True
                    self.stop()
                if queue:
                    self.wait()
                if self.look():
                    start_at = 0.0
        finally:
            self.cancel()

    def start(self) -> None:
        """Take all jobs that can start from the queue, and give each to a process."""
        raise NotImplementedError

    def death(self, started: StartedJob) -> Death | None:
        """Why a process is gone; None while it may report more."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask all processes to save and end."""
        raise NotImplementedError

    def cancel(self) -> None:
        """End all processes at once."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for a part of a second, or until something happens."""
        time.sleep(RETRY_S)

    def kill(self, started: StartedJob) -> None:
        """End a process that does not react to its time limit."""

    def release(self, started: StartedJob) -> None:
        """Free the resources of a process that has ended or is about to."""
        started.report.remove()

    def look(self) -> bool:
        """Pass on what processes have reported; return whether one has ended."""
        count = len(self.out)
        for started in list(self.out.values()):
            # first: once a process is gone, its whole report is written
            death = self.death(started)
            end = started.report.read(self.listen)
            if isinstance(end, str):
                self.close(started, started.job.fail(end))
            elif end is not None:
                self.close(started, end)
            elif death is not None:
                self._handle_death(started, death)
            else:
                self._enforce_limit(started)

        return len(self.out) < count

    def _enforce_limit(self, started: StartedJob) -> None:
        """End a process that did not stop by itself at its time limit, nor when it was interrupted."""
        limit_s = started.job.limit_s
        if limit_s is None or monotonic() <= started.started + limit_s + 2 * GRACE_S:
            return
        self.kill(started)
        self.close(started, started.job.fail(TimeLimitError(limit_s)))

    def _handle_death(self, started: StartedJob, death: Death) -> None:
        """Give the job of a dead process to another one if that may help, else let it fail."""
        job = started.job
        self.deaths[job] += 1
        result = job.find_result() if isinstance(job, RunJob) else None
        if result is not None:
            self.close(started, result)
        elif not death.again:
            self.close(started, job.fail(death.why))
        elif self.queue.stopping:
            self.close(started, Again.STOPPED)
        elif self.deaths[job] < DEATHS:
            log.warning(
                "%s: its process died (%s); another one resumes from the last checkpoint",
                job.key,
                death.why,
            )
            self.close(started, Again.LOST)
        else:
            why = f"{self.deaths[job]} processes died while running it; the last one: {death.why}"
            self.close(started, job.fail(why))

    def close(self, started: StartedJob, end: End | Again) -> None:
        """Report the end of a job, or put it back into the queue."""
        del self.out[started.job]
        self.release(started)
        self.queue.end(started.job, end)


def execute(plan: Plan, listen: Listener, how: Execution | None = None) -> list[Result | Failure]:
    """Carry out the unfinished runs of a plan; return their ends in the order they came.

    An executor that submits runs without waiting returns no ends. A failed run is recorded and the
    others go on. Raises UserError for a results folder that cannot be written, and for a device, a
    precision, an executor or a setting that does not exist here.
    """
    how = how or Execution()
    limit_s = None if how.run_timeout is None else parse_time_limit(how.run_timeout)
    check_cache()
    jobs = list_jobs(plan, how.chunk, limit_s)

    executor_class = get_class("executor", how.executor or DEFAULT, Executor)
    at_a_time = how.jobs or executor_class.default_jobs(how.device)
    if at_a_time != "auto":
        # no more shares of the machine than there are runs
        runs = [job for job in jobs if isinstance(job, RunJob)]
        at_a_time = max(1, min(at_a_time, len(runs)))

    executor = executor_class(replace(how, jobs=at_a_time))

    _check_writable(plan.store)
    note_places(plan.store.root, plan.request.profile.name, plan.request.places)
    ends = executor.execute(jobs, listen)
    return [end for end in ends if not isinstance(end, Prepared)]


def prepare_executor(name: str | None) -> None:
    """Let an executor begin what its jobs would wait for. Raises UserError for an unknown one."""
    get_class("executor", name or DEFAULT, Executor).prepare()


def check_executor(how: Execution) -> None:
    """Raise UserError for an unknown executor, or settings that the executor does not have."""
    get_class("executor", how.executor or DEFAULT, Executor)(how)


def _check_writable(store: Store) -> None:
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        probe = store.root / ".writable"
        with try_lock(probe, store.root):
            remove(probe, store.root)
        # in /proc, a lock that cannot be made looks like one in use
        tempfile.TemporaryFile(dir=store.root).close()
    except OSError as error:
        raise UserError(
            f"--results {store.root} cannot be written: {error.strerror}; give another folder"
        ) from error


def run_states(plan: Plan) -> list[tuple[RunState, str, str]]:
    """State, key, and reason or location of each run of a plan, in the order of the states."""
    submitted = find_submitted_states(plan.store)
    states = []
    for run in plan.runs:
        folder = plan.store.work(run.fingerprint)
        states.append(_find_state(plan, run, submitted.get(folder.name)))
    order = get_args(RunState)
    return sorted(states, key=lambda state: order.index(state[0]))


def _find_state(
    plan: Plan, run: PlannedRun, submitted: tuple[RunState, str] | None
) -> tuple[RunState, str, str]:
    if run.state == "done":
        return run.state, run.key, ""
    if submitted is not None:
        state, place = submitted
        return state, run.key, place
    if is_in_progress(plan.store, run.fingerprint):
        follow = harness_command("logs", run.key, "--follow", results=plan.store.root)
        return "running", run.key, f"in another process; `{follow}` shows its log"
    return run.state, run.key, run.why


def find_submitted_jobs(plan: Plan, results: Iterable[Result]) -> list[Submission]:
    """The batch system's jobs for those runs of a plan that are not in `results`."""
    notes = read_submissions(plan.store)
    ended = {result.fingerprint for result in results}
    jobs = []
    for run in plan.todo:
        name = plan.store.work(run.fingerprint).name
        if run.fingerprint not in ended and name in notes:
            jobs.append(notes[name])
    return jobs


def find_submitted_states(store: Store) -> dict[str, tuple[RunState, str]]:
    """The states of submitted runs and where they are, in words, by the first 32 digits of their
    fingerprints.
    """
    notes = read_submissions(store)
    states: dict[str, tuple[RunState, str]] = {}
    if not notes:
        return states

    try:
        slurm_states = read_states()
    except UserError as error:
        for name, note in notes.items():
            states[name] = ("queued", f"{note.system} {note.id}; {error}")
        return states

    for name, note in notes.items():
        states[name] = _describe_place(note, notes.values(), slurm_states)
    return states


def _find_blocker(
    note: Submission, notes: Collection[Submission], states: Mapping[str, SlurmState]
) -> Submission | None:
    """The first job that a job waits for, directly or through others, and that itself waits for
    none; None where it waits for none.
    """
    for needed in notes:
        # a job may wait for the array of another one as a whole
        array = needed.id.partition("_")[0]
        if needed.id not in note.after and array not in note.after:
            continue
        if needed.id in states and not states[needed.id].ended:
            return _find_blocker(needed, notes, states) or needed

    return None


def _describe_place(
    note: Submission, notes: Collection[Submission], states: Mapping[str, SlurmState]
) -> tuple[RunState, str]:
    place = f"{note.system} {note.id}"
    state = states.get(note.id, SlurmState("UNKNOWN"))
    if state.ended:
        return "failed", f"{place} ended without a result ({state.state}); log: {note.log}"
    if not state.waits:
        return "running", f"{place}, {state.state.lower()} on {state.node} for {state.elapsed}"

    reason = state.reason or "no reason given"
    blocker = _find_blocker(note, notes, states)
    if blocker is not None:
        _, blocker_place = _describe_place(blocker, (), states)
        reason = f"{reason}: it needs {blocker.key}, {blocker_place}"
    return "queued", f"{place}, {state.state.lower()} ({reason})"
