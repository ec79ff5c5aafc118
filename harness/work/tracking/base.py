"""The interface of trackers. Imports nothing heavy: a tracker's process loads little beside the tracker's library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

#: `stopped`: the command ended before the run did; the run will resume
RunEnd = Literal["done", "failed", "stopped"]
TrackedValues = Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker records it.

    `id` (16 hex digits) depends on the profile and the run's fingerprint, so that a run that resumes has the same.
    `place` is the key without its seed. `config` is flat: what the run is, its fingerprint and its hyperparameters.
    """

    key: str
    id: str
    place: str
    config: Mapping[str, str | int | float | bool | None]


class Tracker(ABC):
    """Records runs, several at a time. Registered as an entry point of `harness.trackers`.

    It is made and used in a process of its own, so it may print, wait and fail: if it does, runs go on without it. The
    library's own environment variables say where it records; without them, files lie below `folder`.
    """

    #: The module that it imports, on first use, and how to install that.
    module: ClassVar[str] = ""
    install: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    @abstractmethod
    def place(folder: Path) -> str:
        """Where records are and how to look at them, in a few words."""

    @abstractmethod
    def begin(self, run: TrackedRun) -> int:
        """Start the record of a run, or continue the one with its id; return the last step that it holds, or 0."""

    @abstractmethod
    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        """Record values of a step; steps of one run increase."""

    @abstractmethod
    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Record how a run ended, and its final scores, `SUITE/TASK/METRIC`; `step` was its last."""
