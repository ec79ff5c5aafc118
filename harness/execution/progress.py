"""Live progress of runs: an updated table in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.execution.events import Event, Listener
from harness.execution.log import preparation_text
from harness.formatting import duration
from harness.metrics import AVERAGE
from harness.store import Result
from harness.training.record import TrainingProgress

#: Seconds between two plain lines about the training of one run.
LINE_EVERY_S = 10.0
#: Tables drawn per second.
FRAMES = 4


@contextmanager
def display(total: int, console: Console | None = None) -> Iterator[Listener]:
    """Return a listener that shows the progress of `total` runs on a console, by default standard output."""
    console = console or Console()
    if console.is_jupyter:
        notebook = _Notebook(total)
        yield notebook.show
        notebook.draw()
    elif console.file.isatty():
        table = _Rows(total, console)
        with Live(console=console, get_renderable=table.grid, refresh_per_second=FRAMES, transient=True):
            yield table.show
    else:
        yield _Lines(total, console).show


class _Lines:
    """One line at the start, at the end and every LINE_EVERY_S seconds of a run."""

    def __init__(self, total: int, console: Console) -> None:
        self.total, self.console, self.ended = total, console, 0
        self.last: dict[str, float] = {}

    def show(self, event: Event) -> None:
        if event.progress is not None:
            now = time.monotonic()
            if now - self.last.get(event.run, now - LINE_EVERY_S) >= LINE_EVERY_S:
                self.last[event.run] = now
                self.line(f"{event.run}  {_doing(event)}")
        elif event.kind in ("done", "failed"):
            self.ended += 1
            end = f"FAILED: {event.error}" if event.result is None else _result_text(event.result)
            self.line(f"[{self.ended}/{self.total}] {event.run}  {end}")
        elif event.kind == "start":
            self.line(f"{event.run}  starts")
        elif event.kind == "suite":
            self.line(f"{event.run}  {_doing(event)}")

    def line(self, text: str) -> None:
        """Print a line as it is, however long."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class _Rows(_Lines):
    """A row for each run in progress; a finished run is printed above."""

    def __init__(self, total: int, console: Console) -> None:
        super().__init__(total, console)
        self.rows: dict[str, Event] = {}

    def show(self, event: Event) -> None:
        if event.kind in ("done", "failed"):
            self.rows.pop(event.run, None)
            super().show(event)
        elif event.kind != "evaluated":
            self.rows[event.run] = event

    def grid(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for run, event in self.rows.items():
            made = event.progress
            bar = "" if made is None else ProgressBar(made.steps, made.step, width=20)
            grid.add_row(Text(run), bar, _doing(event))
        return grid


class _Notebook(_Rows):
    """One output of a notebook cell, redrawn FRAMES times a second at most: finished runs, then those in progress."""

    def __init__(self, total: int) -> None:
        from IPython.display import display as show_output

        super().__init__(total, Console())
        self.ends: list[str] = []
        self.output: Any = show_output(self.grid(), display_id=True)
        self.drawn = time.monotonic()

    def show(self, event: Event) -> None:
        super().show(event)
        if time.monotonic() - self.drawn >= 1 / FRAMES:
            self.draw()

    def line(self, text: str) -> None:
        self.ends.append(text)

    def draw(self) -> None:
        whole = Table.grid()
        for text in self.ends:
            whole.add_row(Text(text))
        whole.add_row(self.grid())
        self.output.update(whole)
        self.drawn = time.monotonic()


def progress_text(progress: TrainingProgress) -> str:
    """Step, loss terms, dev score, rate and time left."""
    parts = [f"step {progress.step}/{progress.steps}"]
    parts += [f"{name} {value:.3f}" for name, value in progress.terms.items()]
    if progress.dev is not None:
        parts.append(f"dev {progress.dev:.2f}")
    left = (progress.steps - progress.step) / progress.rate
    return "  ".join([*parts, f"{progress.rate:.1f} steps/s", f"{duration(left)} left"])


def _doing(event: Event) -> str:
    if event.progress is not None:
        return progress_text(event.progress)
    if event.preparation is not None:
        return preparation_text(event.preparation)
    return f"evaluating {event.suite}" if event.kind == "suite" else "loading"


def _result_text(result: Result) -> str:
    parts = []
    for evaluation in result.current:
        means = "  ".join(f"{metric} {value:.2f}" for metric, value in evaluation.scores.get(AVERAGE, {}).items())
        parts.append(f"{evaluation.suite}: {means}")
    return " | ".join([*parts, duration(result.seconds)])
