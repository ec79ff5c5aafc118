"""Live progress of runs: an updated view in a terminal or a notebook, plain lines elsewhere.

The view shows the number of runs in each state, the slowest runs, and the failed ones."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.events import Event, Listener
from harness.formatting import count_of, duration, fixed, one_line, visible
from harness.store import Store
from harness.work.tally import Tally, Work, result_text

#: Failed runs that are shown; all of them are printed as they fail.
FAILED_SHOWN = 3
#: Columns of the bar of one run.
BAR = 16

#: Least seconds between two plain lines about one run, and seconds of silence after which its state is printed again.
LINE_EVERY_S, SILENCE_S = 10.0, 25.0
#: Number of runs in progress above which plain lines sum up all of them.
CROWD = 8
#: Seconds between two checks for silent runs.
LOOK_S = 1.0
#: Views drawn per second.
FRAMES = 4


def view(tally: Tally, width: int, height: int) -> Group:
    """Draw a tally as it is now, in at most `width` columns and `height` lines."""
    failed = list(_failed(tally, width))
    rest = height - 2 - len(failed)
    return Group(_header(tally, width), _counts(tally), *_running(tally, width, rest), *failed)


def _header(tally: Tally, width: int) -> Text:
    left = tally.left()
    ended, over = f"{tally.ended} of {count_of(tally.total, 'run')} ", "" if left is None else f" {duration(left)} left"
    bar = _bar(tally.completed / max(1, tally.total), max(0, width - len(ended) - len(over)))
    return _fitted(Text(ended, "bold").append_text(bar).append(over, "bold"))


def _counts(tally: Tally) -> Text:
    states = [(tally.done, "done", "green"), (len(tally.failed), "failed", "bold red"),
              (len(tally.active), "running", "cyan"), (tally.waiting, "waiting", "")]  # fmt: skip
    states += [(tally.preparing, "preparing", "cyan")] if tally.preparing else []
    text = Text("  ").join(Text(f"{number} {name}", style if number else "dim") for number, name, style in states)
    if tally.rate is not None:
        text.append(f"  {fixed(tally.rate, 1)} runs/h")
    text.append(f"  for {duration(tally.clock() - tally.began)}", "dim")
    return _fitted(text)


def _running(tally: Tally, width: int, height: int) -> Iterator[Text]:
    """Two lines per run, the longest-running first, and the log of the first."""
    works = tally.slowest()
    if not works:
        return
    # three lines are the title, the log, and the count of runs that do not fit
    fit = max(1, (height - 3) // 2)
    yield _fitted(Text("slowest first" if len(works) > 1 else "in progress", "dim"))
    for index, work in enumerate(works[:fit]):
        yield _ends(work.key, duration(tally.clock() - work.since), width, "cyan")
        yield _doing(work)
        if index == 0 and (log := tally.log(work.key)):
            yield _fitted(Text(f"  log {log}", "dim"))
    if len(works) > fit:
        yield _fitted(Text(f"and {len(works) - fit} more in progress", "dim"))


def _doing(work: Work) -> Text:
    line = Text("  ")
    if work.training:
        line.append_text(_bar(work.training.step / work.training.steps, BAR)).append("  ")
    return _fitted(line.append(work.doing))


def _failed(tally: Tally, width: int) -> Iterator[Text]:
    for key in tally.failed[-FAILED_SHOWN:]:
        yield _ends(key, "failed", width, "red")
        if log := tally.log(key):
            yield _fitted(Text(f"  log {log}", "dim"))
    if (more := len(tally.failed) - FAILED_SHOWN) > 0:
        yield _fitted(Text(f"and {more} more failed", "red"))


@contextmanager
def logging_above() -> Iterator[None]:
    """Print messages of `logging` through the current standard error, so that a live view shows them above itself.

    Otherwise the handlers keep the stream that was standard error when they were made.
    """
    changed = [
        handler for handler in logging.getLogger().handlers if getattr(handler, "stream", None) is sys.__stderr__
    ]
    streams = [handler for handler in changed if isinstance(handler, logging.StreamHandler)]
    for handler in streams:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in streams:
            handler.setStream(sys.__stderr__)


def _bar(share: float, width: int) -> Text:
    done = round(share * width)
    return Text("━" * done, "magenta").append("─" * (width - done), "dim")


def _ends(left: str, right: str, width: int, style: str) -> Text:
    """One line with a text at either end; if they do not fit, the middle of the left one is cut."""
    room = max(4, width - len(right) - 2)
    if len(left) > room:
        tail = (room - 1) // 2
        left = f"{left[: room - 1 - tail]}…{left[len(left) - tail :]}"
    return _fitted(Text(left.ljust(room) + "  ", style).append(right, "bold" if right == "failed" else "dim"))


def _fitted(text: Text) -> Text:
    """The same text as a line that is cut where the console ends."""
    text.plain = visible(text.plain)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


@contextmanager
def display(planned: Mapping[str, str], store: Store, console: Console | None = None) -> Iterator[Listener]:
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
        terminal = _Terminal(tally, console)
        live = Live(console=console, get_renderable=terminal.drawn, refresh_per_second=FRAMES, transient=True)
        with live, logging_above():
            yield terminal.show
    else:
        lines = Lines(tally, console)
        with _looked_at(lines):
            yield lines.show


@contextmanager
def _looked_at(lines: Lines) -> Iterator[None]:
    """Print the state of runs that have been silent for long, from a thread."""
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


class _Ends:
    """Prints a line for each run that ends."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally, self.console, self.lock = tally, console, threading.Lock()

    def show(self, event: Event) -> None:
        with self.lock:
            self.tally.take(event)
            end = self.end(event) if event.kind in ("done", "failed") else ""
            if not end:
                self.other(event)
        if end:  # printed without the lock: a live view waits for it while holding its own, which printing needs
            self.line(end)

    def other(self, event: Event) -> None:
        """Record an event that is not the end of a run; the lock is held."""

    def end(self, event: Event) -> str:
        left = self.tally.left() if self.tally.ended < self.tally.total else None
        counted = f"{self.tally.ended}/{self.tally.total}" + (f", {duration(left)} left" if left else "")
        if event.result is not None:
            return f"[{counted}] {event.run}  {result_text(event.result)}"
        log = self.tally.log(event.run)
        return f"[{counted}] {event.run}  FAILED: {event.error}" + (f"; log: {log}" if log else "")

    def line(self, text: str) -> None:
        self.console.print(one_line(text), highlight=False, markup=False, soft_wrap=True)


