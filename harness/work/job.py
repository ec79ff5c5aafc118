"""Jobs, which executors carry out: what a job needs, how it is performed, and how it ends. A run is
one.

A job can be pickled and performed in any process that sees the results folder and the data. It
reports by events, which can be pickled too, and its results are files in the store.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from traceback import format_exception

from harness.errors import UserError
from harness.events import Listener, listen_in
from harness.files import read_within
from harness.planning.inventory import Inventory
from harness.planning.plan import PlannedRun
from harness.processors import use_cores
from harness.runs.execution import DeviceChoice, Seat, pick_device
from harness.spec import RunSpec
from harness.stopping import Interrupted, Stopped
from harness.store import Failure, Result, Store
from harness.store.files import remove_leftovers_of
from harness.store.folder import refuse_linked
from harness.store.logs import running_log
from harness.work.failures import SMALLER, describe_error, limit_time
from harness.work.resources import Estimates, Resources

log = logging.getLogger(__name__)

#: Torch's error by name, since the process that only distributes jobs does not import torch.
OUT_OF_MEMORY = "OutOfMemoryError"


class Again(Enum):
    """Why a job has not ended and waits for another turn."""

    HELD = "another process is working on it"
    STOPPED = "stopped on request; will resume from the last checkpoint"
    LOST = "its process died; another one resumes from the last checkpoint"
    MEMORY = "out of GPU memory beside other runs; will run alone on the GPU"


@dataclass(frozen=True)
class Prepared:
    """The end of a preparation; with an `error` the jobs that need it fail."""

    id: str
    error: str = ""


#: How a job ended: a run by a Result or a Failure, a preparation by Prepared.
End = Result | Failure | Prepared


def get_error(end: End) -> str:
    """The error of a job; empty if it ended well."""
    if isinstance(end, Result):
        return ""
    return end.error


def explain_failed_need(need: str, error: str) -> str:
    """The error of a job whose dependency `need` failed; in a chain, the first error."""
    if " failed, which is needed here: " in error:
        return error
    return f"{need} failed, which is needed here: {error}"


@dataclass(frozen=True, eq=False)
class Job(ABC):
    """A planned piece of work.

    `id` identifies it among all jobs (a run's is its fingerprint), `key` is its readable name and
    the `run` of its events. `needs` are the ids of the jobs that must end well before it starts.
    `limit_s` is the longest time that one process may take for it; None is no limit.
    """

    id: str
    key: str
    inventory: Inventory
    store: Store
    needs: frozenset[str]
    limit_s: float | None = field(default=None, kw_only=True)

    @abstractmethod
    def estimate_resources(self, known: Estimates) -> Resources:
        """The resources it needs, estimated from similar runs."""

    def check(self, device: DeviceChoice) -> None:  # noqa: B027 - a preparation can run on any device
        """Raise UserError if this machine has no device on which the job can run."""

    @abstractmethod
    def carry_out(self, seat: Seat) -> End:
        """Do the work, under the job's lock. Raises whatever goes wrong."""

    @abstractmethod
    def fail(self, error: BaseException | str) -> End:
        """Record that the job failed."""

    def perform(self, seat: Seat, listen: Listener) -> End | Again:
        """Carry out the job in this process, unless another process is working on it.

        An error is recorded and returned as the job's end. Where this process was asked to stop
        (`harness.stopping`), the job saves what it has at its next event or step.
        """
        try:
            with (
                use_cores(seat.cpus),
                listen_in(self.key, listen),
                self.store.lock(self.id) as acquired,
            ):
                if not acquired:
                    return Again.HELD
                return self._perform_under_lock(seat)
        except (OSError, UserError) as error:  # from the lock
            return self.fail(error)

    def _perform_under_lock(self, seat: Seat) -> End | Again:
        try:
            refuse_linked(self.store, self.store.work(self.id))
            return self.carry_out(seat)
        except Stopped:
            return Again.STOPPED
        except Interrupted:
            raise
        except BaseException as error:  # including sys.exit, which must not end other jobs
            if type(error).__name__ != OUT_OF_MEMORY:
                return self.fail(error)
            if seat.gpu_share < 1:
                return Again.MEMORY
            return self.fail(UserError(f"out of memory alone on the GPU: {SMALLER}"))

    @property
    def log_path(self) -> Path | None:
        """The file of its log; a preparation has none."""
        return None

    def log_text(self) -> str:
        """Its log so far; empty where there is none."""
        if self.log_path is None:
            return ""
        try:
            return read_within(self.store.root, self.log_path).decode("utf-8", "replace")
        except OSError:
            return ""


@dataclass(frozen=True, eq=False)
class RunJob(Job):
    """Trains and evaluates one run.

    `chunk` rows of a batch are encoded at a time, None encodes batches whole.
    """

    run: PlannedRun
    chunk: int | None = None

    @property
    def log_path(self) -> Path:
        return running_log(self.store, self.id)

    @property
    def spec(self) -> RunSpec:
        return self.run.resolved.spec

    def estimate_resources(self, known: Estimates) -> Resources:
        return known.of(self.run.experiment, self.chunk)

    def check(self, device: DeviceChoice) -> None:
        picked_device = pick_device(device)
        precision = self.run.resolved.training.precision
        if self.run.resolved.trains and precision not in ("fp32", "tf32"):
            from harness.encoders.precision import check_precision

            check_precision(precision, picked_device)

    def find_result(self) -> Result | None:
        """Its result if every planned suite has been evaluated, else None."""
        stored = self.store.find(self.inventory.profile.name, self.spec, self.id)
        if stored is None:
            return None
        for suite in self.run.todo:
            if not stored.has_evaluation(suite, self.inventory.find_protocol(suite)):
                return None
        return stored

    def carry_out(self, seat: Seat) -> Result:
        """Train and evaluate the run; one that was finished since it was planned is not repeated."""
        result = self.find_result()
        if result is not None:
            return result

        from harness.runs.run import run_one

        remove_leftovers_of(self.store, self.inventory.profile.name, self.spec, self.id)
        with limit_time(self.limit_s):
            return run_one(self.run, self.inventory, self.store, seat.take(), self.chunk)

    def fail(self, error: BaseException | str) -> Failure:
        traceback = "" if isinstance(error, str) else "".join(format_exception(error))
        failure = Failure(
            spec=self.spec,
            profile=self.inventory.profile.name,
            fingerprint=self.id,
            error=describe_error(error),
            traceback=traceback,
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            self.store.save_failure(failure, self.log_text())
        except OSError as reason:
            log.warning("%s: cannot write the record of its failure: %s", self.key, reason)
        return failure
