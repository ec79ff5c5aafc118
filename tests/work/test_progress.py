"""What a person sees of runs: counts and the time left, plain lines, a view in a terminal, one
output in a notebook.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from builders import result
from rich.console import Console

from harness.events import Event, EventKind, Stage, TrainingProgress
from harness.sources import digest
from harness.store import Store
from harness.store.logs import failed_log, running_log
from harness.work import progress
from harness.work.progress import LOOK_S, SILENCE_S, Lines, display, print_logs_above, view
from harness.work.tally import Tally, format_progress

HALF = TrainingProgress(50, 100, 12.5, {"text": 1.23456}, 71.234, scored=True)
IMAGES = "clip: features of images"


def key(seed: int) -> str:
    return f"mcse[images=shuffled]/wiki+flickr/bert-base-uncased/seed-{seed}"


RUN = key(0)


class Plan:
    """A tally of `total` runs, its clock, the store in which they lie, and plain lines about them."""

    def __init__(self, folder: Path, total: int) -> None:
        self.now, self.store = 0.0, Store(folder)
        self.prints = {key(seed): digest(seed) for seed in range(total)}
        self.tally = Tally(self.prints, self.store, lambda: self.now)
        self.out = io.StringIO()
        self.lines = Lines(self.tally, Console(file=self.out, width=20))

    def at(self, now: float, *events: Event) -> None:
        self.now = now
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
        out = Console(
            file=io.StringIO(),
            width=width,
            height=height + 1,
            force_terminal=True,
            color_system=None,
        )
        with out.capture() as captured:
            out.print(view(self.tally, width, height))
        return captured.get().splitlines()

    def after(self, seconds: float, event: Event | None = None) -> list[str]:
        """The new lines after a while, of an event or of a look at the silence."""
        before = len(self.out.getvalue())
        self.now += seconds
        self.lines.look() if event is None else self.lines.show(event)
        return [line.removeprefix(f"{RUN}  ") for line in self.out.getvalue()[before:].splitlines()]

    @property
    def states(self) -> tuple[int, int, int, int]:
        return self.tally.done, len(self.tally.failed), len(self.tally.active), self.tally.waiting


def done(seed: int) -> Event:
    return Event("done", key(seed), result=result("mcse", seed))


def trained(step: int, rate: float = 2.0) -> TrainingProgress:
    terms = {"text": 1.0, "visual": 2.0, "textual": 3.0, "cons": 4.0}
    return TrainingProgress(step, 100, rate, terms, 71.234)


def test_long_stages_speak_with_rate_and_time_left_and_silent_ones_repeat_themselves(
    tmp_path: Path,
) -> None:
    """No run is silent for 30 s, whether its stages report or not."""
    after = Plan(tmp_path, 1).after

    def stage(kind: EventKind, *about: Any) -> Event:
        return Event(kind, RUN, stage=Stage(*about))

    for seconds, event, line in (
        (SILENCE_S - 1, None, ""),
        (1, None, "[0/1] 0 done, 0 failed, 0 running, 1 waiting"),  # processes start
        (0, Event("start", RUN, device="cpu"), "starts"),
        (SILENCE_S - 1, None, ""),
        (1, None, "loading"),
        (3, stage("prepare", "features", IMAGES, 1000, 4000), ""),
        (SILENCE_S - 3, None, f"{IMAGES} 1000/4000"),
        (
            18,
            stage("prepare", "features", IMAGES, 2000, 4000),
            f"{IMAGES} 2000/4000  25.0/s  1 min 20 s left",
        ),
        (1, stage("prepare", "tokens", "wiki", 0, None), ""),
        (
            10,
            stage("prepare", "tokens", "wiki", 5000, None),
            "wiki: 5000 sentences tokenised  500.0/s",
        ),
        (1, Event("suite", RUN, suite="sts"), "evaluating sts"),
        (1, stage("evaluate", "sentences", "sts", 0, 900), ""),
        (
            9,
            stage("evaluate", "sentences", "sts", 450, 900),
            "sts: 450/900 sentences embedded  50.0/s  9.0 s left",
        ),
        (1, stage("evaluate", "tasks", "sts", 0, 3, "MR"), ""),
        (
            59,
            stage("evaluate", "tasks", "sts", 1, 3, "CR"),
            "sts: CR, 1/3 tasks done  1 min 58 s left",
        ),
        (12, stage("evaluate", "sentences", "sts", 0, 70), "sts: 0/70 sentences embedded"),
        (
            10,
            stage("evaluate", "sentences", "sts", 20, 70),
            "sts: 20/70 sentences embedded  2.0/s  25.0 s left",
        ),
        (SILENCE_S, None, "sts: 20/70 sentences embedded  2.0/s  25.0 s left"),
        (0, Event("failed", RUN, error="[disk] full"), f"[1/1] {RUN}  FAILED: [disk] full"),
        (10 * SILENCE_S, None, ""),
    ):
        assert after(seconds, event) == ([line] if line else [])
    assert SILENCE_S + LOOK_S <= 30


def test_many_runs_share_one_line(tmp_path: Path) -> None:
    """Sixty lines every ten seconds would bury the ends of runs and what failed."""
    plan = Plan(tmp_path, 70)
    for seed in range(60):
        assert plan.after(0, Event("start", key(seed), device="cpu"))
    plan.now += 11
    told = [
        line
        for _ in range(3)
        for seed in range(60)
        for line in plan.after(0, Event("progress", key(seed), progress=HALF))
    ]
    start = "[0/70] 0 done, 0 failed, 60 running, 10 waiting"
    assert [line.partition(": step")[0] for line in told] == [f"{start}; slowest {RUN}, 11.0 s"]
    assert plan.after(9) == []
    (line,) = plan.after(1)
    assert line.endswith(f"; slowest {RUN}, 21.0 s: {format_progress(HALF)}")


def test_silence_is_broken_while_nothing_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SILENCE_S", 0.0)
    monkeypatch.setattr(progress, "LOOK_S", 0.001)
    plan, spoken = Plan(tmp_path, 3), threading.Event()
    monkeypatch.setattr(
        Lines, "say", lambda lines, run, text: spoken.set() if text == "loading" else None
    )
    with display(plan.prints, plan.store, plan.lines.console) as listen:
        listen(Event("start", RUN, device="cpu"))
        assert spoken.wait(60), "nothing is said without an event"
    assert not [thread for thread in threading.enumerate() if "look" in thread.name], (
        "its thread ends with the display"
    )


def test_a_terminal_shows_a_row_per_run_and_keeps_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    plan = Plan(tmp_path, 3)
    monkeypatch.setattr(plan.out, "isatty", lambda: True)
    with display(
        plan.prints, plan.store, Console(file=plan.out, width=120, force_terminal=True)
    ) as listen:
        listen(Event("progress", RUN, progress=HALF))
        listen(Event("start", key(1)))
        listen(Event("failed", key(1), error="stopped"))
    for shown in ("step 50/100", RUN, f"[1/3] {key(1)}  FAILED: stopped"):
        assert shown in plan.out.getvalue()


def test_a_notebook_has_one_output_that_is_updated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = pytest.importorskip(
        "IPython.core.interactiveshell", reason="IPython is not installed"
    ).InteractiveShell
    from IPython.utils.capture import capture_output

    monkeypatch.setattr(progress, "FRAMES", 10**9)
    plan = Plan(tmp_path, 3)
    shell.instance()  # it publishes outputs, as that of a notebook
    try:
        with (
            capture_output() as captured,
            display(plan.prints, plan.store, Console(force_jupyter=True)) as listen,
        ):
            listen(Event("start", RUN, device="cpu"))
            listen(Event("prepare", RUN, stage=Stage("features", IMAGES, 5, 10)))
            listen(Event("progress", RUN, progress=HALF))
            listen(Event("failed", RUN, error="OSError: [disk] full"))
    finally:
        shell.clear_instance()
    texts = [output.data["text/plain"] for output in captured.outputs]
    assert any(f"{IMAGES} 5/10" in text for text in texts)
    assert any("step 50/100" in text for text in texts)
    assert "FAILED: OSError: [disk] full" in " ".join(texts[-1].split())
    assert all("text/html" in output.data for output in captured.outputs)
    assert [output.update for output in captured.outputs] == [False] + [True] * (len(texts) - 1)
    assert captured.stdout == ""


def test_runs_are_counted_by_state(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 5)
    assert plan.states == (0, 0, 0, 5)
    assert plan.tally.estimate_left() is None
    plan.at(0, plan.start(0), plan.start(1), plan.start(2))
    plan.at(1, done(0), plan.fail(1), done(3))
    assert plan.states == (2, 1, 1, 1), (
        "the fourth was finished by another process before it started here"
    )
    plan.at(2, Event("start", key(2)))
    assert plan.states == (2, 1, 1, 1), "it was put back and starts again"
    plan.at(3600, done(2), done(4))
    assert plan.states == (4, 1, 0, 0)
    assert plan.tally.rate == pytest.approx(4)
    assert plan.tally.estimate_left() == 0


def test_the_time_left_is_that_of_the_mean_run_as_many_at_a_time_as_run_now(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 8)
    plan.at(0, plan.start(0), plan.start(1))
    plan.at(10, Event("progress", key(0), progress=trained(20)))  # 40 s left of 50
    assert plan.tally.estimate_left() is None, "how long an evaluation takes is not known yet"
    assert plan.tally.completed == pytest.approx(0.2)
    plan.at(60, done(0), done(1), plan.start(2), plan.start(3))
    plan.at(80)
    assert plan.tally.estimate_left() == pytest.approx((40 + 40 + 4 * 60) / 2)
    plan.at(80, Event("progress", key(2), progress=trained(20, rate=0.1)))
    assert plan.tally.estimate_left() == pytest.approx(800), (
        "the longest run alone takes more than the others together"
    )


def test_the_time_left_is_right_from_the_third_run_on_whatever_methods_and_waits_there_are(
    tmp_path: Path,
) -> None:
    """One at a time: fast and slow runs of two methods, ten seconds between two of them."""
    seconds = {f"{method}/toy/toy-bert/seed-{seed}": time for seed in range(4)
               for method, time in (("simcse", 30.0), ("mcse[lambda=1]", 300.0))}  # fmt: skip
    now = 0.0
    tally = Tally(dict.fromkeys(seconds, ""), Store(tmp_path), lambda: now)
    total = sum(seconds.values()) + 10 * len(seconds)
    for at, (run, time) in enumerate(seconds.items()):
        tally.take(Event("start", run))
        if at >= 2:
            assert total - now < 1.5 * tally.estimate_left() < 1.5**2 * (total - now)
        now += time
        tally.take(Event("done", run))
        now += 10
    assert tally.estimate_left() == 0


def test_the_line_of_a_finished_run_has_its_main_score_and_at_most_100_characters(
    tmp_path: Path,
) -> None:
    plan = Plan(tmp_path, 1)
    long = f"rankcse[teachers={'run:simcse/toy/toy-bert/seed-0+' * 4}x]/toy/toy-bert/seed-1"
    ended = plan.after(5, Event("done", long, result=result("mcse", 1)))
    assert len(ended) == 1
    assert len(ended[0]) <= 100
    assert ended[0].endswith("seed-1  sts: spearman 71.00  12.5 s")


def test_what_is_not_planned_is_shown_and_not_counted(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 2)
    plan.at(0, Event("prepare", "features", stage=Stage("features", "clip", 1, 4)))
    plan.at(1, Event("progress", "teacher", progress=trained(50)))
    assert plan.states == (0, 0, 0, 2)
    assert [work.key for work in plan.tally.list_slowest()] == ["features", "teacher"]
    plan.at(2, Event("prepared", "teacher"))
    assert [work.key for work in plan.tally.list_slowest()] == ["features"], (
        "the teacher is trained and says no more"
    )
    plan.at(3, Event("prepared", "features"), Event("prepared", "tokens that were there"))
    assert not plan.tally.list_slowest()


def test_a_view_counts_runs_by_state_and_shows_the_slowest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan(Path("results"), 12)
    plan.at(0, plan.start(0))
    plan.at(60, plan.start(1), plan.start(2))
    plan.at(70, plan.fail(2), Event("progress", key(0), progress=trained(50)))
    plan.at(
        80,
        done(1),
        plan.start(3),
        Event("suite", key(3), suite="sts"),
        Event("start", "tokens of wiki"),
    )
    lines = [" ".join(line.split()) for line in plan.shown(width=90)]
    assert lines == [
        f"2 of 12 runs {'━' * 12}╸ 2 min 44 s left",
        "1 done 1 failed 2 running 8 waiting 1 preparing 45.0 runs/h for 1 min 20 s",
        f"{key(0)} {'━' * 8} 1 min 20 s",
        "step 50/100 25.0 s left 2.0 steps/s dev 71.23 text 1.00…",
        f"{key(3)} 0.0 s",
        "evaluating sts",
        "tokens of wiki 0.0 s",
        "loading",
        f"{key(2)} failed",
        f"log results/.work/{digest(0)[:32]}/run.log",
    ]
    assert [line.rstrip() for line in plan.shown(height=6)][5:] == [lines[-1], "2 more in progress"]


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
        assert lines[2:4] == [
            "mcse[imag…d/seed-0            1 min 40 s",
            "  step 1/100  49.5 …".ljust(40),
        ]
        assert lines[-3:-2] == ["mcse[imag…/seed-64                failed"]


def test_messages_of_logging_appear_where_standard_error_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler keeps the stream of its making, which a live view does not see."""
    before, during = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", before)
    handler = logging.StreamHandler(before)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(sys, "stderr", during)
    with print_logs_above():
        logging.getLogger("x").warning("during")
    logging.getLogger("x").warning("after")
    assert (before.getvalue(), during.getvalue()) == ("after\n", "during\n")
