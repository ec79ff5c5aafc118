"""Follow the file operations of a run, and kill one of its processes at one of them.

Every Python process with this folder on its PYTHONPATH imports this file when it starts. FAULT is
JSON:

{"root": FOLDER, "trace": FILE}                     append a line for each operation below a folder to a file
{"root": FOLDER, "at": LINE, "nth": N, "who": ["worker", "driver"], "delay": SECONDS, "count": FILE}
                                                    kill -9 at the nth time of an operation, in whatever process; the
                                                    driver is the leader of the session, and "head" the two processes
                                                    without which a cluster of Ray has none
                                                    "NOTICE", "PREEMPTED", "TIMEOUT" in place of "worker": a job of the
                                                    stand-in for SLURM meets that, other processes are killed
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR
_EVENTS = ("open", "os.rename", "os.remove", "os.mkdir")


def named(path: str) -> str:
    """A path without what differs from run to run: fingerprints and what is drawn at random."""
    return re.sub(r"[0-9a-f]{12,}", "H", path)


def operation(root: str, event: str, given: tuple[Any, ...]) -> str | None:
    """What an event does to a file below a folder; None for anything else."""
    if event not in _EVENTS or (event == "open" and not (given[2] or 0) & _WRITING):
        return None
    path = given[1] if event == "os.rename" else given[0]
    if isinstance(path, int):
        return None
    path = os.fsdecode(path)
    folder = given[-1] if event != "open" else -1
    if folder != -1:  # a name in an open folder
        path = str(Path(f"/proc/self/fd/{folder}").readlink() / path)
    if not path.startswith(root):
        return None
    return f"{event.removeprefix('os.')} {named(path[len(root) + 1 :])}"


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
                threading.Timer(fault["delay"], _kill, [fault["who"]]).start() if fault[
                    "delay"
                ] else _kill(fault["who"])
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
    driver, task = os.getsid(0), os.environ.get("STANDIN_TASK")
    for manner in {"NOTICE", "PREEMPTED", "TIMEOUT"}.intersection(who if task else ()):
        _append(f"{os.environ['STANDIN_FOLDER']}/meets-{task}", manner.encode())
        return
    for number in _of_head(driver) if "head" in who else ():
        os.kill(number, signal.SIGKILL)
    if "driver" in who and driver != os.getpid():
        os.kill(driver, signal.SIGKILL)
    if "head" not in who and (set(who) != {"driver"} or driver == os.getpid()):
        os.kill(os.getpid(), signal.SIGKILL)


def _of_head(session: int) -> Iterator[int]:
    """The processes of Ray's head in a session."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            of_head = entry.name.isdigit() and (entry / "comm").read_text().strip() in (
                "gcs_server",
                "raylet",
            )
            if of_head and os.getsid(int(entry.name)) == session:
                yield int(entry.name)


if "FAULT" in os.environ:
    arm(json.loads(os.environ["FAULT"]))
