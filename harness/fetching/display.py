"""How downloads are shown: a bar for each file on a terminal, plain lines elsewhere, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from harness.fetching.bring import Watch
from harness.fetching.download import Progress
from harness.fetching.places import Say, readable
from harness.plaintext import one_line

#: Seconds between two plain lines about one file.
LINE_EVERY_S = 10.0


@contextmanager
def shown() -> Iterator[tuple[Say, Watch]]:
    """Return what shows a line, and what returns the progress callback of a file."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)

    def say(line: str) -> None:
        console.print(one_line(line), highlight=False, markup=False, soft_wrap=True)

    if not console.is_terminal:
        yield say, lambda name: _lines(name, say)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, console=console) as bars:

        def watch(name: str) -> Progress:
            task = bars.add_task(name, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield say, watch


def _lines(name: str, say: Say) -> Progress:
    """Say how far a file is, at most every LINE_EVERY_S seconds."""
    start = last = monotonic()
    first: int | None = None

    def progress(done: int, total: int | None) -> None:
        nonlocal last, first
        first = done if first is None else first
        now = monotonic()
        if now - last >= LINE_EVERY_S:
            last = now
            rate = readable(round((done - first) / (now - start)))
            say(f"{name}: {readable(done)} of {readable(total)}, {rate}/s")

    return progress
