"""Live progress of runs: an updated view in a terminal or a notebook, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.formatting import duration
from harness.plaintext import one_line
from harness.planning.events import Event, Listener
from harness.store import Store
from harness.work.live import logging_above, view
from harness.work.tally import Tally, result_text

#: Seconds between two plain lines about one run, and without any after which its state is printed again.
LINE_EVERY_S, SILENCE_S = 10.0, 25.0
#: Runs in progress above which plain lines are about all of them together.
CROWD = 8
#: Seconds between two looks at how long runs have been silent.
LOOK_S = 1.0
#: Views drawn per second.
FRAMES = 4


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


class _Ends:
    """Prints a line for each run that ends."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self.tally, self.console, self.lock = tally, console, threading.Lock()

    def show(self, event: Event) -> None:
        """Count an event, and print a line about it if it is due."""
        with self.lock:
            self.tally.take(event)
            end = self.end(event) if event.kind in ("done", "failed") else ""
            if not end:
                self.other(event)
        if end:  # printed outside the lock: a live view holds one of its own while it asks to be drawn, and prints
            self.line(end)

    def other(self, event: Event) -> None:
        """Record an event that is not the end of a run; the lock is held."""

    def end(self, event: Event) -> str:
        """Describe the end of a run, with what is left of all."""
        left = self.tally.left() if self.tally.ended < self.tally.total else None
        counted = f"{self.tally.ended}/{self.tally.total}" + (f", {duration(left)} left" if left else "")
        if event.result is not None:
            return f"[{counted}] {event.run}  {result_text(event.result)}"
        log = self.tally.log(event.run)
        return f"[{counted}] {event.run}  FAILED: {event.error}" + (f"; log: {log}" if log else "")

    def line(self, text: str) -> None:
        """Print a line, however long."""
        self.console.print(one_line(text), highlight=False, markup=False, soft_wrap=True)


class Lines(_Ends):
    """Plain lines: of each run its start, suites and end, and what it is doing every LINE_EVERY_S to SILENCE_S seconds.

    A stage that reports nothing for long repeats its last line. Where more than CROWD runs are in progress, one line
    about all of them takes the place of those about each.
    """

    def __init__(self, tally: Tally, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(tally, console)
        self.clock = clock
        #: when each run last had a line, and the runs that had one about their training
        self.last: dict[str, float] = {}
        self.training: set[str] = set()
        self.summed = clock()

    def other(self, event: Event) -> None:
        """Print a line about a run in progress if it is due."""
        work = self.tally.running.get(event.run)
        if event.kind == "start":
            self.say(event.run, "starts")
        elif len(self.tally.running) > CROWD:
            self.sum_up()
        elif work and (event.kind == "suite" or self.is_due(event)):
            self.say(event.run, work.doing)

    def look(self) -> None:
        """Print what the runs are doing that have had no line for SILENCE_S seconds."""
        with self.lock:
            if len(self.tally.running) > CROWD:
                self.sum_up()
                return
            if self.tally.waiting and not self.tally.running and self.clock() - self.summed >= SILENCE_S:
                self.sum_up()  # processes start, or other commands have the runs
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
        """Print a line about a run."""
        self.last[run] = self.clock()
        self.line(f"{run}  {text}")


class _Terminal(_Ends):
    """A view below the lines of finished runs."""

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally, console)
        self.last = Group()

    def drawn(self) -> Group:
        """The view now; Live asks for it in a thread of its own.

        Not waited for long: the thread that has the lock may be in a signal handler that prints and waits for Live.
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
        """Everything that is shown, as something that a notebook can show."""
        whole = Table.grid()
        for text in self.ends:
            whole.add_row(Text(text))
        whole.add_row(view(self.tally, self.console.width, self.console.height))
        return whole

    def draw(self) -> None:
        """Update the output."""
        self.output.update(self.whole())
        self.updated = time.monotonic()
