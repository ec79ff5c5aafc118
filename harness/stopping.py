"""Stopping a process after it has saved its work: a request is honoured at the next safe point."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: Signals that ask to stop; the second one of either kind stops at once.
SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: not a `threading.Event`: a signal handler that interrupts its `set` and calls it again would
#: deadlock
_requested = False


class Stopped(BaseException):
    """Work ended early because it was asked to; what it saved is enough to continue.

    Not an `Exception`, so that code that catches the errors of a task does not catch this.
    """


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop, and all work in progress has been saved."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def request_stop() -> None:
    """Ask the work in this process to stop at its next safe point."""
    global _requested
    _requested = True


def stop_requested() -> bool:
    """Whether this process was asked to stop."""
    return _requested


def withdraw_stop() -> None:
    """Forget the request, once the work has stopped."""
    global _requested
    _requested = False


def stop_at_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, by an exception; outside the main thread nothing
    changes.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handle)


@contextmanager
def stop_on_signals(first: Callable[[int], None]) -> Iterator[None]:
    """Call `first` with the number of the first signal of SIGNALS; raise KeyboardInterrupt at the
    second.

    Outside the main thread, which alone can handle signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise Interrupted(number)
        first(number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
