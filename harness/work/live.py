"""The view of runs in a terminal or a notebook: how many are in which state, the slowest and the failed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group
from rich.text import Text

from harness.formatting import count_of, duration, fixed
from harness.plaintext import visible
from harness.work.tally import Tally, Work

#: Failed runs that are shown; all of them are printed as they fail.
FAILED_SHOWN = 3
#: Columns of the bar of one run.
BAR = 16


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
    """Two lines a run, those of the longest first, and the log of the first."""
    works = tally.slowest()
    if not works:
        return
    # beside a title, the log's line, and one for the runs that do not fit
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
    """Print messages of `logging` through the current standard error, which a live view puts above itself.

    The handlers were given the stream that was standard error when they were made.
    """
    changed = [one for one in logging.getLogger().handlers if getattr(one, "stream", None) is sys.__stderr__]
    streams = [one for one in changed if isinstance(one, logging.StreamHandler)]
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
    """One line with a text at either end; where they do not fit, the left one loses its middle."""
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
