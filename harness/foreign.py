"""Guards against what other people's code may do to the process that runs it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from harness.stopping import Stopped

#: what passes through other people's code and is not theirs
OWN_SIGNALS: Final = (KeyboardInterrupt, GeneratorExit, Stopped)
#: seconds in which an import has to come to another module
IMPORT_S: Final = 10.0
#: how often it is looked at meanwhile
LOOKS: Final = 10


class ExitError(Exception):
    """Other people's code called os._exit, which would end the process without an error message."""


def raised_at(error: BaseException, packages: Collection[str]) -> str:
    """The last place in one of these packages that an error passed, as `file.py, line N`; empty where there is none."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            found = f"{Path(frame.f_code.co_filename).name}, line {line}"
    return found


@contextmanager
def import_limited() -> Iterator[None]:
    """Raise TimeoutError where an import comes to no other module for IMPORT_S; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loaded, looks = 0, 0

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal loaded, looks
        loaded, looks = len(sys.modules), looks + 1 if loaded == len(sys.modules) else 1
        if looks > LOOKS:
            raise TimeoutError(f"its import has not ended after {IMPORT_S:g} s")

    handler = signal.signal(signal.SIGALRM, look)
    timer = signal.setitimer(signal.ITIMER_REAL, IMPORT_S / LOOKS, IMPORT_S / LOOKS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def contained() -> Iterator[None]:
    """Come back to the working folder of now, and let os._exit raise ExitError in this thread."""
    before = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    try:
        with exit_raises():
            yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def exit_raises() -> Iterator[None]:
    """Let os._exit raise ExitError in this thread; others, and processes that are forked meanwhile, end as before."""
    real, mine = os._exit, (os.getpid(), threading.get_ident())

    def end(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) == mine:
            raise ExitError(f"os._exit({status}) would end the process without an error message")
        real(status)

    os._exit = end
    try:
        yield
    finally:
        os._exit = real
