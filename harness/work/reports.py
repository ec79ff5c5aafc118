"""What a job reports to the command that waits for it: two files in its work folder, whoever carries it out.

RESULTS/.work/JOB/NUMBER.events      an event a line, as JSON
RESULTS/.work/JOB/NUMBER.end         a result, a failure, a preparation, another turn or an error, as JSON

Each process has a number, since two commands may try the same job. Nothing in a results folder is executed by those
that read it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from harness.files import DamagedError, note_in, open_regular, read_regular, remove_leftovers, write_note
from harness.planning.events import Event, Listener, both
from harness.runs.environment import Allocation
from harness.store import Failure, Result, Store
from harness.work.job import Again, End, Job, Prepared

#: Seconds between two reports of how far a stage is; all else is written at once.
STAGE_S = 1.0
#: How the names of files of events end.
EVENTS: Final = ".events"

_EVENT = TypeAdapter(Event)
_ENDS: Final[dict[str, Any]] = {kind.__name__: TypeAdapter(kind) for kind in (Result, Failure, Prepared, Again, str)}


class EventWriter:
    """A listener that appends events to a file, a line each."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.clock = path, clock
        self._last = -STAGE_S

    def __enter__(self) -> EventWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.is_file() or self.path.read_bytes()[-1:] in (b"", b"\n")
        self._stream = self.path.open("ab", buffering=0)
        if not whole:  # of a process that was killed while it wrote
            self._stream.write(b"\n")
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def __call__(self, event: Event) -> None:
        """Write an event, unless it reports a stage soon after another one."""
        if event.stage is not None:
            if self.clock() - self._last < STAGE_S:
                return
            self._last = self.clock()
        with suppress(OSError):  # a full disk: the job goes on without, and its end says what went wrong
            self._stream.write(_EVENT.dump_json(event) + b"\n")


class EventReader:
    """Reads events from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def __iter__(self) -> Iterator[Event]:
        """The events that were written whole since the last time."""
        try:
            with open_regular(self.path) as stream:
                stream.seek(self._offset)
                lines = stream.read().splitlines(keepends=True)
        except OSError:
            return
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._offset += len(line)
            with suppress(ValidationError):  # a line that a killed process left unfinished
                yield _EVENT.validate_json(line)


@dataclass(frozen=True)
class Report:
    """The report of one process on a job with this work folder."""

    folder: Path
    number: str

    @classmethod
    def of(cls, store: Store, job: str, number: str) -> Report:
        return cls(store.work(job), number)

    @property
    def events(self) -> Path:
        return self.folder / f"{self.number}{EVENTS}"

    @property
    def _end(self) -> Path:
        return self.folder / f"{self.number}.end"

    def write_end(self, end: End | Again | BaseException | str) -> None:
        """Note how the job ended; of an error, the last line."""
        noted = traceback.format_exception_only(end)[-1].strip() if isinstance(end, BaseException) else end
        kind = type(noted).__name__
        write_note(self._end, {"kind": kind, "end": _ENDS[kind].dump_python(noted, mode="json")})

    def end(self) -> End | Again | str | None:
        """How the job ended, or the error that it raised; None where it has not, or was killed."""
        try:
            noted = note_in(read_regular(self._end))
            end: End | Again | str = _ENDS[noted["kind"]].validate_python(noted["end"])
        except (OSError, DamagedError, ValueError, KeyError):
            return None
        return end

    def remove(self) -> None:
        for path in (self.events, self._end):
            path.unlink(missing_ok=True)
        remove_leftovers(self.folder, f".{self._end.name}.*.tmp")
        with suppress(OSError):  # of a run, whose other files lie there
            self.folder.rmdir()


def perform(job: Job, allocation: Allocation, report: Report, listen: Listener = lambda event: None) -> None:
    """Perform a job in this process, and report; `listen` hears of events that are written."""
    try:
        with EventWriter(report.events) as write:
            end: End | Again | BaseException = job.perform(allocation, both(write, listen))
    except BaseException as error:
        end = error
    report.write_end(end)
