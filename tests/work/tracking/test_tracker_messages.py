"""What reaches a tracker: steps once each, across resumes, stops and runs that others finished."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.work.tracking.base import RunEnd, TrackedRun, TrackedValues, Tracker
from harness.work.tracking.worker import serve

ONE, TWO = "mcse/toy/toy-bert/seed-0", "mcse/toy/toy-bert/seed-1"


class Memory(Tracker):
    """Keeps what it is told; `holds` is the last step of an earlier session."""

    def __init__(self, holds: int = 0) -> None:
        super().__init__(Path("unused"))
        self.holds, self.told = holds, list[tuple[Any, ...]]()

    @staticmethod
    def place(folder: Path) -> str:
        return "memory"

    def begin(self, run: TrackedRun) -> int:
        self.told.append(("begin", run.key, run.config["seed"]))
        return self.holds

    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        self.told.append(("log", run.key, step, values["loss/text"]))

    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        self.told.append((end, run.key, step, dict(scores)))


def begin(key: str) -> list[Any]:
    return ["begin", {"key": key, "id": "0" * 16, "place": "p", "config": {"seed": key[-1]}}]


def log(key: str, step: int) -> list[Any]:
    return ["log", key, step, {"loss/text": step / 10}]


def told(tracker: Memory, *messages: Sequence[Any]) -> list[tuple[Any, ...]]:
    serve(tracker, (json.dumps(message) + "\n" for message in messages))
    return tracker.told


def test_runs_are_recorded_side_by_side() -> None:
    messages = [begin(ONE), begin(TWO), log(ONE, 5), log(TWO, 6), ["end", TWO, "failed", {}], log(ONE, 7)]
    assert told(Memory(), *messages, ["end", ONE, "done", {"sts/Avg/spearman": 70.0}]) == [
        ("begin", ONE, "0"),
        ("begin", TWO, "1"),
        ("log", ONE, 5, 0.5),
        ("log", TWO, 6, 0.6),
        ("failed", TWO, 6, {}),
        ("log", ONE, 7, 0.7),
        ("done", ONE, 7, {"sts/Avg/spearman": 70.0}),
    ]


def test_a_run_that_resumes_records_no_step_twice() -> None:
    """Its checkpoint is of an earlier step than its last report, in this session or in one before."""
    messages = [begin(ONE), log(ONE, 30), log(ONE, 50), log(ONE, 60), begin(ONE), log(ONE, 50), log(ONE, 70)]
    steps = [each[2] for each in told(Memory(holds=50), *messages) if each[0] == "log"]
    assert steps == [60, 70]


def test_a_run_that_did_not_end_is_stopped_and_one_that_never_started_here_is_no_one_s() -> None:
    assert told(Memory(), begin(ONE), log(ONE, 5), ["end", TWO, "done", {}]) == [
        ("begin", ONE, "0"),
        ("log", ONE, 5, 0.5),
        ("stopped", ONE, 5, {}),
    ]
