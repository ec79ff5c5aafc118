"""What all executors share: locks, finished runs, failures, early refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from executor_jobs import ignore, jobs, plan

from harness.errors import UserError
from harness.planning.events import Event
from harness.runs.environment import Allocation
from harness.store import Failure, Result, Store
from harness.work.base import execute
from harness.work.job import Again

ONE = Allocation("cpu", 1)


def test_a_held_lock_is_respected_and_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "none")
    with job.store.lock(job.id):
        assert job.perform(ONE, ignore) is Again.HELD
    events: list[Event] = []
    result = job.perform(ONE, events.append)
    assert isinstance(result, Result)
    kinds = [event.kind for event in events]
    assert kinds[:2] == ["start", "suite"]
    assert kinds[-2:] == ["evaluated", "done"]
    assert set(kinds[2:-2]) == {"evaluate"}
    assert job.perform(ONE, events.append) == result
    assert [event.kind for event in events[len(kinds) :]] == ["done"]


def test_a_failure_is_recorded_with_its_log_and_reported(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "none")
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if event.kind == "suite":
            raise RuntimeError("no more memory")

    failure = job.perform(ONE, listen)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("RuntimeError: no more memory (")
    assert "no more memory" in failure.traceback
    assert (events[-1].kind, events[-1].error) == ("failed", failure.error)
    assert Store(tmp_path).failures() == [failure]
    (log,) = (tmp_path / "failed").glob("*.log")
    assert "stopped by RuntimeError: no more memory" in log.read_text()
    assert job.fail(UserError("the file x is missing"), ignore).error == "the file x is missing", "a line as it is"


def test_what_this_machine_does_not_have_is_refused_before_anything_runs(tmp_path: Path) -> None:
    made = plan(tmp_path / "results", "simcse", precision="fp16")
    events: list[Event] = []
    with pytest.raises(UserError, match="fp16 needs a CUDA device"):
        execute(made, events.append, device="cpu")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        execute(plan(tmp_path / "file", "simcse"), events.append)
    with pytest.raises(UserError, match="unknown executor 'seriel'; did you mean serial"):
        execute(made, events.append, executor="seriel")
    assert not events
    assert not (tmp_path / "results").exists()
