"""Events that a run reports while it is executed.

Every listener (terminal, log, notebook) gets these events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.store import Result
from harness.training.record import TrainingProgress

EventKind = Literal["start", "prepare", "progress", "suite", "evaluate", "evaluated", "done", "failed", "prepared"]


@dataclass(frozen=True)
class Stage:
    """Counted work before training or within an evaluation: `done` of `total` rows, sentences or tasks of a subject.

    The subject is a teacher and its input (features), a corpus (tokens) or a suite (sentences, tasks). `total` is
    None where it is not known beforehand; `item` is the task in work.
    """

    what: Literal["features", "tokens", "sentences", "tasks"]
    subject: str
    done: int
    total: int | None = None
    item: str = ""


@dataclass(frozen=True)
class Event:
    """One report of a run. `run` is its key; each kind of event sets other fields.

    start: `device`; prepare: `stage`; progress: `progress`, `device` and the most memory taken so far; suite: `suite`,
    whose evaluation starts; evaluate: `stage` of it; evaluated: `suite` and its `seconds`; done: `result`; failed:
    `error`. A teacher that is trained for a run reports under its own key. A preparation for several runs (tokens,
    features) reports `prepare` under a key of its own, such as "tokens of toy-text for toy-bert", and ends with
    `prepared`, with an `error` if it failed.
    """

    kind: EventKind
    run: str
    device: str = ""
    stage: Stage | None = None
    progress: TrainingProgress | None = None
    suite: str = ""
    seconds: float = 0.0
    memory_mb: float = 0.0
    result: Result | None = None
    error: str = ""


Listener = Callable[[Event], None]


def both(first: Listener, second: Listener) -> Listener:
    """A listener that forwards each event to two others."""

    def listen(event: Event) -> None:
        first(event)
        second(event)

    return listen
