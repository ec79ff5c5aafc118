"""One run as an executor's job: what it needs, whether this machine can run it, and how it is performed."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import UserError
from harness.execution.environment import DeviceChoice, Machine, pick_device
from harness.execution.events import Event, Listener
from harness.execution.inventory import Inventory
from harness.execution.plan import PlannedRun
from harness.execution.run import log_file, run_one
from harness.store import Failure, Result, Spec, Store
from harness.training.trainer import check_precision

#: How a job ended.
End = Result | Failure


@dataclass(frozen=True)
class Resources:
    """What an executor may use: `jobs` runs at a time, each on `device`."""

    jobs: int = 1
    device: DeviceChoice = "auto"


@dataclass(frozen=True, eq=False)
class Job:
    """One planned run. It can be pickled and performed in any process that sees the results folder."""

    run: PlannedRun
    inventory: Inventory
    store: Store

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its training, which locks and `needs` go by."""
        return self.run.fingerprint

    @property
    def spec(self) -> Spec:
        """Which run it is."""
        return Spec.of(self.run.resolved.spec)

    @property
    def needs(self) -> frozenset[str]:
        """Fingerprints of the runs that are its teachers."""
        return frozenset(teacher.fingerprint for teacher in self.run.experiment.teachers)

    def check(self, resources: Resources) -> None:
        """Raise UserError where this machine does not have the device or the run's precision."""
        device = pick_device(resources.device)
        if self.run.resolved.method.trains:
            check_precision(self.run.resolved.training.precision, device)

    def perform(self, resources: Resources, listen: Listener) -> End | None:
        """Train and evaluate the run under its lock; return None when another process holds the lock.

        A run that was finished since it was planned is not repeated. An error is recorded and returned as a Failure.
        """
        with self.store.lock(self.fingerprint) as acquired:
            if not acquired:
                return None
            try:
                finished = self.store.find(self.inventory.profile.name, self.spec, self.fingerprint)
                protocol = self.inventory.protocol
                if finished and all(finished.evaluated(suite, protocol(suite)) for suite in self.run.todo):
                    listen(Event("done", self.run.key, result=finished))
                    return finished
                machine = Machine.of_run(resources.device, resources.jobs)
                return run_one(self.run, self.inventory, self.store, machine, listen)
            except Exception as error:
                return self.fail(error, listen)

    def fail(self, error: Exception | str, listen: Listener) -> Failure:
        """Record the run's failure with its log so far, and report it."""
        kind = "" if isinstance(error, UserError | str) else f"{type(error).__name__}: "
        failure = Failure(
            spec=self.spec,
            profile=self.inventory.profile.name,
            fingerprint=self.fingerprint,
            error=f"{kind}{error}",
            traceback="".join(traceback.format_exception(error)) if isinstance(error, Exception) else "",
            when=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        log = log_file(self.store, self.run)
        self.store.save_failure(failure, log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "")
        listen(Event("failed", self.run.key, error=failure.error))
        return failure
