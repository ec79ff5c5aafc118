"""Jobs in other processes: what they report, and the loop that starts, follows and stops them.

RESULTS/.work/JOB/NUMBER.events      an event a line, as JSON
RESULTS/.work/JOB/NUMBER.end         a result, a failure, a preparation, another turn or an error, as JSON

A job reports in two files in its work folder, whatever the executor. Each process has its own NUMBER, since two
commands may try the same job. Files of a results folder are only read as data, never executed.

A `Crew` implements how a process elsewhere is started, how its death is noticed, and how it is asked to stop.
All else is the same for a process of this machine, a task of Ray and a job of SLURM.
"""

from __future__ import annotations

import logging
import math
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.files import DamagedError, note_in, open_regular, read_regular, remove_leftovers, write_note
from harness.planning.events import Event, Listener, both
from harness.runs.environment import Allocation
from harness.store import Failure, Result
from harness.work.failures import GRACE_S, TimeLimitError
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.queue import RETRY_S, Queue

log = logging.getLogger(__name__)

#: Number of processes that die executing a job before it counts as failed: the job may be the cause.
DEATHS = 3
#: Least seconds between two reports of a stage's progress; other events are written at once.
STAGE_S = 1.0
#: Suffix of event files.
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
        if not whole:  # left by a process killed while writing
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
        with suppress(OSError):  # a full disk: the job continues without events, and its end has the error
            self._stream.write(_EVENT.dump_json(event) + b"\n")


class EventReader:
    """Reads events from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def __iter__(self) -> Iterator[Event]:
        """The events that were completely written since the last iteration."""
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
    def of(cls, job: Job, number: str) -> Report:
        return cls(job.store.work(job.id), number)

    @property
    def events(self) -> Path:
        return self.folder / f"{self.number}{EVENTS}"

    @property
    def _end(self) -> Path:
        return self.folder / f"{self.number}.end"

    def write_end(self, end: End | Again | BaseException | str) -> None:
        """Write how the job ended; for an exception, its last line."""
        noted = traceback.format_exception_only(end)[-1].strip() if isinstance(end, BaseException) else end
        kind = type(noted).__name__
        write_note(self._end, {"kind": kind, "end": _ENDS[kind].dump_python(noted, mode="json")})

    def end(self) -> End | Again | str | None:
        """How the job ended, or the error that it raised; None if it has not ended or was killed."""
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
        with suppress(OSError):  # not empty: other files of a run are in it
            self.folder.rmdir()


def perform(job: Job, allocation: Allocation, report: Report, listen: Listener = lambda event: None) -> None:
    """Perform a job in this process and write its report; `listen` gets each event after it is written."""
    try:
        with EventWriter(report.events) as write:
            end: End | Again | BaseException = job.perform(allocation, both(write, listen))
    except BaseException as error:
        end = error
    report.write_end(end)


@dataclass(eq=False)
class Out:
    """A job given to a process: when it `started`, by the clock of this process; if its end was passed on (`told`)."""

    job: Job
    report: Report
    started: float = math.inf
    told: bool = False

    @cached_property
    def events(self) -> EventReader:
        return EventReader(self.report.events)


@dataclass(frozen=True)
class Death:
    """Why a process is gone without reporting an end; `again`: another process may execute the job."""

    why: str
    again: bool = False


AnyOut = TypeVar("AnyOut", bound=Out)


class Crew(ABC, Generic[AnyOut]):
    """Carries out a queue in other processes."""

    def __init__(self, queue: Queue, listen: Listener) -> None:
        self.queue, self.listen = queue, listen
        self.out: dict[Job, AnyOut] = {}
        self.deaths = Counter[Job]()
        self._asked_to_stop = False

    def work(self) -> None:
        start_at = 0.0
        try:
            while self.queue:
                if time.monotonic() >= start_at:
                    self.start()
                    start_at = time.monotonic() + RETRY_S
                if self.queue.stopping and not self._asked_to_stop:
                    self._asked_to_stop = True
                    self.stop()
                if self.queue:
                    self.wait()
                if self.look():
                    start_at = 0.0
        finally:
            self.cancel()

    @abstractmethod
    def start(self) -> None:
        """Take all jobs that can start from the queue, and give each to a process."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for a part of a second, or until something happens."""

    @abstractmethod
    def death(self, out: AnyOut) -> Death | None:
        """Why a process is gone; None while it may report more."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all processes to save and end."""

    @abstractmethod
    def cancel(self) -> None:
        """End all processes at once."""

    def kill(self, out: AnyOut) -> None:
        """End a process that does not react to its time limit."""

    def release(self, out: AnyOut) -> None:
        """Free the resources of a process that has ended or is about to."""

    def delivered(self, out: AnyOut, end: End) -> End:
        """The end of a job, once its files are in the store."""
        return end

    def look(self) -> bool:
        """Pass on what processes have reported; return whether one has ended."""
        before = len(self.out)
        for out in list(self.out.values()):
            death = self.death(out)  # first: once a process is gone, all its files are written
            self._pass_on(out)
            end = out.report.end()
            if end is not None:
                self._end(out, end)
            elif death is not None:
                self._mourn(out, death)
            elif out.job.limit_s is not None and time.monotonic() > out.started + out.job.limit_s + 2 * GRACE_S:
                self.kill(out)
                self.close(out, out.job.fail(TimeLimitError(out.job.limit_s), self.listen))
        return len(self.out) < before

    def _pass_on(self, out: AnyOut) -> None:
        for event in out.events:
            self.listen(event)
            out.told |= event.run == out.job.key and event.kind in ("done", "failed", "prepared")

    def _end(self, out: AnyOut, end: End | Again | str) -> None:
        self._pass_on(out)
        if isinstance(end, str):
            end = out.job.fail(end, self.listen)
        elif not isinstance(end, Again):
            if not out.told:  # the events of another node are not visible yet
                self.listen(_last_event(out.job, end))
            end = self.delivered(out, end)
        self.close(out, end)

    def _mourn(self, out: AnyOut, death: Death) -> None:
        """Give the job of a dead process to another one if that may help, else let it fail."""
        job = out.job
        self.deaths[job] += 1
        if isinstance(job, RunJob) and (result := job.finished()):
            self.close(out, result)
        elif not death.again:
            self.close(out, job.fail(death.why, self.listen))
        elif self.queue.stopping:
            self.close(out, Again.STOPPED)
        elif self.deaths[job] < DEATHS:
            log.warning("%s: its process died (%s); another one resumes from the last checkpoint", job.key, death.why)
            self.close(out, Again.LOST)
        else:
            why = f"{self.deaths[job]} processes died while running it; the last one: {death.why}"
            self.close(out, job.fail(why, self.listen))

    def close(self, out: AnyOut, end: End | Again) -> None:
        """Report the end of a job, or put it back into the queue."""
        del self.out[out.job]
        self.release(out)
        self.queue.end(out.job, end)


def _last_event(job: Job, end: End) -> Event:
    if isinstance(end, Result):
        return Event("done", job.key, result=end)
    return Event("prepared" if isinstance(end, Prepared) else "failed", job.key, error=end.error)
