"""Counts of runs by state and the time left, from events alone; and how a terminal shows them."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
from builders import result
from rich.console import Console

from harness.planning.events import Event, Stage
from harness.sources import digest
from harness.store import Store
from harness.store.logs import failed_log, running_log
from harness.training.record import TrainingProgress
from harness.work.progress import logging_above, view
from harness.work.tally import Tally


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def key(seed: int) -> str:
    return f"mcse[images=shuffled]/wiki+flickr/bert-base-uncased/seed-{seed}"


def trained(step: int, rate: float = 2.0) -> TrainingProgress:
    terms = {"text": 1.0, "visual": 2.0, "textual": 3.0, "cons": 4.0}
    return TrainingProgress(step, 100, rate, terms, 71.234)


class Plan:
    """A tally of `total` runs, its clock, and the store in which they lie."""

    def __init__(self, folder: Path, total: int) -> None:
        self.clock, self.store = Clock(), Store(folder)
        self.prints = {key(seed): digest(seed) for seed in range(total)}
        self.tally = Tally(self.prints, self.store, self.clock)

    def at(self, now: float, *events: Event) -> None:
        self.clock.now = now
        for event in events:
            self.tally.take(event)

    def start(self, seed: int) -> Event:
        path = running_log(self.store, self.prints[key(seed)])
        path.parent.mkdir(parents=True)
        path.write_text("start")
        return Event("start", key(seed))

    def fail(self, seed: int) -> Event:
        path = failed_log(self.store, self.prints[key(seed)])
        path.parent.mkdir(exist_ok=True)
        path.write_text("stopped")
        return Event("failed", key(seed), error="disk full")

    def shown(self, width: int = 80, height: int = 23) -> list[str]:
        out = Console(file=io.StringIO(), width=width, height=height + 1, force_terminal=True, color_system=None)
        with out.capture() as captured:
            out.print(view(self.tally, width, height))
        return captured.get().splitlines()


def done(seed: int) -> Event:
    return Event("done", key(seed), result=result("mcse", seed))


def states(tally: Tally) -> tuple[int, int, int, int]:
    return tally.done, len(tally.failed), len(tally.active), tally.waiting


def test_runs_are_counted_by_state(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 5)
    assert states(plan.tally) == (0, 0, 0, 5)
    assert plan.tally.left() is None
    plan.at(0, plan.start(0), plan.start(1), plan.start(2))
    plan.at(1, done(0), plan.fail(1), done(3))
    assert states(plan.tally) == (2, 1, 1, 1), "the fourth was finished by another process before it started here"
    plan.at(2, Event("start", key(2)))
    assert states(plan.tally) == (2, 1, 1, 1), "it was put back and starts again"
    plan.at(3600, done(2), done(4))
    assert states(plan.tally) == (4, 1, 0, 0)
    assert plan.tally.rate == pytest.approx(4)
    assert plan.tally.left() == 0


def test_the_time_left_is_that_of_the_mean_run_as_many_at_a_time_as_run_now(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 8)
    plan.at(0, plan.start(0), plan.start(1))
    plan.at(10, Event("progress", key(0), progress=trained(20)))  # 40 s left of 50
    assert plan.tally.left() == pytest.approx((40 + 40 + 6 * 50) / 2)
    assert plan.tally.completed == pytest.approx(0.2)
    plan.at(60, done(0), done(1), plan.start(2), plan.start(3))
    plan.at(80)
    assert plan.tally.left() == pytest.approx((40 + 40 + 4 * 60) / 2)
    plan.at(80, Event("progress", key(2), progress=trained(20, rate=0.1)))
    assert plan.tally.left() == pytest.approx(800), "the longest run alone takes more than the others together"


def test_what_is_not_planned_is_shown_and_not_counted(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 2)
    plan.at(0, Event("prepare", "features", stage=Stage("features", "clip", 1, 4)))
    plan.at(1, Event("progress", "teacher", progress=trained(50)))
    assert states(plan.tally) == (0, 0, 0, 2)
    assert [work.key for work in plan.tally.slowest()] == ["features", "teacher"]
    plan.at(2, Event("progress", "teacher", progress=trained(100)))
    assert [work.key for work in plan.tally.slowest()] == ["features"], "the teacher is trained and says no more"
    plan.at(3, Event("prepared", "features"), Event("prepared", "tokens that were there"))
    assert not plan.tally.slowest()


def test_the_slowest_and_the_failed_have_the_paths_of_their_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan(Path("results"), 12)
    plan.at(0, plan.start(0))
    plan.at(60, plan.start(1), plan.start(2))
    plan.at(70, plan.fail(2), Event("progress", key(0), progress=trained(50)))
    plan.at(80, done(1), plan.start(3), Event("suite", key(3), suite="sts"))
    lines = [line.rstrip() for line in plan.shown()]
    assert lines[0].startswith("2 of 12 runs ━━")
    assert lines[0].endswith(" left")
    assert lines[1] == "1 done  1 failed  2 running  8 waiting  45.0 runs/h  for 1 min 20 s"
    assert lines[2:] == [
        "slowest first",
        f"{key(0)}            1 min 20 s",
        "  ━━━━━━━━────────  step 50/100  25.0 s left  2.0 steps/s  dev 71.23  text 1.00…",
        f"  log results/.work/{digest(0)[:32]}/run.log",
        f"{key(3)}                 0.0 s",
        "  evaluating sts",
        f"{key(2)}                failed",
        f"  log results/failed/{digest(2)[:16]}.log",
    ]


@pytest.mark.parametrize(("width", "height"), [(80, 23), (40, 12), (120, 50), (20, 8)])
def test_many_runs_fit_into_any_terminal(tmp_path: Path, width: int, height: int) -> None:
    plan = Plan(tmp_path, 200)
    for seed in range(60):
        plan.at(seed, plan.start(seed), Event("progress", key(seed), progress=trained(seed + 1)))
    plan.at(100, *(plan.fail(seed) for seed in range(60, 65)))
    lines = plan.shown(width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 14)
    if width == 40:
        assert lines[3:5] == ["mcse[images=sh…ncased/seed-0  1 min 40 s", "  ────────────────  step 1/100  49.5 s …"]
        assert lines[-7:-6] == ["mcse[images=shuf…uncased/seed-62  failed"]


def test_messages_of_logging_appear_where_standard_error_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler keeps the stream of its making, which a live view does not see."""
    before, during = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", before)
    handler = logging.StreamHandler(before)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(sys, "stderr", during)
    with logging_above():
        logging.getLogger("x").warning("during")
    logging.getLogger("x").warning("after")
    assert (before.getvalue(), during.getvalue()) == ("after\n", "during\n")
