"""The interface of executors, the execution of a plan, and the states of its runs."""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from harness.caches import check_cache
from harness.command_line import harness_command
from harness.commands import note_typed
from harness.errors import UserError
from harness.locks import try_lock
from harness.planning.events import Listener, both
from harness.planning.plan import Plan, PlannedRun
from harness.planning.states import STATES, RunState
from harness.registry import get_class, suggest
from harness.runs.environment import Allocation, DeviceChoice, Jobs
from harness.stopping import Interrupted, request_stop, stop_on_signals, withdraw_stop
from harness.store import Failure, Result, Store
from harness.store.folder import Submission, begin_redo, in_progress, submissions
from harness.work.job import End, Job, Prepared, RunJob
from harness.work.jobs import jobs_of
from harness.work.queue import Queue
from harness.work.slurm.commands import SlurmState, states

log = logging.getLogger(__name__)
T = TypeVar("T")

#: The executor used if none is named.
DEFAULT = "local"


@dataclass(frozen=True)
class ExecutorOptions:
    """What an executor may use: `jobs` runs at a time, each on `device`. `settings` are specific to the executor."""

    jobs: Jobs = 1
    device: DeviceChoice = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)


class Executor(ABC):
    """Distributes jobs over processes or machines. Registered as an entry point of `harness.executors`.

    `settings` names the options that only this executor has, each with a line about it.
    """

    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: ExecutorOptions) -> None:
        """Raises UserError for a setting that this executor does not have."""
        self.options = options
        for name in options.settings:
            if name not in self.settings:
                own = suggest(name, sorted(self.settings))
                raise UserError(f"the executor {type(self).__name__.lower()} has no option '{name}'; {own}")

    def setting(self, name: str, default: str, convert: Callable[[str], T], what: str) -> T:
        """The value of a setting. Raises UserError if `convert` fails: the value must be `what`."""
        text = self.options.settings.get(name, default)
        try:
            return convert(text)
        except (ValueError, KeyError) as error:
            raise UserError(f"--executor-option {name}={text}: it must be {what}") from error

    def switch(self, name: str, default: str) -> bool:
        """A setting that is yes or no."""
        return self.setting(name, default, {"yes": True, "no": False}.__getitem__, "yes or no")

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Carry out all jobs; return the end of each, in the order in which they ended.

        Raises UserError before anything runs if `check` refuses a job. After the first signal to stop, no more jobs
        start, and running ones save and stop; then Interrupted is raised.
        """
        for job in jobs:
            self.check(job)
        queue, signals = Queue(jobs, listen), list[int]()

        def stop(number: int) -> None:
            signals.append(number)
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            log.warning("%s: stopping after the current runs have saved; repeat to stop immediately", name)
            queue.stop()
            request_stop()

        try:
            with stop_on_signals(stop):
                self.work(queue, both(queue.hear, listen))
        finally:
            withdraw_stop()
        if signals:
            raise Interrupted(signals[0])
        return queue.ends

    def check(self, job: Job) -> None:
        """Refuse a job that cannot run on this machine; to be overridden by executors that run jobs elsewhere."""
        job.check(self.options.device)

    @classmethod
    def default_jobs(cls, device: DeviceChoice) -> Jobs:
        """The number of runs at a time if none is given."""
        return 1

    @property
    def share(self) -> Allocation:
        """An equal share of this machine for each job that runs at the same time."""
        jobs = self.options.jobs
        return Allocation.equal(self.options.device, 1 if jobs == "auto" else jobs)

    @abstractmethod
    def work(self, queue: Queue, listen: Listener) -> None:
        """Take jobs from the queue until it is empty and report the end of each to it.

        Once `queue.stopping` is set, implementations ask jobs in other processes to stop (`harness.stopping`).
        """


def execute(
    plan: Plan,
    listen: Listener,
    *,
    jobs: Jobs | None = None,
    device: DeviceChoice = "auto",
    executor: str | None = None,
    settings: Mapping[str, str] | None = None,
    chunk: int | None = None,
    limit_s: float | None = None,
) -> list[Result | Failure]:
    """Carry out the unfinished runs of a plan, `jobs` at a time; return their ends in the order they came.

    For `jobs`, None is the executor's default. An executor that submits runs without waiting returns no ends.

    `executor` is a registered name, `settings` are its own options. `chunk` rows of a batch are encoded at a time, all
    of them for None. A job that runs longer than `limit_s` seconds in one process fails. A failed run is recorded and
    the others go on. Raises UserError for a results folder that cannot be written, and for a device, a precision, an
    executor or a setting that does not exist here.
    """
    with _left_as_it_was(plan.store.root):
        _check_writable(plan.store)
        note_typed(plan.store.root, plan.request.profile.name, plan.request.typed)
        check_cache()
        _begin_to_redo(plan)
        listed = jobs_of(plan, chunk, limit_s)
        runs = [job for job in listed if isinstance(job, RunJob)]
        kind = get_class("executor", executor or DEFAULT, Executor)
        chosen = kind.default_jobs(device) if jobs is None else jobs
        fitting = chosen if chosen == "auto" else max(1, min(chosen, len(runs)))
        ends = kind(ExecutorOptions(fitting, device, settings or {})).execute(listed, listen)
    return [end for end in ends if not isinstance(end, Prepared)]


@contextmanager
def _left_as_it_was(root: Path) -> Iterator[None]:
    """Remove a results folder created by a command that is then refused."""
    made = not root.exists()
    try:
        yield
    except UserError:
        if made and root.is_dir() and {path.name for path in root.iterdir()} <= {".locks", ".typed"}:
            shutil.rmtree(root)
        raise


def _begin_to_redo(plan: Plan) -> None:
    """Note the runs to train again, by the commands that asked for it, and move their former work away."""
    asked: dict[str, dict[str, str]] = {}
    for run in plan.todo:
        if run.redo:
            asked.setdefault(run.redo, {})[run.fingerprint] = run.key
    for command, runs in asked.items():
        begin_redo(plan.store, runs, command)


def check_executor(name: str | None, settings: Mapping[str, str], jobs: Jobs | None) -> None:
    """Raise UserError for an unknown executor, or settings that the executor does not have."""
    get_class("executor", name or DEFAULT, Executor)(ExecutorOptions(jobs or 1, settings=settings))


def _check_writable(store: Store) -> None:
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        probe = store.root / ".writable"
        with try_lock(probe):
            probe.unlink(missing_ok=True)
        tempfile.TemporaryFile(dir=store.root).close()  # in /proc, a lock that cannot be made looks like one in use
    except OSError as error:
        raise UserError(f"--results {store.root} cannot be written: {error.strerror}; give another folder") from error


def run_states(plan: Plan) -> list[tuple[RunState, str, str]]:
    """State, key, and reason or location of each run of a plan, in the order of the states."""
    submitted = whereabouts(plan.store)
    listed = [_state(plan, run, submitted.get(plan.store.work(run.fingerprint).name)) for run in plan.runs]
    return sorted(listed, key=lambda state: list(STATES).index(state[0]))


def _state(plan: Plan, run: PlannedRun, submitted: tuple[RunState, str] | None) -> tuple[RunState, str, str]:
    if run.state == "done":
        return run.state, run.key, ""
    if submitted:
        state, where = submitted
        return state, run.key, where
    if in_progress(plan.store, run.fingerprint):
        follow = harness_command("logs", run.key, "--follow", results=plan.store.root)
        return "running", run.key, f"in another process; `{follow}` shows its log"
    return run.state, run.key, run.why


def submitted_jobs(plan: Plan, results: Iterable[Result]) -> list[Submission]:
    """The batch system's jobs for those runs of a plan that are not in `results`."""
    notes, ended = submissions(plan.store), {result.fingerprint for result in results}
    names = (plan.store.work(run.fingerprint).name for run in plan.todo if run.fingerprint not in ended)
    return [notes[name] for name in names if name in notes]


def whereabouts(store: Store) -> dict[str, tuple[RunState, str]]:
    """The states of submitted runs and where they are, in words, by the first 32 digits of their fingerprints."""
    notes = submissions(store)
    if not notes:
        return {}
    try:
        there = states()
    except UserError as error:
        return {name: ("queued", f"{note.system} {note.id}; {error}") for name, note in notes.items()}
    return {name: _where(note, there.get(note.id, SlurmState("UNKNOWN"))) for name, note in notes.items()}


def _where(note: Submission, state: SlurmState) -> tuple[RunState, str]:
    where = f"{note.system} {note.id}"
    if state.waits:
        return "queued", f"{where}, {state.state.lower()} ({state.reason or 'no reason given'})"
    if state.ended:
        return "failed", f"{where} ended without a result ({state.state}); log: {note.log}"
    return "running", f"{where}, {state.state.lower()} on {state.node} for {state.elapsed}"
