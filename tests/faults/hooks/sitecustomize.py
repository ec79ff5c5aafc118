"""Follow the file operations of a run, and kill one of its processes at one of them.

Every Python process with this folder on its PYTHONPATH imports this file when it starts. FAULT is JSON:

{"root": FOLDER, "trace": FILE}                     append a line for each operation below a folder to a file
{"root": FOLDER, "at": LINE, "nth": N, "who": ["worker", "driver"], "delay": SECONDS, "count": FILE}
                                                    kill -9 at the nth time of an operation, in whatever process; the
                                                    driver is the leader of the session
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR
_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir")


def named(path: str) -> str:
    """A path without what differs from run to run: fingerprints and the numbers of processes."""
    return re.sub(r"[0-9a-f]{12,}", "H", re.sub(r"\.\d+\.(tmp|new|part)\b", r".\1", path))


def operation(root: str, event: str, given: tuple[Any, ...]) -> str | None:
    """What an event does to a file below a folder; None for anything else."""
    if event not in _EVENTS or (event == "open" and not (given[2] or 0) & _WRITING):
        return None
    paths = [os.fsdecode(path) for path in given[: 2 if event == "os.rename" else 1] if not isinstance(path, int)]
    if not paths or not paths[-1].startswith(root):
        return None
    return f"{event.removeprefix('os.')} {named(paths[-1][len(root) + 1 :])}"


def arm(fault: dict[str, Any]) -> None:
    """Follow this process and the ones that are forked from it."""
    inside = threading.local()

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event not in _EVENTS or getattr(inside, "hook", False):
            return
        inside.hook = True
        try:
            line = operation(fault["root"], event, given)
            if line and "trace" in fault:
                _append(fault["trace"], f"{line}\n".encode())
            elif line and line == fault["at"] and _append(fault["count"], b".") == fault["nth"]:
                # an operation that is half done is one that other threads go on with meanwhile
                threading.Timer(fault["delay"], _kill, [fault["who"]]).start() if fault["delay"] else _kill(
                    fault["who"]
                )
        finally:
            inside.hook = False

    sys.addaudithook(hook)


def _append(path: str, text: bytes) -> int:
    """Append to a file; its size afterwards."""
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(number, text)
        return os.fstat(number).st_size
    finally:
        os.close(number)


def _kill(who: list[str]) -> None:
    driver = os.getsid(0)
    if "driver" in who and driver != os.getpid():
        os.kill(driver, signal.SIGKILL)
    if "worker" in who or driver == os.getpid():
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)  # nothing happens after it


if "FAULT" in os.environ:
    arm(json.loads(os.environ["FAULT"]))
