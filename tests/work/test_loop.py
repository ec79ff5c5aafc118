"""The loop of executors that give jobs to other processes: when it looks for seats, and who
announces ends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from executor_jobs import errand

from harness.events import Event
from harness.runs.execution import Execution
from harness.work import base
from harness.work.base import Death, Executor, StartedJob
from harness.work.job import Job, Prepared
from harness.work.queue import RETRY_S
from harness.work.report import Report


class OneSeat(Executor):
    """Has one seat, from `opens` on, and a clock of its own; what it starts it gives to `perform`."""

    def __init__(self, opens: float, perform: Callable[[Job, Report], None]) -> None:
        super().__init__(Execution())
        self.now, self.opens, self.perform = 0.0, opens, perform
        self.looks: list[float] = []

    def start(self) -> None:
        self.looks.append(self.now)
        if self.now >= self.opens and not self.out and (job := self.queue.take()):
            self.out[job] = StartedJob(job, Report.of(job, "1"), None)

    def wait(self) -> None:
        self.now += RETRY_S / 4
        for started in self.out.values():
            self.perform(started.job, started.report)

    def death(self, started: StartedJob) -> Death | None:
        return None

    def cancel(self) -> None:
        """No process is left."""


def ends(job: Job, report: Report) -> None:
    report.write(Event("start", job.key))
    report.write_end(Prepared(job.id))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[OneSeat, list[Job]], list[str]]:
    """Carries jobs out by the executor's clock; returns what a listener gets."""

    def carried_out(executor: OneSeat, jobs: list[Job]) -> list[str]:
        events: list[str] = []
        monkeypatch.setattr(base, "monotonic", lambda: executor.now)
        executor.execute(jobs, lambda event: events.append(f"{event.kind} {event.run}"))
        return events

    return carried_out


def test_who_found_no_seat_looks_again_after_a_pause_and_not_before_and_at_once_when_a_job_has_ended(
    run: Callable[[OneSeat, list[Job]], list[str]], tmp_path: Path
) -> None:
    executor = OneSeat(2 * RETRY_S, ends)
    events = run(executor, [errand(tmp_path, "a"), errand(tmp_path, "b")])
    assert executor.looks == [0.0, RETRY_S, 2 * RETRY_S, 2.25 * RETRY_S]
    assert events == ["start a", "prepared a", "start b", "prepared b"], (
        "an end comes after the job's events, once"
    )


def test_an_end_that_a_job_could_not_reach_is_its_failure(
    run: Callable[[OneSeat, list[Job]], list[str]], tmp_path: Path
) -> None:
    executor = OneSeat(0.0, lambda job, report: report.write_end(KeyError("x")))
    job = errand(tmp_path, "a")
    assert run(executor, [job, errand(tmp_path, "b", job)]) == ["prepared a", "prepared b"]
    assert [end.error for end in executor.queue.ends if isinstance(end, Prepared)] == [
        "KeyError: 'x'",
        "a failed, which is needed here: KeyError: 'x'",
    ]
