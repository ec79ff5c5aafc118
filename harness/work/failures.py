"""How jobs fail: limits on their time, and error lines with the place in another package's code
that raised the error.

At its limit a job is asked to save and stop; one that does not react is interrupted, and then
killed.
"""

from __future__ import annotations

import errno
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import FrameType

from harness.errors import PlugInError, UserError
from harness.formatting import duration, one_line
from harness.registry import OWN, find_raising_line, list_plugin_modules
from harness.stopping import Stopped, request_stop, withdraw_stop

#: Seconds that a job gets to save after its limit. Then a job that hangs is interrupted, if
#: possible, and as many seconds later its process is killed, if it has one of its own.
GRACE_S = 10.0

#: the longest limit in seconds: timers have a maximum
LONGEST_S = 366 * 86400

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"([\d.]+)([smhd])")

#: Characters of an error's message that a record keeps; its traceback has all of them.
LONGEST = 600

#: what helps where the memory of a machine or a GPU is too small for a run
SMALLER = "--chunk 32 encodes a batch 32 rows at a time with the same gradient; --set batch_size=N takes a smaller one"
#: File system errors that a user can fix, with the advice.
_MENDED = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space or ask for a larger quota",
    errno.EROFS: "mount it for writing or use another folder",
}
#: the beginning and a frame of what faulthandler writes
_FATAL = "Fatal Python error"
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)


class TimeLimitError(UserError):
    """A job exceeded its time limit, in seconds."""

    def __str__(self) -> str:
        return f"stopped after --run-timeout, {duration(self.args[0])}; run the same command again to resume"


def parse_time_limit(time: str | float) -> float:
    """A limit in seconds, of a number or of a text such as 30m, 1h30m, 2d. Raises UserError."""
    if isinstance(time, str):
        if not _TIME.fullmatch(time):
            raise UserError(f"--run-timeout {time}: not a time; write 90s, 30m, 4h or 1h30m")
        time = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(time))

    if not time > 0:
        raise UserError(f"--run-timeout {time:g}: no run can end in that time; give a longer one")
    if time > LONGEST_S:
        raise UserError(
            f"--run-timeout is more than {duration(LONGEST_S)}; leave it out for runs without a limit"
        )
    return float(time)


@contextmanager
def limit_time(limit_s: float | None) -> Iterator[None]:
    """Stop the work of the block at its next safe point after `limit_s` seconds; None is no limit.

    Raises TimeLimitError there, or, if the block runs in the main thread, at any point GRACE_S
    after the limit.
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
        with _interrupt_late(limit_s):
            yield
    except Stopped:
        if not late.is_set():
            raise
        raise TimeLimitError(limit_s) from None
    finally:
        timer.cancel()
        if late.is_set():  # only this job stops; others in this process continue
            withdraw_stop()


@contextmanager
def _interrupt_late(limit_s: float) -> Iterator[None]:
    """Raise TimeLimitError in the main thread GRACE_S after the limit; other threads cannot be
    interrupted.
    """
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


def describe_error(error: BaseException | str) -> str:
    """An error in one line, with the file and line in another package's code, or else in this
    project's.
    """
    is_of_user = isinstance(error, UserError) and not isinstance(error, TimeLimitError)
    if isinstance(error, str) or is_of_user:
        return _shorten_error(str(error))
    if isinstance(error, OSError) and error.errno in _MENDED:
        file = f" ({error.filename})" if error.filename else ""
        advice = f"{_MENDED[error.errno]}, then run the same command to resume"
        return _shorten_error(f"{error.strerror}{file}; {advice}")

    is_own = isinstance(error, UserError)
    text = str(error) if is_own else f"{type(error).__name__}: {error}"
    parts = [_shorten_error(text).removesuffix(":")]
    parts += getattr(error, "__notes__", ())[-1:]
    line = ", ".join(parts)
    place = find_raising_line(error, list_plugin_modules())
    if not place and not is_own:
        place = find_raising_line(error, OWN)
    if not place:
        return line
    return f"{line} ({place})"


def _shorten_error(text: str) -> str:
    line = one_line(text)
    if len(line) <= LONGEST:
        return line
    return f"{line[:LONGEST]}…"


@contextmanager
def raise_pickling_errors() -> Iterator[None]:
    """Raise PlugInError if the code of another package prevents a job from being pickled."""
    try:
        yield
    except Exception as error:
        raise PlugInError(f"it cannot be sent to its process: {describe_error(error)}") from error


def describe_death(code: int, log: str) -> str:
    """Why a job's process ended without a result; `log` is its output, a crash included."""
    signal_name = ""
    if code < 0 and -code in list(signal.Signals):
        signal_name = f" ({signal.Signals(-code).name})"
    return f"its process ended with code {code}{signal_name} before the run did{_find_crash(log)}"


def _find_crash(log: str) -> str:
    """The place of a crash recorded in a log, in brackets; in another package's code if the stack
    includes that.
    """
    _, mark, stack = log.rpartition(_FATAL)
    frames = _FRAME.findall(stack) if mark else []
    if not frames:
        return ""

    file, line = frames[0]
    for foreign_file, foreign_line in frames:
        path = Path(foreign_file)
        if list_plugin_modules() & {path.stem, *path.parts}:
            file, line = foreign_file, foreign_line
            break
    return f" ({Path(file).name}, line {line})"
