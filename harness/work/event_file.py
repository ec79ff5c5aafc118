"""Events in a file: a job writes them where it has no connection to the driver, and a driver reads them as they come.

A line is an event as JSON: nothing in a results folder is executed by those that read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from pydantic import TypeAdapter, ValidationError

from harness.planning.events import Event

_EVENT = TypeAdapter(Event)

#: Seconds between two reports of how far a run is; scores, starts and ends are written at once.
PROGRESS_S = 2.0


class EventWriter:
    """A listener that appends events to a file, a line each."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.clock = path, clock
        self._last = -PROGRESS_S

    def __enter__(self) -> EventWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.is_file() or self.path.read_bytes()[-1:] in (b"", b"\n")
        self._stream = self.path.open("ab")
        if not whole:  # of a process that was killed while it wrote
            self._stream.write(b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stream.close()

    def __call__(self, event: Event) -> None:
        """Write an event, unless it reports progress soon after another one."""
        if event.kind in ("prepare", "progress", "evaluate"):
            made = event.progress
            due = self.clock() - self._last >= PROGRESS_S
            if not (due or (made and (made.scored or made.step in (made.first + 1, made.steps)))):
                return
            self._last = self.clock()
        self._stream.write(_EVENT.dump_json(event) + b"\n")
        self._stream.flush()


class EventReader:
    """Reads events from where it last stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def __iter__(self) -> Iterator[Event]:
        """The events that were written whole since the last time."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                lines = stream.read().splitlines(keepends=True)
        except OSError:
            return
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._offset += len(line)
            event = _event(line)
            if event is not None:
                yield event


def _event(line: bytes) -> Event | None:
    """The event of a line; None for one that was not written to its end."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError:
        return None
