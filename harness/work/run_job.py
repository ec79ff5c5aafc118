"""One planned run as a job."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.planning.events import Event, Listener
from harness.planning.plan import PlannedRun
from harness.runs.environment import pick_device
from harness.runs.resources import Allocation, DeviceChoice, Resources
from harness.store import Failure, Result, Spec
from harness.store.files import remove_leftovers_of
from harness.store.folder import begin_attempt, end_attempt, end_redo, redo_of, settle_attempt
from harness.store.logs import running_log
from harness.work.estimates import Estimates
from harness.work.faults import all_of, described
from harness.work.job import Job, machine_of
from harness.work.time_limit import time_limit

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class RunJob(Job):
    """Trains and evaluates one run.

    `chunk` rows of a batch are encoded at a time, None encodes batches whole.
    """

    run: PlannedRun
    chunk: int | None = None

    @property
    def id(self) -> str:
        """The fingerprint of its training."""
        return self.run.fingerprint

    @property
    def key(self) -> str:
        """The run's key."""
        return self.run.key

    @property
    def log_path(self) -> Path:
        """The run's log while it is in progress."""
        return running_log(self.store, self.id)

    @property
    def spec(self) -> Spec:
        """Which run it is."""
        return Spec.of(self.run.resolved.spec)

    def resources(self, known: Estimates) -> Resources:
        """By its encoder and its batch."""
        return known.of(self.run.experiment, self.chunk)

    def hear(self, event: Event, known: Estimates) -> None:
        """Pass on what the run has taken so far."""
        known.hear(self.run.experiment, self.chunk, event.device, event.memory_mb)

    def check(self, device: DeviceChoice) -> None:
        """Raise UserError where this machine does not have the device or the run's precision."""
        found = pick_device(device)
        if self.run.resolved.trains and self.run.resolved.training.precision not in ("fp32", "tf32"):
            from harness.encoders.precision import check_precision

            check_precision(self.run.resolved.training.precision, found)

    def finished(self) -> Result | None:
        """Its result, where every suite that it was planned to evaluate has been; None while it is trained again."""
        if redo_of(self.store, self.id):
            return None
        found = self.store.find(self.inventory.profile.name, self.spec, self.id)
        protocol = self.inventory.protocol
        done = found and all(found.evaluated(suite, protocol(suite)) for suite in self.run.todo)
        return found if done else None

    def carry_out(self, allocation: Allocation, listen: Listener) -> Result:
        """Train and evaluate the run; one that was finished since it was planned is not repeated."""
        end_redo(self.store, self.inventory.profile.name, self.spec, self.id)  # of a process that was killed there
        if finished := self.finished():
            listen(Event("done", self.key, result=finished))
            return finished
        from harness.runs.run import run_one

        machine = replace(machine_of(allocation), chunk=self.chunk)
        remove_leftovers_of(self.store, self.inventory.profile.name, self.spec, self.id)
        begin_attempt(self.store, self.id)
        ended = False
        try:
            with time_limit(self.limit_s):
                result = run_one(self.run, self.inventory, self.store, machine, listen)
            ended = True
        finally:
            end_attempt(self.store, self.id, well=ended)
        return result

    def fail(self, error: BaseException | str, listen: Listener) -> Failure:
        """Record the run's failure with its log so far, and report it."""
        settle_attempt(self.store, self.id)
        failure = Failure(
            spec=self.spec,
            profile=self.inventory.profile.name,
            fingerprint=self.id,
            error=described(error),
            traceback=all_of(error),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            self.store.save_failure(failure, self.log_text())
        except OSError as why:
            log.warning("%s: cannot write the record of its failure: %s", self.key, why)
        listen(Event("failed", self.key, error=failure.error))
        return failure