class Lines(_Ends):
    """Plain lines: of each run its start, suites and end, and what it is doing every LINE_EVERY_S to SILENCE_S seconds.

    A stage that reports nothing for long repeats its last line. With more than CROWD runs in progress, one line
    about all of them replaces the lines about each.
    """

    def __init__(self, tally: Tally, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(tally, console)
        self.clock = clock
        #: the time of each run's last line, and the runs that had a line about their training
        self.last: dict[str, float] = {}
        self.training: set[str] = set()
        self.summed = clock()

    def other(self, event: Event) -> None:
        work = self.tally.running.get(event.run)
        if event.kind == "start":
            self.say(event.run, "starts")
        elif len(self.tally.running) > CROWD:
            self.sum_up()
        elif work and (event.kind == "suite" or self.is_due(event)):
            self.say(event.run, work.doing)

    def look(self) -> None:
        """Print the current work of each run that has had no line for SILENCE_S seconds."""
        with self.lock:
            if len(self.tally.running) > CROWD:
                self.sum_up()
                return
            if self.tally.waiting and not self.tally.running and self.clock() - self.summed >= SILENCE_S:
                self.sum_up()  # processes are starting, or other commands execute the runs
            for run, work in self.tally.running.items():
                if self.clock() - self.last.get(run, 0.0) >= SILENCE_S:
                    self.say(run, work.doing)

    def sum_up(self) -> None:
        """Print a line about all runs every LINE_EVERY_S seconds."""
        if self.clock() - self.summed >= LINE_EVERY_S:
            self.summed = self.clock()
            self.line(self.tally.summary())

    def is_due(self, event: Event) -> bool:
        """Whether a run's last line is old enough; its first line about training is always due."""
        first = event.progress is not None and event.run not in self.training
        if event.progress is not None:
            self.training.add(event.run)
        return first or self.clock() - self.last.get(event.run, 0.0) >= LINE_EVERY_S

    def say(self, run: str, text: str) -> None:
        self.last[run] = self.clock()
        self.line(f"{run}  {text}")


class _Terminal(_Ends):
    """A view below the lines of finished runs."""

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally, console)
        self.last = Group()

    def drawn(self) -> Group:
        """The view now; Live asks for it in a thread of its own.

        The wait for the lock is short: its holder may be in a signal handler that prints and waits for Live.
        """
        if self.lock.acquire(timeout=0.1):
            try:
                self.last = view(self.tally, self.console.width, self.console.height - 1)
            finally:
                self.lock.release()
        return self.last


class _Notebook(_Ends):
    """One output of a notebook cell, redrawn FRAMES times a second at most: finished runs, then those in progress."""

    def __init__(self, tally: Tally) -> None:
        from IPython.display import display as show_output

        super().__init__(tally, Console())
        self.ends: list[str] = []
        self.output: Any = show_output(self.whole(), display_id=True)
        self.updated = time.monotonic()

    def other(self, event: Event) -> None:
        if time.monotonic() - self.updated >= 1 / FRAMES:
            self.draw()

    def line(self, text: str) -> None:
        self.ends.append(one_line(text))

    def whole(self) -> Table:
        whole = Table.grid()
        for text in self.ends:
            whole.add_row(Text(text))
        whole.add_row(view(self.tally, self.console.width, self.console.height))
        return whole

    def draw(self) -> None:
        self.output.update(self.whole())
        self.updated = time.monotonic()
