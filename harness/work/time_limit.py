"""A limit on the time of a job: the job is asked to save and stop, and is killed if it does not react."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType

from harness.errors import UserError
from harness.formatting import duration
from harness.stopping import Stopped, request_stop, withdraw_stop

#: Seconds after the limit in which a job may save. A thread that hangs is then interrupted, as far as it can be, and as
#: many seconds later its process is ended, where it has one of its own.
GRACE_S = 10.0

#: seconds of the longest limit: no timer goes on for ever
LONGEST_S = 366 * 86400

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"([\d.]+)([smhd])")


class TimeLimitError(UserError):
    """A job took longer than it may."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s)
        self.limit_s = limit_s

    def __str__(self) -> str:
        return f"stopped after --run-timeout, {duration(self.limit_s)}; run the same command again to resume"


def seconds_of(time: str | float) -> float:
    """A limit in seconds, of a number or of a text such as 30m, 1h30m, 2d. Raises UserError."""
    if isinstance(time, str):
        if not _TIME.fullmatch(time):
            raise UserError(f"--run-timeout {time}: not a time; write 90s, 30m, 4h or 1h30m")
        time = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(time))
    if not time > 0:
        raise UserError(f"--run-timeout {time:g}: no run can end in that time; give a longer one")
    if time > LONGEST_S:
        raise UserError(f"--run-timeout is more than {duration(LONGEST_S)}; leave it out for runs without a limit")
    return float(time)


@contextmanager
def time_limit(limit_s: float | None) -> Iterator[None]:
    """Let the work of the block stop at its next safe point after `limit_s` seconds; None is for ever.

    Raises TimeLimitError then, and GRACE_S later in the main thread wherever that is.
    """
    if limit_s is None:
        yield
        return
    late = threading.Event()

    def stop() -> None:
        late.set()
        request_stop()

    timer = Timer(limit_s, stop)
    timer.daemon = True
    timer.start()
    try:
        with _interrupted(limit_s):
            yield
    except Stopped:
        if not late.is_set():
            raise
        raise TimeLimitError(limit_s) from None
    finally:
        timer.cancel()
        if late.is_set():  # of this job; others in this process go on
            withdraw_stop()


@contextmanager
def _interrupted(limit_s: float) -> Iterator[None]:
    """Raise TimeLimitError in the main thread GRACE_S after the limit; no other can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(limit_s)

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit_s + GRACE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
