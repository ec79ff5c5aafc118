"""What a run reports while it is carried out. Every listener (terminal, log, notebook) gets these events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.store import Result
from harness.training.record import TrainingProgress

EventKind = Literal["start", "prepare", "progress", "suite", "evaluated", "done", "failed"]


@dataclass(frozen=True)
class Preparation:
    """Work before training: `done` of `total` rows of a subject, such as features of images by a teacher.

    `total` is None where it is not known beforehand.
    """

    what: Literal["features", "tokens"]
    subject: str
    done: int
    total: int | None = None


@dataclass(frozen=True)
class Event:
    """One report of a run. `run` is its key; of the other fields those of the kind are set.

    start: `device`; prepare: `preparation`; progress: `progress`; suite: `suite`, whose evaluation starts; evaluated:
    `suite` and its `seconds`; done: `result`; failed: `error`. A teacher that is trained for a run reports under its
    own key.
    """

    kind: EventKind
    run: str
    device: str = ""
    preparation: Preparation | None = None
    progress: TrainingProgress | None = None
    suite: str = ""
    seconds: float = 0.0
    result: Result | None = None
    error: str = ""


Listener = Callable[[Event], None]
