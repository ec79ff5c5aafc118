"""Live progress of runs: a moving table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from harness.execution.worker import Event, Report
from harness.formatting import duration
from harness.metrics import AVERAGE
from harness.store import Result
from harness.training.trainer import Progress

#: Seconds between two plain lines about one run.
QUIET_S = 10.0


@contextmanager
def display(total: int) -> Iterator[Report]:
    """Give a reporter of events that shows `total` runs on their way."""
    if not sys.stdout.isatty():
        yield _Plain(total).report
        return
    console = Console()
    moving = _Moving(total, console)
    with Live(console=console, get_renderable=moving.table, refresh_per_second=4, transient=True):
        yield moving.report


class _Plain:
    """One line at the start, the end and every QUIET_S seconds of a run."""

    def __init__(self, total: int) -> None:
        self.total, self.ended = total, 0
        self.last: dict[str, float] = {}

    def report(self, event: Event) -> None:
        if event.kind == "progress" and event.progress is not None:
            now = time.monotonic()
            if now - self.last.get(event.key, now - QUIET_S) >= QUIET_S:
                self.last[event.key] = now
                click.echo(f"{event.key}  {progress_text(event.progress)}")
            return
        if event.kind == "teaching":
            return
        self.ended += event.kind in ("done", "failed")
        click.echo(event_text(event, self.ended, self.total))


#: what a run without a bar is doing, by the kind of its last event
_DOING = {"start": "loading", "teaching": "{event.text}", "suite": "evaluating {event.suite}"}


class _Moving:
    """A row for each run on its way; what ended scrolls by above."""

    def __init__(self, total: int, console: Console) -> None:
        self.total, self.console, self.ended = total, console, 0
        self.rows: dict[str, Event] = {}

    def report(self, event: Event) -> None:
        if event.kind in ("done", "failed"):
            self.ended += 1
            self.rows.pop(event.key, None)
            self.console.print(event_text(event, self.ended, self.total), highlight=False, markup=False)
        else:
            self.rows[event.key] = event

    def table(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for key, event in self.rows.items():
            if event.progress is None:
                grid.add_row(key, "", _DOING[event.kind].format(event=event))
            else:
                bar = ProgressBar(event.progress.steps, event.progress.step, width=20)
                grid.add_row(key, bar, progress_text(event.progress))
        return grid


def progress_text(progress: Progress) -> str:
    """Step, loss terms, dev score, rate and time left."""
    parts = [f"step {progress.step}/{progress.steps}"]
    parts += [f"{name} {value:.3f}" for name, value in progress.terms.items()]
    if progress.dev is not None:
        parts.append(f"dev {progress.dev:.2f}")
    left = (progress.steps - progress.step) / progress.rate
    return "  ".join([*parts, f"{progress.rate:.1f} steps/s", f"{duration(left)} left"])


def event_text(event: Event, ended: int, total: int) -> str:
    """A line about a start, a suite or an end."""
    if event.kind == "start":
        return f"{event.key}  starts"
    if event.kind == "suite":
        return f"{event.key}  evaluating {event.suite}"
    if event.kind == "failed":
        return f"[{ended}/{total}] {event.key}  FAILED: {event.text}"
    return f"[{ended}/{total}] {event.key}  {_result_text(event.result) if event.result else ''}"


def _result_text(result: Result) -> str:
    parts = []
    for evaluation in result.current:
        means = "  ".join(f"{metric} {value:.2f}" for metric, value in evaluation.scores.get(AVERAGE, {}).items())
        parts.append(f"{evaluation.suite}: {means}")
    return " | ".join([*parts, duration(result.seconds)])
