"""The log of a run: a line an event worth keeping, written as it goes, so that the lines of a killed run stay."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from harness.training.trainer import Progress

#: Warnings that one session of a run keeps.
WARNINGS = 200


def utc_now() -> datetime:
    """The time of a line."""
    return datetime.now(UTC)


class RunLog:
    """Appends lines with UTC times to a file while it is open; warnings of `logging` among them.

    A line is never longer than one line of the file. What is left of a killed run is gone on with.
    """

    def __init__(self, path: Path, key: str, now: Callable[[], datetime] = utc_now) -> None:
        """`key` is the run's own; what is reported of another run, a teacher, is marked with that run's key."""
        self.path, self.key, self.now = path, key, now
        self._pending: tuple[str, str] | None = None
        self._begun: set[str] = set()
        self._handler = _Warnings(self)

    def __enter__(self) -> RunLog:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        left = self.path.read_bytes() if self.path.is_file() else b""
        self._stream = self.path.open("a", encoding="utf-8", errors="backslashreplace")
        if left and not left.endswith(b"\n"):
            self._stream.write("\n")
        logging.getLogger().addHandler(self._handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self._handler)
        self._settle()
        if error is not None:
            self._line(f"stopped by {type(error).__name__}: {error}")
        self._stream.close()

    def write(self, text: str) -> None:
        """One line, on disk at once; what was last prepared comes before it."""
        self._settle()
        self._line(text)

    def hear(self, key: str, progress: Progress | None, text: str) -> None:
        """Keep what is worth it of a run's reports: the end of each preparation, where training begins, dev scores."""
        whose = "" if key == self.key else f"{key}: "
        if progress is None:
            self._prepare(f"{whose}{text}")
            return
        if key not in self._begun:
            self._begun.add(key)
            begins = f"goes on from step {progress.first}" if progress.first else "begins"
            self.write(f"{whose}training {begins} of {progress.steps}")
        if progress.scored and progress.dev is not None:
            self.write(
                f"{whose}step {progress.step}/{progress.steps}, dev {progress.dev:.2f}, "
                f"{progress.rate:.1f} steps a second"
            )

    def text(self) -> str:
        """All lines so far, those of earlier sessions among them."""
        return self.path.read_text(encoding="utf-8", errors="replace")

    def _prepare(self, text: str) -> None:
        """Hold back a count that goes on; written is the last of each thing that is counted."""
        subject = re.sub(r"\d+", "", text)
        if self._pending and self._pending[0] != subject:
            self._settle()
        self._pending = subject, text

    def _settle(self) -> None:
        if self._pending:
            self._line(self._pending[1])
            self._pending = None

    def _line(self, text: str) -> None:
        self._stream.write(f"{self.now():%Y-%m-%dT%H:%M:%SZ}  {' '.join(text.split())}\n")
        self._stream.flush()


class _Warnings(logging.Handler):
    """Writes warnings of `logging` into a run's log, up to a number."""

    def __init__(self, log: RunLog) -> None:
        super().__init__(logging.WARNING)
        self.log, self.count = log, 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; one that cannot be put into words is told as `logging` tells it and stops no run."""
        self.count += 1
        try:
            if self.count <= WARNINGS:
                self.log.write(f"{record.levelname.lower()}, {record.name}: {record.getMessage()}")
            elif self.count == WARNINGS + 1:
                self.log.write(f"more than {WARNINGS} warnings; the others are not kept")
        except (TypeError, ValueError, KeyError):
            self.handleError(record)
