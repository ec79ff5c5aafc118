"""The log of a run: which lines it keeps, across kills, failures and suites that are added."""

from __future__ import annotations

import itertools
import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from executor_jobs import ignore, plan
from faults_tools import KilledError

from harness.events import Event, Listener, Stage, TrainingProgress
from harness.runs import log as log_module
from harness.runs.execution import Execution
from harness.runs.log import RunLog
from harness.store import Store
from harness.work.base import execute

pytestmark = pytest.mark.usefixtures("small_toy_tests")

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  "
log = logging.getLogger("harness.some.room")


def opened(path: Path) -> RunLog:
    """A log whose clock goes on by a second a line."""
    start, seconds = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), itertools.count()
    return RunLog(path, now=lambda: start + timedelta(seconds=next(seconds)))


def said(text: str) -> list[str]:
    """Lines without their times, which every line has."""
    lines = text.splitlines()
    assert all(re.match(TIME, line) for line in lines), text
    return [re.sub(TIME, "", line) for line in lines]


def progress(
    step: int, run: str = "mine", *, scored: bool = False, first: int = 0, waited: float = 0.0
) -> Event:
    dev = 50.126 if step >= 40 else None
    return Event(
        "progress",
        run,
        progress=TrainingProgress(step, 100, 12.34, {"text": 1.0}, dev, scored, first, waited),
    )


def features(subject: str, done: int, total: int) -> Event:
    return Event("prepare", "mine", stage=Stage("features", subject, done, total))


def test_what_is_worth_a_line(tmp_path: Path) -> None:
    """Of a training that resumes, and waits for images or recordings."""
    with opened(tmp_path / "work" / "run.log") as mine:
        mine.write("start")
        for done in (10, 20, 30):
            mine(features("clip image", done, 30))
        for done in (10, 20):
            mine(features("clip text", done, 20))
        for step in (20, 30, 40, 50, 60):
            mine(
                progress(
                    step, scored=step in (40, 60), first=10, waited=0.04 if step < 60 else 0.23
                )
            )
        mine(Event("prepare", "mine", stage=Stage("tokens", "wiki", 7)))
    assert mine.path.read_text("utf-8", "replace").splitlines() == [
        "2026-01-02T03:04:05Z  start",
        "2026-01-02T03:04:06Z  clip image 30/30",
        "2026-01-02T03:04:07Z  clip text 20/20",
        "2026-01-02T03:04:08Z  training resumes at step 10 of 100",
        "2026-01-02T03:04:09Z  step 40/100, dev 50.13, 12.3 steps/s",
        "2026-01-02T03:04:10Z  step 60/100, dev 50.13, 12.3 steps/s, 23% of the time waiting for inputs",
        "2026-01-02T03:04:11Z  wiki: 7 sentences tokenised",
    ]


def test_a_line_that_was_cut_short_does_not_swallow_the_next(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(b"2026-01-01T00:00:00Z  whole\n2026-01-01T00:00:01Z  ha\xe6")
    with opened(tmp_path / "run.log") as mine:
        mine.write("two\nlines and \ud800")
    assert said(mine.path.read_text("utf-8", "replace")) == [
        "whole",
        "ha\ufffd",
        "two lines and \\ud800",
    ]


def test_warnings_are_kept_while_the_run_goes_and_no_longer(tmp_path: Path) -> None:
    def fails(mine: RunLog) -> None:
        with mine:
            log.info("not this")
            log.warning("%d rows\nare bad", 3)
            log.error("worse")
            raise RuntimeError("no more")

    mine = opened(tmp_path / "run.log")
    with pytest.raises(RuntimeError):
        fails(mine)
    log.warning("too late")
    assert said(mine.path.read_text("utf-8", "replace")) == [
        "warning, harness.some.room: 3 rows are bad",
        "error, harness.some.room: worse",
        "stopped by RuntimeError: no more",
    ]


def test_a_flood_of_warnings_and_a_broken_one_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "WARNINGS", 3)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with opened(tmp_path / "run.log") as mine:
        log.warning("%d", "no number")
        for index in range(9):
            log.warning("number %d", index)
    lines = said(mine.path.read_text("utf-8", "replace"))
    assert lines[:2] == [
        "warning, harness.some.room: number 0",
        "warning, harness.some.room: number 1",
    ]
    assert lines[2:] == ["more than 3 warnings; the rest are not recorded"]


def do(root: Path, *suites: str, listen: Listener = ignore) -> None:
    execute(
        plan(root, "simcse", setting="toy-text", suites=suites, steps=6),
        listen,
        Execution(device="cpu"),
    )


def test_a_stopped_run_and_a_suite_that_is_added_go_on_in_the_same_log(tmp_path: Path) -> None:
    def killing(event: Event) -> None:
        if event.progress is not None and event.progress.step == 4:
            raise KilledError("at step 4")

    store = Store(tmp_path)
    do(tmp_path, "sts", listen=killing)
    assert store.files() == []
    (failure,) = (tmp_path / "failed").glob("*.log")
    before = failure.read_text()
    assert "stopped by KilledError: at step 4" in said(before)[-1]

    do(tmp_path, "sts")
    ((result,), _) = store.load()
    text = store.log(result)
    assert text.startswith(before)
    lines = said(text)
    assert [line for line in lines if line.startswith(("start", "training", "done"))] == [
        "start simcse/toy-text/toy-bert/seed-0 on cpu",
        "training starts: 6 steps",
        "start simcse/toy-text/toy-bert/seed-0 on cpu",
        "training resumes at step 3 of 6",
        "done",
    ]
    scored = [re.fullmatch(r"step (\d)/6, dev (.*), [\d.]+ steps/s", line) for line in lines]
    assert [(int(m[1]), m[2]) for m in scored if m] == [
        (step, f"{score:.2f}") for step, score in zip((3, 6), result.dev.scores, strict=True)
    ]
    assert not list((tmp_path / ".work").rglob("*.log")), "what is beside the result is kept twice"
    assert not list((tmp_path / "failed").iterdir())

    do(tmp_path, "sts", "geometry")
    longer = store.log(result)
    assert longer.startswith(text)
    assert [re.sub(r"[\d.]+ s$", "S", line) for line in said(longer.removeprefix(text))] == [
        "start simcse/toy-text/toy-bert/seed-0 on cpu",
        "suite geometry starts",
        "suite geometry took S",
        "done",
    ]
