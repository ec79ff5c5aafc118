"""What a person sees of runs: plain lines, a table in a terminal, one updated output in a notebook."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.planning.events import Event, EventKind, Listener, Stage
from harness.store import Store
from harness.training.record import TrainingProgress
from harness.work import progress
from harness.work.progress import LOOK_S, SILENCE_S, Lines, display
from harness.work.tally import Tally, progress_text

RUN = "mcse[images=shuffled]/toy/toy-bert/seed-0"
#: fingerprints of the runs to do
PLANNED = {RUN: "a" * 64, "another": "b" * 64, "a third": "c" * 64}
NOWHERE = Store(Path("nowhere"))
HALF = TrainingProgress(50, 100, 12.5, {"text": 1.23456}, 71.234, scored=True)


def report(listen: Listener) -> None:
    listen(Event("start", RUN, device="cpu"))
    listen(Event("prepare", RUN, stage=Stage("features", "clip: features of images", 5, 10)))
    listen(Event("progress", RUN, progress=HALF))
    listen(Event("progress", RUN, progress=HALF))
    listen(Event("suite", RUN, suite="sts"))
    listen(Event("evaluated", RUN, suite="sts", seconds=1.0))
    listen(Event("failed", RUN, error="OSError: [disk] full"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_in_words() -> None:
    assert progress_text(HALF) == "step 50/100  4.0 s left  12.5 steps/s  dev 71.23  text 1.235"


def test_plain_lines_where_nobody_watches() -> None:
    out = io.StringIO()
    with display(PLANNED, NOWHERE, Console(file=out, width=20)) as listen:
        report(listen)
    assert out.getvalue().splitlines() == [
        f"{RUN}  starts",
        f"{RUN}  {progress_text(HALF)}",
        f"{RUN}  evaluating sts",
        f"[1/3] {RUN}  FAILED: OSError: [disk] full",
    ]


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_long_stages_speak_with_rate_and_time_left_and_silent_ones_repeat_themselves() -> None:
    """No run is silent for 30 s, whether its stages report or not."""
    out, clock = io.StringIO(), Clock()
    lines = Lines(Tally({RUN: "a" * 64}, NOWHERE, clock), Console(file=out, width=20), clock)
    images = "clip: features of images"

    def after(seconds: float, event: Event | None = None) -> list[str]:
        """The new lines after a while, of an event or of a look at the silence."""
        before = len(out.getvalue())
        clock.now += seconds
        lines.look() if event is None else lines.show(event)
        return [line.removeprefix(f"{RUN}  ") for line in out.getvalue()[before:].splitlines()]

    def stage(kind: EventKind, *about: Any) -> Event:
        return Event(kind, RUN, stage=Stage(*about))

    assert after(0, Event("start", RUN, device="cpu")) == ["starts"]
    assert after(SILENCE_S - 1) == []
    assert after(1) == ["loading"]
    assert after(3, stage("prepare", "features", images, 1000, 4000)) == []
    assert after(SILENCE_S - 3) == [f"{images} 1000/4000"]
    assert after(18, stage("prepare", "features", images, 2000, 4000)) == [
        f"{images} 2000/4000  25.0/s  1 min 20 s left"
    ]
    assert after(1, stage("prepare", "tokens", "wiki", 0, None)) == []
    assert after(10, stage("prepare", "tokens", "wiki", 5000, None)) == ["wiki: 5000 sentences tokenised  500.0/s"]
    assert after(1, Event("suite", RUN, suite="transfer")) == ["evaluating transfer"]
    assert after(1, stage("evaluate", "sentences", "transfer", 0, 900)) == []
    assert after(9, stage("evaluate", "sentences", "transfer", 450, 900)) == [
        "transfer: 450/900 sentences embedded  50.0/s  9.0 s left"
    ]
    assert after(1, stage("evaluate", "tasks", "transfer", 0, 3, "MR")) == []
    assert after(59, stage("evaluate", "tasks", "transfer", 1, 3, "CR")) == [
        "transfer: CR, 1/3 tasks done  1 min 58 s left"
    ]
    assert after(12, stage("evaluate", "sentences", "transfer", 0, 70)) == ["transfer: 0/70 sentences embedded"]
    assert after(10, stage("evaluate", "sentences", "transfer", 20, 70)) == [
        "transfer: 20/70 sentences embedded  2.0/s  25.0 s left"
    ]
    assert after(SILENCE_S) == ["transfer: 20/70 sentences embedded  2.0/s  25.0 s left"]
    assert len(after(0, Event("failed", RUN, error="disk full"))) == 1
    assert after(10 * SILENCE_S) == [], "a run that ended is silent"
    assert SILENCE_S + LOOK_S <= 30


def test_waiting_for_the_first_run_is_not_silent() -> None:
    out, clock = io.StringIO(), Clock()
    lines = Lines(Tally({RUN: "a" * 64}, NOWHERE, clock), Console(file=out, width=20), clock)
    for _ in range(2):
        clock.now += SILENCE_S - 1
        lines.look()
        clock.now += 1
        lines.look()
    assert out.getvalue() == "[0/1] 0 done, 0 failed, 0 running, 1 waiting\n" * 2


def test_many_runs_share_one_line() -> None:
    """Sixty lines every ten seconds would bury the ends of runs and what failed."""
    out, clock = io.StringIO(), Clock()
    planned = {f"mcse/toy/toy-bert/seed-{seed}": f"{seed:064x}" for seed in range(70)}
    lines = Lines(Tally(planned, NOWHERE, clock), Console(file=out, width=20), clock)
    for key in list(planned)[:60]:
        lines.show(Event("start", key, device="cpu"))
    clock.now += 11
    for _ in range(3):
        for key in list(planned)[:60]:
            lines.show(Event("progress", key, progress=HALF))
        lines.look()
    clock.now += 9
    lines.look()
    clock.now += 1
    lines.look()
    told = [line for line in out.getvalue().splitlines() if not line.endswith("starts")]
    slowest = "slowest mcse/toy/toy-bert/seed-0"
    # runs take 15 s: 4 s are left of each of 60, and 10 wait
    assert told[0].startswith(f"[0/70] 0 done, 0 failed, 60 running, 10 waiting, 6.5 s left; {slowest}, 11.0 s: step")
    assert len(told) == 2
    assert f"{slowest}, 21.0 s: {progress_text(HALF)}" in told[1]


def test_silence_is_broken_while_nothing_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENCE_S", 0.0)
    monkeypatch.setattr(progress, "LOOK_S", 0.001)
    out = io.StringIO()
    spoken = threading.Event()
    monkeypatch.setattr(Lines, "say", lambda lines, run, text: spoken.set() if text == "loading" else None)
    with display(PLANNED, NOWHERE, Console(file=out)) as listen:
        listen(Event("start", RUN, device="cpu"))
        assert spoken.wait(60), "nothing is said without an event"
    assert not [one for one in threading.enumerate() if "look" in one.name], "its thread ends with the display"


def test_a_terminal_shows_a_row_per_run_and_keeps_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with display(PLANNED, NOWHERE, Console(file=out, width=120, force_terminal=True)) as listen:
        listen(Event("progress", RUN, progress=HALF))
        listen(Event("start", "another"))
        listen(Event("failed", "another", error="stopped"))
    assert "step 50/100" in out.getvalue()
    assert RUN in out.getvalue()
    assert "[1/3, 8.0 s left] another  FAILED: stopped" in out.getvalue()


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A shell that publishes outputs, as that of a notebook."""
    shell = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed").InteractiveShell
    monkeypatch.setattr(progress, "FRAMES", 10**9)
    shell.instance()
    yield
    shell.clear_instance()


@pytest.mark.usefixtures("notebook")
def test_a_notebook_has_one_output_that_is_updated_in_place() -> None:
    from IPython.utils.capture import capture_output

    with capture_output() as captured, display(PLANNED, NOWHERE, Console(force_jupyter=True)) as listen:
        report(listen)
    texts = [output.data["text/plain"] for output in captured.outputs]
    assert any("clip: features of images 5/10" in text for text in texts)
    assert any("step 50/100" in text for text in texts)
    assert "FAILED: OSError: [disk] full" in texts[-1]
    assert all("text/html" in output.data for output in captured.outputs)
    assert [output.update for output in captured.outputs] == [False] + [True] * (len(texts) - 1)
    assert captured.stdout == ""
