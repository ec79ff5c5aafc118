"""Live progress of runs: an updated view in a terminal or a notebook, plain lines elsewhere.

The view shows the number of runs in each state, the slowest runs, and the failed ones."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from harness.events import Event, Listener
from harness.formatting import count_of, duration, fixed, one_line, visible
from harness.store import Store
from harness.work.tally import Tally, Work, format_result

#: Failed runs that are shown; all of them are printed as they fail.
FAILED_SHOWN = 3
#: Most characters of the line of a finished run, and the least that its key has of them.
LONGEST_LINE = 100
NARROW_KEY = 24
#: Columns of the bar of one run, and of its time.
BAR = 16
TIME = 12

#: Least seconds between two plain lines about one run, and seconds of silence after which its state
#: is printed again.
LINE_EVERY_S = 10.0
SILENCE_S = 25.0
#: Number of runs in progress above which plain lines sum up all of them.
CROWD = 8
#: Seconds between two checks for silent runs.
LOOK_S = 1.0
#: Views drawn per second.
FRAMES = 4


def view(tally: Tally, width: int, height: int) -> Group:
    """Draw a tally as it is now, in at most `width` columns and `height` lines: the longest-running
    run first.
    """
    works = tally.list_slowest()
    failed = tally.failed[-FAILED_SHOWN:]
    # four lines are the whole, the counts, the log of the first, and the number of runs that do not
    # fit
    works_that_fit = works[: max(1, (height - 4 - len(failed)) // 2)]

    last_lines = []
    log = tally.log(works[0].key) if works else None
    if log:
        last_lines.append(f"log {log}")
    hidden = []
    if len(works) > len(works_that_fit):
        hidden.append(f"{len(works) - len(works_that_fit)} more in progress")
    if len(tally.failed) > len(failed):
        hidden.append(f"{len(tally.failed) - len(failed)} more failed")
    if hidden:
        last_lines.append(" and ".join(hidden))
    return Group(
        _draw_total(tally),
        _draw_counts(tally),
        _draw_runs(works_that_fit, failed, tally.clock(), width),
        *(Text(line, "dim", no_wrap=True, overflow="ellipsis") for line in last_lines),
    )


def _draw_runs(works: Sequence[Work], failed: Sequence[str], now: float, width: int) -> Table:
    """A row for each run: its key and what it does, its bar, its time."""
    bar_width = min(BAR, width // 5)
    key_width = max(4, width - bar_width - TIME - 2)
    rows = Table.grid(
        Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        Column(width=bar_width),
        Column(justify="right"),
        padding=(0, 1),
        expand=True,
    )
    for work in works:
        key = _shorten_key(work.key, key_width)
        text = Text.assemble((key, "cyan"), f"\n  {visible(work.doing)}")
        training = work.training
        bar = ProgressBar(training.steps, training.step) if training else ""
        rows.add_row(text, bar, duration(now - work.since))

    for failed_key in failed:
        text = Text(_shorten_key(failed_key, key_width), "red")
        rows.add_row(text, "", Text("failed", "bold red"))
    return rows


def _draw_total(tally: Tally) -> Table:
    seconds_left = tally.estimate_left()
    time_left = "" if seconds_left is None else f"{duration(seconds_left)} left"
    bar = ProgressBar(max(1, tally.total), tally.completed)
    row = Table.grid(Column(), Column(ratio=1), Column(), padding=(0, 1), expand=True)
    count = f"{tally.ended} of {count_of(tally.total, 'run')}"
    row.add_row(count, bar, time_left, style="bold")
    return row


def _draw_counts(tally: Tally) -> Text:
    counts = [
        _draw_count(tally.done, "done", "green"),
        _draw_count(len(tally.failed), "failed", "bold red"),
        _draw_count(len(tally.active), "running", "cyan"),
        _draw_count(tally.waiting, "waiting", ""),
    ]
    if tally.preparing:
        counts.append(_draw_count(tally.preparing, "preparing", "cyan"))
    text = Text("  ", no_wrap=True, overflow="ellipsis").join(counts)
    if tally.rate is not None:
        text.append(f"  {fixed(tally.rate, 1)} runs/h")
    return text.append(f"  for {duration(tally.clock() - tally.began)}", "dim")


def _draw_count(number: int, state: str, style: str) -> Text:
    return Text(f"{number} {state}", style if number else "dim")


@contextmanager
def print_logs_above() -> Iterator[None]:
    """Print messages of `logging` through the current standard error, so that a live view shows
    them above itself.

    Otherwise the handlers keep the stream that was standard error when they were made.
    """
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.__stderr__
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(sys.__stderr__)


def _shorten_key(key: str, width: int) -> str:
    """A key in at most `width` columns, without its middle: its ends tell runs apart."""
    text = visible(key)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


@contextmanager
def display(
    planned: Mapping[str, str], store: Store, console: Console | None = None
) -> Iterator[Listener]:
    """Return a listener that shows the progress of runs on a console, by default standard output.

    `planned` are the fingerprints of the runs by their keys.
    """
    console = console or Console()
    tally = Tally(planned, store)
    if console.is_jupyter:
        notebook = _Notebook(tally)
        yield notebook.show
        notebook.draw()
    elif console.file.isatty():

        def draw() -> Group:
            return view(tally, console.width, console.height - 1)

        live = Live(console=console, get_renderable=draw, refresh_per_second=FRAMES, transient=True)
        with live, print_logs_above():
            yield _Ends(tally, console).show
    else:
        lines = Lines(tally, console)
        with _watch_silence(lines):
            yield lines.show


@contextmanager
def _watch_silence(lines: Lines) -> Iterator[None]:
    """Print the state of runs that have been silent for long, from a thread."""
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(LOOK_S):
            lines.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class _Ends:
    """Prints a line for each run that ends."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally = tally
        self.console = console
        self.lock = threading.Lock()

    def show(self, event: Event) -> None:
        with self.lock:
            self.tally.take(event)
            if event.kind in ("done", "failed"):
                self.print_line(self.format_end(event))
            else:
                self.take_other(event)

    def take_other(self, event: Event) -> None:
        """Record an event that is not the end of a run; the lock is held."""

    def format_end(self, event: Event) -> str:
        tally = self.tally
        count = f"{tally.ended}/{tally.total}"
        seconds_left = tally.estimate_left()
        if tally.ended < tally.total and seconds_left:
            count += f", {duration(seconds_left)} left"

        if event.result is not None:
            text = format_result(event.result)
            # a line of a log is read beside others; the summary at the end has the whole names
            width = max(NARROW_KEY, LONGEST_LINE - len(f"[{count}]   {text}"))
            return f"[{count}] {_shorten_key(event.run, width)}  {text}"

        log = tally.log(event.run)
        log_text = f"; log: {log}" if log else ""
        return f"[{count}] {event.run}  FAILED: {event.error}{log_text}"

    def print_line(self, text: str) -> None:
        self.console.print(one_line(text), highlight=False, markup=False, soft_wrap=True)


