"""The interface of trackers, which of them can be used here, and the process of one.

Little is imported beside a tracker's own library.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from harness.errors import UserError
from harness.registry import get_class

#: `stopped`: the command ended before the run did; the run will resume
RunEnd = Literal["done", "failed", "stopped"]
TrackedValues = Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker records it.

    `id` (16 hex digits) depends on the profile and the run's fingerprint, so that a run that
    resumes has the same. `place` is the key without its seed. `config` is flat: what the run is,
    its fingerprint and its hyperparameters.
    """

    key: str
    id: str
    place: str
    config: Mapping[str, str | int | float | bool | None]


class Tracker(ABC):
    """Records runs, several at a time. Registered as an entry point of `harness.trackers`.

    It is made and used in a process of its own, so it may print, wait and fail: if it does, runs go
    on without it. The library's own environment variables say where it records; without them, files
    lie below `folder`.
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
        """Start the record of a run, or continue the one with its id; return the last step that it
        holds, or 0.
        """

    @abstractmethod
    def log(self, run: TrackedRun, step: int, values: TrackedValues) -> None:
        """Record values of a step; steps of one run increase."""

    @abstractmethod
    def end(self, run: TrackedRun, end: RunEnd, step: int, scores: TrackedValues) -> None:
        """Record how a run ended, and its final scores, `SUITE/TASK/METRIC`; `step` was its last."""


def find_trackers(names: str | Sequence[str]) -> dict[str, type[Tracker]]:
    """Look up trackers by name, in a sequence or one text with commas.

    Raises UserError for an unknown one and for one whose library is not installed.
    """
    words = names.split(",") if isinstance(names, str) else names
    trackers = {}
    for name in map(str.strip, words):
        if name:
            trackers[name] = get_class("tracker", name, Tracker)
    for name, tracker in trackers.items():
        if tracker.module and not _is_installed(tracker.module):
            raise UserError(
                f"the tracker '{name}' needs {tracker.module}, which is not installed; run `{tracker.install}`"
            )
    return trackers


def _is_installed(module: str) -> bool:
    """Whether a package is there; a folder of its name, such as W&B's, is found as a package
    without a file.
    """
    spec = find_spec(module)
    return spec is not None and spec.origin is not None


def describe_places(names: str | Sequence[str], results: Path) -> dict[str, str]:
    """Where each tracker records, in a few words. Raises as `find_trackers` does."""
    return {name: tracker.place(results / name) for name, tracker in find_trackers(names).items()}


def serve(tracker: Tracker, lines: Iterable[str]) -> None:
    """Pass on messages to a tracker; runs that have not ended by the last line are recorded as
    stopped.

    A run that resumes repeats the steps since its checkpoint; steps that its record already holds
    are left out.
    """
    runs: dict[str, TrackedRun] = {}
    last_steps: dict[str, int] = {}
    for line in lines:
        kind, *content = json.loads(line)
        if kind == "begin":
            run = TrackedRun(**content[0])
            if run.key not in runs:
                runs[run.key] = run
                last_steps[run.key] = tracker.begin(run)
            continue

        key, *values = content
        if key not in runs:
            continue  # another process finished it before it started here

        if kind == "log" and values[0] > last_steps[key]:
            last_steps[key] = values[0]
            tracker.log(runs[key], *values)
        elif kind == "end":
            tracker.end(runs.pop(key), values[0], last_steps[key], values[1])

    for key, run in runs.items():
        tracker.end(run, "stopped", last_steps[key], {})


def main(name: str, folder: str) -> None:
    """Serve the tracker of a name, with the folder for its files, from standard input: one JSON
    list a line.
    """
    serve(get_class("tracker", name, Tracker)(Path(folder)), sys.stdin)
