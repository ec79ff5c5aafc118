"""Plans and runs that sleep, in a module that their processes can import."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import harness
from harness.events import Event, TrainingProgress, tell
from harness.planning.plan import Plan
from harness.runs.execution import Seat
from harness.store import Result, Store
from harness.work.job import Prepared, RunJob

REFERENCE = Path(__file__).parent.parent / "results" / "reference"
SECONDS = 1.0
REPORTS = 10
SEEDS = 20


def planned(runs: int, results: Path) -> Plan:
    """A plan of at least so many runs: half of them SimCSE, half MCSE."""
    options = -(-runs // (2 * SEEDS))
    methods = [
        f"{name}[temperature={(1 + option) / 1e5:g}]"
        for name in ("simcse", "mcse")
        for option in range(options)
    ]
    return harness.plan("tiny", methods=methods, settings="toy", seeds=SEEDS, results=results)


def peak_mb() -> float:
    """The largest resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class FakeRun(RunJob):
    """A run that sleeps, reports now and then, and saves a result under its own key and
    fingerprint.
    """

    def carry_out(self, seat: Seat) -> Result:
        tell(Event("start", device="cpu"))
        until = time.monotonic() + SECONDS
        for report in range(1, REPORTS + 1):
            time.sleep(max(0.0, until - time.monotonic()) / (REPORTS + 1 - report))
            tell(Event("progress", progress=TrainingProgress(report, REPORTS, 10.0, {"text": 0.1})))
        result = result_of(self)
        self.store.save_log(result, "a line of a log\n" * 100)
        return self.store.save(result)


class EmptyRun(RunJob):
    """A run that has ended."""

    def carry_out(self, seat: Seat) -> Prepared:  # type: ignore[override]
        return Prepared(self.id)


@dataclass(frozen=True, eq=False)
class IdleRun(RunJob):
    """A run that waits until so many have started."""

    together: int = 1

    def carry_out(self, seat: Seat) -> Prepared:  # type: ignore[override]
        tell(Event("start", device="cpu"))
        (self.store.root / f"idle-{self.id}").touch()
        while len([*self.store.root.glob("idle-*")]) < self.together:
            time.sleep(SECONDS / 10)
        time.sleep(SECONDS)  # the driver's files are counted now
        return Prepared(self.id)


def result_of(job: RunJob) -> Result:
    """A result of a run that shares nothing with others, like one that came from another process."""
    about = {"spec": job.spec, "fingerprint": job.id, "profile": "tiny"}
    return template().model_copy(update=about, deep=True)


@cache
def template() -> Result:
    """A real result, the largest."""
    files = REFERENCE.glob("*/*/*/*/seed-0-*.json")
    return Store(REFERENCE).read(max(files, key=lambda path: path.stat().st_size))
