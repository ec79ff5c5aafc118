"""Plans and runs that sleep, in a module that their processes can import."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import harness
from harness.events import Event, TrainingProgress, tell
from harness.planning.plan import Plan
from harness.processors import measure_peak_memory_mb
from harness.runs.execution import Seat
from harness.store import Result, Store
from harness.work.job import Prepared, RunJob
from harness.work.jobs import list_jobs

REFERENCE = Path(__file__).parent.parent / "results" / "reference"
SECONDS = 1.0
REPORTS = 10
SEEDS = 20


def make_plan(runs: int, results: Path) -> Plan:
    """A plan of at least so many runs: half of them SimCSE, half MCSE."""
    options = -(-runs // (2 * SEEDS))
    temperatures = [f"{(1 + option) / 1e5:g}" for option in range(options)]
    methods = []
    for name in ("simcse", "mcse"):
        methods += [f"{name}[temperature={temperature}]" for temperature in temperatures]
    return harness.plan("tiny", methods=methods, settings="toy", seeds=SEEDS, results=results)


def list_runs(plan: Plan, count: int) -> list[RunJob]:
    """The first runs of a plan."""
    return [job for job in list_jobs(plan) if isinstance(job, RunJob)][:count]


def replace_job(job: RunJob, kind: type[RunJob], **options: int) -> RunJob:
    """A job of another kind for the same run, which needs no other job."""
    return kind(job.id, job.key, job.inventory, job.store, frozenset(), job.run, **options)


def measure_peak_mib() -> float:
    """The largest resident memory of this process."""
    return measure_peak_memory_mb("cpu") * 1e6 / 2**20


class FakeRun(RunJob):
    """A run that sleeps, reports now and then, and saves a result under its own key and
    fingerprint.
    """

    def carry_out(self, seat: Seat) -> Result:
        tell(Event("start", device="cpu"))
        end = time.monotonic() + SECONDS
        for report in range(1, REPORTS + 1):
            reports_to_come = REPORTS + 1 - report
            time.sleep(max(0.0, end - time.monotonic()) / reports_to_come)
            progress = TrainingProgress(report, REPORTS, 10.0, {"text": 0.1})
            tell(Event("progress", progress=progress))

        result = make_result(self)
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
        while len(list(self.store.root.glob("idle-*"))) < self.together:
            time.sleep(SECONDS / 10)

        time.sleep(SECONDS)  # the driver's files are counted now
        return Prepared(self.id)


def make_result(job: RunJob) -> Result:
    """A result of a run that shares nothing with others, like one that came from another process."""
    fields = {"spec": job.spec, "fingerprint": job.id, "profile": "tiny"}
    return read_template().model_copy(update=fields, deep=True)


@cache
def read_template() -> Result:
    """A real result, the largest."""
    files = REFERENCE.glob("*/*/*/*/seed-0-*.json")
    return Store(REFERENCE).read(max(files, key=lambda path: path.stat().st_size))
