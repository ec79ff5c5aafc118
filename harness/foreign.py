"""What the code of others may do to the process that runs it, undone or refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class ExitError(Exception):
    """Code of others called os._exit, which would end the process without a word."""


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
            raise ExitError(f"os._exit({status}) would end the process without a word")
        real(status)

    os._exit = end
    try:
        yield
    finally:
        os._exit = real
