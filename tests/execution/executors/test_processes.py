"""Several jobs at a time in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from executor_jobs import STUDENT, TAUGHT, jobs

from harness.execution.events import Event
from harness.execution.executors.base import ExecutorOptions
from harness.execution.executors.processes import Processes
from harness.processors import passive_threads
from harness.store import Failure, Result, Store


def test_a_process_that_dies_costs_only_the_run_it_had(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "none[pooling=mean]", "none[pooling=cls]")

    def kill(event: Event) -> None:
        if event.kind == "start" and event.run == first.key:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid or 0, signal.SIGKILL)

    failure, result = Processes(ExecutorOptions(1, "cpu")).execute([first, second], kill)
    assert isinstance(failure, Failure)
    assert "its process ended with code -9" in failure.error
    assert Store(tmp_path).failures() == [failure]
    assert isinstance(result, Result)
    assert result.spec.key == second.run.key
    assert not multiprocessing.active_children()


def test_events_arrive_and_a_run_starts_after_its_teacher(tmp_path: Path) -> None:
    student, taught = jobs(tmp_path, TAUGHT)
    events: list[Event] = []
    ends = Processes(ExecutorOptions(2, "cpu")).execute([taught, student], events.append)
    assert [end.spec.key for end in ends] == [STUDENT, taught.run.key]
    assert all(isinstance(end, Result) for end in ends), ends
    kinds = [(event.run, event.kind) for event in events if event.kind in ("start", "progress", "done")]
    expected = [(run, kind) for run in (STUDENT, taught.run.key) for kind in ("start", "progress", "done")]
    assert list(dict.fromkeys(kinds)) == expected, "the teacher is trained once, as a run of its own"


def test_threads_sleep_while_they_wait_unless_a_person_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY")
    passive_threads()
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    passive_threads()
    assert os.environ["OMP_WAIT_POLICY"] == "active"
