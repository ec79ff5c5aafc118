"""Live progress of runs: an updated table in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.execution.events import Event, Listener, Stage
from harness.execution.log import stage_text
from harness.formatting import duration
from harness.metrics import AVERAGE
from harness.store import Result
from harness.training.record import TrainingProgress

#: Seconds between two plain lines about one run, and without any after which it says again what it is doing.
LINE_EVERY_S, SILENCE_S = 10.0, 25.0
#: Seconds between two looks at how long runs have been silent.
LOOK_S = 1.0
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
        lines = Lines(total, console)
        with _looked_at(lines):
            yield lines.show


@contextmanager
def _looked_at(lines: Lines) -> Iterator[None]:
    """Let runs that are silent for long speak again, from a thread."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            lines.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Pace:
    """Rate and time left of counted work, since the first report of each kind of work on a subject."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: time and count of the first report, and the last count
        self._since: dict[tuple[str, str, str], tuple[float, int, int]] = {}

    def text(self, run: str, stage: Stage) -> str:
        """Describe how far work is, with its rate and the time left where they are known."""
        key, now = (run, stage.what, stage.subject), self._clock()
        start, before, last = self._since.get(key, (now, stage.done, stage.done))
        if stage.done < last:  # the same work on other rows
            start, before = now, stage.done
        self._since[key] = start, before, stage.done
        parts = [stage_text(stage)]
        if now > start and stage.done > before:
            rate = (stage.done - before) / (now - start)
            parts += [f"{rate:.1f}/s"] if stage.what != "tasks" else []
            parts += [f"{duration((stage.total - stage.done) / rate)} left"] if stage.total is not None else []
        return "  ".join(parts)


class Lines:
    """Plain lines: of each run its start, suites and end, and what it is doing every LINE_EVERY_S to SILENCE_S seconds.

    A stage that reports nothing for long repeats its last line.
    """

    def __init__(self, total: int, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.console, self.ended, self.clock = total, console, 0, clock
        self.pace, self.lock = Pace(clock), threading.Lock()
        #: of each run in progress, when it last had a line, what it is doing, and whether that is training
        self.last: dict[str, float] = {}
        self.doing: dict[str, str] = {}
        self.training: set[str] = set()

    def show(self, event: Event) -> None:
        """Print a line about an event if it is due."""
        with self.lock:
            if event.kind in ("done", "failed"):
                self.doing.pop(event.run, None)
                self.line(self.end(event))
            elif event.kind == "prepared":
                self.doing.pop(event.run, None)
            elif event.kind == "start":
                self.doing[event.run] = "loading"
                self.say(event.run, "starts")
            elif event.kind != "evaluated":
                self.doing[event.run] = _doing(event, self.pace)
                if event.kind == "suite" or self.is_due(event):
                    self.say(event.run, self.doing[event.run])

    def look(self) -> None:
        """Print what the runs are doing that have had no line for SILENCE_S seconds."""
        with self.lock:
            for run, doing in self.doing.items():
                if self.clock() - self.last.get(run, 0.0) >= SILENCE_S:
                    self.say(run, doing)

    def is_due(self, event: Event) -> bool:
        """Whether a run's last line is old enough; its first line about training is always due."""
        first = event.progress is not None and event.run not in self.training
        if event.progress is not None:
            self.training.add(event.run)
        return first or self.clock() - self.last.get(event.run, 0.0) >= LINE_EVERY_S

    def say(self, run: str, text: str) -> None:
        """Print a line about a run."""
        self.last[run] = self.clock()
        self.line(f"{run}  {text}")

    def end(self, event: Event) -> str:
        """Count a run that ended and describe its end."""
        self.ended += 1
        end = f"FAILED: {event.error}" if event.result is None else _result_text(event.result)
        return f"[{self.ended}/{self.total}] {event.run}  {end}"

    def line(self, text: str) -> None:
        """Print a line as it is, however long."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


class _Rows(Lines):
    """A row for each run in progress; a finished run is printed above."""

    def __init__(self, total: int, console: Console) -> None:
        super().__init__(total, console)
        self.rows: dict[str, tuple[Event, str]] = {}

    def show(self, event: Event) -> None:
        if event.kind in ("done", "failed"):
            self.rows.pop(event.run, None)
            self.line(self.end(event))
        elif event.kind == "prepared":
            self.rows.pop(event.run, None)
        elif event.kind != "evaluated":
            self.rows[event.run] = event, _doing(event, self.pace)

    def grid(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for run, (event, doing) in self.rows.items():
            made = event.progress
            bar = "" if made is None else ProgressBar(made.steps, made.step, width=20)
            grid.add_row(Text(run), bar, Text(doing))
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


def _doing(event: Event, pace: Pace) -> str:
    if event.progress is not None:
        return progress_text(event.progress)
    if event.stage is not None:
        return pace.text(event.run, event.stage)
    return f"evaluating {event.suite}" if event.kind == "suite" else "loading"


def _result_text(result: Result) -> str:
    parts = []
    for evaluation in result.current:
        means = "  ".join(f"{metric} {value:.2f}" for metric, value in evaluation.scores.get(AVERAGE, {}).items())
        parts.append(f"{evaluation.suite}: {means}")
    return " | ".join([*parts, duration(result.seconds)])
