"""What a person sees of runs: plain lines, a table in a terminal, one updated output in a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from harness.execution import progress
from harness.execution.events import Event, Listener, Preparation
from harness.execution.progress import display, progress_text
from harness.training.record import TrainingProgress

RUN = "mcse[images=shuffled]/toy/toy-bert/seed-0"
HALF = TrainingProgress(50, 100, 12.5, {"text": 1.23456}, 71.234, scored=True)


def report(listen: Listener) -> None:
    listen(Event("start", RUN, device="cpu"))
    listen(Event("prepare", RUN, preparation=Preparation("features", "clip: features of images", 5, 10)))
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
    assert progress_text(HALF) == "step 50/100  text 1.235  dev 71.23  12.5 steps/s  4.0 s left"


def test_plain_lines_where_nobody_watches() -> None:
    out = io.StringIO()
    with display(3, Console(file=out, width=20)) as listen:
        report(listen)
    assert out.getvalue().splitlines() == [
        f"{RUN}  starts",
        f"{RUN}  {progress_text(HALF)}",
        f"{RUN}  evaluating sts",
        f"[1/3] {RUN}  FAILED: OSError: [disk] full",
    ]


def test_a_terminal_shows_a_row_per_run_and_keeps_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with display(1, Console(file=out, width=120, force_terminal=True)) as listen:
        listen(Event("progress", RUN, progress=HALF))
        listen(Event("start", "another"))
        listen(Event("failed", "another", error="stopped"))
    assert "step 50/100" in out.getvalue()
    assert RUN in out.getvalue()
    assert "[1/1] another  FAILED: stopped" in out.getvalue()


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

    with capture_output() as captured, display(1, Console(force_jupyter=True)) as listen:
        report(listen)
    texts = [output.data["text/plain"] for output in captured.outputs]
    assert any("clip: features of images 5/10" in text for text in texts)
    assert any("step 50/100" in text for text in texts)
    assert "FAILED: OSError: [disk] full" in texts[-1]
    assert all("text/html" in output.data for output in captured.outputs)
    assert [output.update for output in captured.outputs] == [False] + [True] * (len(texts) - 1)
    assert captured.stdout == ""
