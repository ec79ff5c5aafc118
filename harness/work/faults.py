"""Error lines of failed jobs, with the place in another package's code that raised the error."""

from __future__ import annotations

import errno
import re
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import PlugInError, UserError
from harness.foreign import raised_at
from harness.plaintext import one_line
from harness.registry import OWN, plugin_modules
from harness.work.time_limit import TimeLimitError

#: Characters of an error's message that a record keeps; its traceback has all of them.
LONGEST = 600

#: Errors of a file system that a user can mend, with what to do.
_MENDED = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space or ask for a larger quota",
    errno.EROFS: "mount it for writing or use another folder",
}
#: the beginning and a frame of what faulthandler writes
_FATAL = "Fatal Python error"
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)


def described(error: BaseException | str) -> str:
    """An error in one line, with the file and line in another package's code, or else in this project's."""
    if isinstance(error, str):
        return _shortened(error)
    try:
        text = str(error)
    except Exception as odd:
        text = f"its message cannot be read: {type(odd).__name__}"
    if isinstance(error, UserError) and not isinstance(error, TimeLimitError):
        return _shortened(text)
    if isinstance(error, OSError) and error.errno in _MENDED:
        where = f" ({error.filename})" if error.filename else ""
        return _shortened(f"{error.strerror}{where}; {_MENDED[error.errno]}, then run the same command to resume")
    kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    line = _shortened(kind + text).removesuffix(":")
    place = raised_at(error, plugin_modules())
    if not place and not isinstance(error, UserError):
        place = raised_at(error, OWN)
    return f"{line} ({place})" if place else line


def _shortened(text: str) -> str:
    """A text as one line, not longer than LONGEST."""
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


@contextmanager
def sending() -> Iterator[None]:
    """Raise PlugInError where the code of another package does not let a job be pickled."""
    try:
        yield
    except Exception as error:
        raise PlugInError(f"it cannot be sent to its process: {described(error)}") from error


def all_of(error: BaseException | str) -> str:
    """The traceback of an error; empty for a text."""
    if isinstance(error, str):
        return ""
    try:
        return "".join(traceback.format_exception(error))
    except Exception as odd:  # the exception's own code
        return f"the traceback cannot be read: {type(odd).__name__}"


def death_text(code: int | None, log: str) -> str:
    """Why a job's process ended without a result; `log` is its output, a crash included."""
    if code is None:
        return "the process ended with an unknown exit code"
    named = f" ({signal.Signals(-code).name})" if code < 0 and -code in list(signal.Signals) else ""
    return f"its process ended with code {code}{named} before the run did{_crash(log)}"


def _crash(log: str) -> str:
    """Where a crash that was written to a log happened, in brackets; in another package's code if it passed through."""
    frames = [(Path(file), line) for file, line in _FRAME.findall(log[log.rfind(_FATAL) :])] if _FATAL in log else []
    foreign = [frame for frame in frames if plugin_modules() & {frame[0].stem, *frame[0].parts}]
    return next((f" ({file.name}, line {line})" for file, line in (*foreign, *frames)), "")