class Lines(_Ends):
    """Plain lines: of each run its start, suites and end, and what it is doing every LINE_EVERY_S
    to SILENCE_S seconds.

    A stage that reports nothing for long repeats its last line. With more than CROWD runs in
    progress, one line about all of them replaces the lines about each.
    """

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally, console)
        self.clock = tally.clock
        #: the time of each run's last line, and the runs that had a line about their training
        self.last: dict[str, float] = {}
        self.training: set[str] = set()
        self.summed = self.clock()

    def take_other(self, event: Event) -> None:
        work = self.tally.running.get(event.run)
        if event.kind == "start":
            self.say(event.run, "starts")
        elif len(self.tally.running) > CROWD:
            self.print_summary()
        elif work and (event.kind == "suite" or self.is_due(event)):
            self.say(event.run, work.doing)

    def look(self) -> None:
        """Print the current work of each run that has had no line for SILENCE_S seconds."""
        with self.lock:
            if len(self.tally.running) > CROWD:
                self.print_summary()
                return

            is_silent = self.clock() - self.summed >= SILENCE_S
            if self.tally.waiting and not self.tally.running and is_silent:
                self.print_summary()  # processes are starting, or other commands execute the runs
            for run, work in self.tally.running.items():
                if self.clock() - self.last.get(run, 0.0) >= SILENCE_S:
                    self.say(run, work.doing)

    def print_summary(self) -> None:
        """Print a line about all runs every LINE_EVERY_S seconds."""
        if self.clock() - self.summed >= LINE_EVERY_S:
            self.summed = self.clock()
            self.print_line(self.tally.summarise())

    def is_due(self, event: Event) -> bool:
        """Whether a run's last line is old enough; its first line about training is always due."""
        if event.progress is not None and event.run not in self.training:
            self.training.add(event.run)
            return True
        return self.clock() - self.last.get(event.run, 0.0) >= LINE_EVERY_S

    def say(self, run: str, text: str) -> None:
        self.last[run] = self.clock()
        self.print_line(f"{run}  {text}")


class _Notebook(_Ends):
    """One output of a notebook cell, redrawn FRAMES times a second at most: finished runs, then
    those in progress.
    """

    def __init__(self, tally: Tally) -> None:
        from IPython.display import display as show_output

        super().__init__(tally, Console())
        self.ends: list[str] = []
        self.output: Any = show_output(self.draw_all(), display_id=True)
        self.updated = time.monotonic()

    def take_other(self, event: Event) -> None:
        if time.monotonic() - self.updated >= 1 / FRAMES:
            self.draw()

    def print_line(self, text: str) -> None:
        self.ends.append(one_line(text))

    def draw_all(self) -> Table:  # which a notebook can show, unlike a group
        """The lines of runs that have ended, then the view."""
        now = view(self.tally, self.console.width, self.console.height)
        table = Table.grid()
        table.add_row(Group(*map(Text, self.ends), now))
        return table

    def draw(self) -> None:
        self.output.update(self.draw_all())
        self.updated = time.monotonic()
