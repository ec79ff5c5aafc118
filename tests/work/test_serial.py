"""One job after another in this process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from executor_jobs import STUDENT, TAUGHT, jobs

from harness.planning.events import Event
from harness.store import Failure, Result
from harness.work.base import ExecutorOptions
from harness.work.local import Serial


def keys(ends: list[Result | Failure]) -> list[tuple[str, type]]:
    return [(end.spec.key, type(end)) for end in ends]


def test_teachers_come_first_and_a_run_that_fails_costs_only_itself(tmp_path: Path) -> None:
    student, taught, failing = jobs(tmp_path, TAUGHT, "simcse[temperature=0.1]")

    def listen(event: Event) -> None:
        if event.run == failing.run.key and event.kind == "progress":
            raise RuntimeError("stopped")

    ends = Serial(ExecutorOptions(1, "cpu")).execute([taught, failing, student], listen)
    assert keys(ends) == [(failing.run.key, Failure), (STUDENT, Result), (taught.run.key, Result)]


def test_a_run_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    held, free = jobs(tmp_path, "none[pooling=mean]", "none[pooling=cls]")
    with ExitStack() as stack:
        stack.enter_context(held.store.lock(held.id))

        def listen(event: Event) -> None:
            if event.kind == "done":
                stack.close()

        ends = Serial(ExecutorOptions(1, "cpu")).execute([held, free], listen)
    assert keys(ends) == [(free.run.key, Result), (held.run.key, Result)]
