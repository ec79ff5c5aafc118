"""Start of the `harness` command: Ctrl-C prints one line, even during the first imports."""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Import and run the command line."""
    os.environ["PYTHONSAFEPATH"] = "1"  # no process of a command imports from the working folder
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a shell's background job ignores SIGINT
        signal.signal(signal.SIGINT, _end)
    from harness.cli.main import main as run

    try:
        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:
        _end()


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    os.write(2, b"interrupted; nothing was done\n")
    os._exit(128 + number)
