"""What a job reports from another process, in a file of its work folder, whatever the executor.

RESULTS/.work/JOB/NUMBER.jsonl       an event a line, as JSON; the last line, with its digest, is how the job ended:
                                     a result, a failure, a preparation, another turn or an error

Each process has its own NUMBER, since two commands may try the same job. Files of a results folder
are only read as data, never executed.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from harness.events import Event, Listener, forward_to_both
from harness.files import (
    DamagedError,
    add_seal,
    open_regular,
    open_to_append,
    parse_note,
    remove,
    write_bytes,
)
from harness.runs.execution import Seat
from harness.store import Failure, Result
from harness.work.job import Again, End, Job, Prepared

#: Least seconds between two reports of a stage's progress; other events are written at once.
STAGE_S = 1.0
#: Suffix of reports.
REPORT: Final = ".jsonl"

_EVENT = TypeAdapter(Event)
_ENDS: Final[dict[str, Any]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Result, Failure, Prepared, Again, str)
}


@dataclass
class Report:
    """The report of one process on a job: written there, read here from where the last reading
    stopped.
    """

    path: Path
    within: Path | None = None
    clock: Callable[[], float] = time.monotonic
    _staged: float = field(default=-STAGE_S, init=False)
    _offset: int = field(default=0, init=False)
    _end: End | Again | str | None = field(default=None, init=False)

    @classmethod
    def of(cls, job: Job, number: str) -> Report:
        return cls(job.store.work(job.id) / f"{number}{REPORT}", job.store.root)

    def write(self, event: Event) -> None:
        """Add an event, unless it reports a stage soon after another one."""
        if event.stage is not None:
            if self.clock() - self._staged < STAGE_S:
                return
            self._staged = self.clock()
        # a full disk: the job continues without events, and its end has the error
        with suppress(OSError):
            self._append(_EVENT.dump_json(event).decode())

    def write_end(self, end: End | Again | BaseException | str) -> None:
        """Add how the job ended; for an exception, its last line."""
        if isinstance(end, BaseException):
            end = traceback.format_exception_only(end)[-1].strip()
        self._append(_seal_end(end))

    def _append(self, line: str) -> None:
        with open_to_append(self.path, self.within) as stream:
            # first the end of a line that a killed process left unfinished
            stream.write(f"\n{line.strip()}\n")

    def read(self, listen: Listener = lambda event: None) -> End | Again | str | None:
        """Pass on the events since the last reading. Return how the job ended, or the error that it
        raised.

        None if it has not ended, or its process was killed.
        """
        try:
            with open_regular(self.path, self.within) as stream:
                stream.seek(self._offset)
                lines = stream.read().splitlines(keepends=True)
        except OSError:
            return self._end

        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._offset += len(line)
            with suppress(ValidationError):  # empty, or left unfinished by a killed process
                listen(_EVENT.validate_json(line))
                continue
            with suppress(DamagedError, ValueError, KeyError):
                note = parse_note(line)
                self._end = _ENDS[note["kind"]].validate_python(note["end"])

        return self._end

    def keep_end(self) -> None:
        """Remove the events; the end stays for other processes."""
        if self._end is not None:
            write_bytes(self.path, _seal_end(self._end).encode(), self.within)

    def remove(self) -> None:
        remove(self.path, self.within)
        with suppress(OSError):  # not empty: other files of a run are in it
            self.path.parent.rmdir()


def _seal_end(end: End | Again | str) -> str:
    """The line of a job's end, with its digest."""
    kind = type(end).__name__
    values = _ENDS[kind].dump_python(end, mode="json")
    return add_seal(json.dumps({"kind": kind, "end": values}))


def perform(job: Job, seat: Seat, report: Report, listen: Listener = lambda event: None) -> None:
    """Perform a job in this process and write its report; `listen` gets each event after it is
    written.
    """
    try:
        end: End | Again | BaseException = job.perform(seat, forward_to_both(report.write, listen))
    except BaseException as error:
        end = error
    report.write_end(end)
