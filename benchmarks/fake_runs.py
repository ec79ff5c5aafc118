"""Runs that sleep, in a module that their processes can import."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from harness.execution.events import Event, Listener
from harness.execution.executors.job import Prepared
from harness.execution.executors.run_job import RunJob
from harness.execution.resources import Allocation
from harness.store import Result, Store
from harness.training.record import TrainingProgress

REFERENCE = Path(__file__).parent.parent / "results" / "reference"
SECONDS, REPORTS = 1.0, 10


class FakeRun(RunJob):
    """A run that sleeps, reports now and then, and saves a result under its own key and fingerprint."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> Result:
        listen(Event("start", self.key, device="cpu"))
        until = time.monotonic() + SECONDS
        for report in range(1, REPORTS + 1):
            time.sleep(max(0.0, until - time.monotonic()) / (REPORTS + 1 - report))
            listen(Event("progress", self.key, progress=TrainingProgress(report, REPORTS, 10.0, {"text": 0.1})))
        result = template().model_copy(update={"spec": self.spec, "fingerprint": self.id, "profile": "tiny"})
        self.store.save_log(result, "a line of a log\n" * 100)
        saved = self.store.save(result)
        listen(Event("done", self.key, result=saved))
        return saved


class EmptyRun(RunJob):
    """A run that has ended."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> Prepared:  # type: ignore[override]
        return Prepared(self.id)


@cache
def template() -> Result:
    """A real result."""
    return Store(REFERENCE).read(sorted(REFERENCE.glob("*/*/*/*/seed-0-*.json"))[0])
