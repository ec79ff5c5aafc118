"""The log of a run: a line for each event worth keeping, written at once so that the lines of a
killed run remain.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.events import Event, Stage, TrainingProgress
from harness.files import open_to_append, read_regular
from harness.formatting import visible

#: The fraction of the training time above which waiting for images or recordings is logged.
WAITS = 0.05
#: Warnings kept per session of a run.
WARNINGS = 200


def describe_stage(stage: Stage) -> str:
    """Describe the progress of counted work."""
    count = str(stage.done)
    if stage.total is not None:
        count += f"/{stage.total}"
    if stage.what == "features":
        return f"{stage.subject} {count}"
    if stage.what == "tasks":
        return f"{stage.subject}: {stage.item}, {count} tasks done"

    verb = "tokenised" if stage.what == "tokens" else "embedded"
    return f"{stage.subject}: {count} sentences {verb}"


class RunLog(logging.Handler):
    """A listener that appends lines with UTC times to a file, among them up to WARNINGS warnings of
    `logging`.

    Every entry is a single line of the file; of a preparation, only the last event is kept. The log
    of a killed run is continued.
    """

    def __init__(
        self,
        path: Path,
        within: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Below the folder `within` no link is followed."""
        super().__init__(logging.WARNING)
        self.path = path
        self.within = within
        self.now = now
        self._pending: Stage | None = None
        self._trains = False
        self._warnings = 0

    def __enter__(self) -> RunLog:
        existing = b""
        with suppress(FileNotFoundError):
            existing = read_regular(self.path, self.within)
        self._stream = open_to_append(self.path, self.within)
        if existing and not existing.endswith(b"\n"):
            self._stream.write("\n")
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        logging.getLogger().removeHandler(self)
        with suppress(OSError):  # a full disk, which the run's own error reports
            self._flush_pending()
            if error is not None:
                self._write_line(f"stopped by {type(error).__name__}: {error}")
        with suppress(OSError):
            self._stream.close()

    def __call__(self, event: Event) -> None:
        """Write an event's lines; a preparation is held back until a different preparation or event
        follows.
        """
        pending = self._pending
        stage = event.stage if event.kind == "prepare" else None
        is_same = (
            pending is not None
            and stage is not None
            and (stage.what, stage.subject) == (pending.what, pending.subject)
        )
        if not is_same:
            self._flush_pending()
        if stage is not None:
            self._pending = stage
        for text in self._list_texts(event):
            self._write_line(text)

    def write(self, text: str) -> None:
        """Write one line, after the preparation event that is held back, if any."""
        self._flush_pending()
        self._write_line(text)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning; a formatting error is handled as `logging` does, without stopping the
        run.
        """
        self._warnings += 1
        try:
            if self._warnings <= WARNINGS:
                self.write(f"{record.levelname.lower()}, {record.name}: {record.getMessage()}")
            elif self._warnings == WARNINGS + 1:
                self.write(f"more than {WARNINGS} warnings; the rest are not recorded")
        except (TypeError, ValueError, KeyError):
            self.handleError(record)

    def _list_texts(self, event: Event) -> Iterator[str]:
        if event.kind == "start":
            yield f"start {event.run} on {event.device}"
        elif event.progress:
            yield from self._list_training_texts(event.progress)
        elif event.kind == "suite":
            yield f"suite {event.suite} starts"
        elif event.kind == "evaluated":
            yield f"suite {event.suite} took {event.seconds:.1f} s"

    def _list_training_texts(self, progress: TrainingProgress) -> Iterator[str]:
        if not self._trains:
            self._trains = True
            if progress.first:
                yield f"training resumes at step {progress.first} of {progress.steps}"
            else:
                yield f"training starts: {progress.steps} steps"

        if not progress.scored:
            return

        text = f"step {progress.step}/{progress.steps}, dev {progress.dev:.2f}, {progress.rate:.1f} steps/s"
        if progress.waited > WAITS:
            text += f", {progress.waited:.0%} of the time waiting for inputs"
        yield text

    def _flush_pending(self) -> None:
        stage = self._pending
        self._pending = None
        if stage:
            self._write_line(describe_stage(stage))

    def _write_line(self, text: str) -> None:
        words = " ".join(visible(text).split())
        self._stream.write(f"{self.now():%Y-%m-%dT%H:%M:%SZ}  {words}\n")
        self._stream.flush()
