"""What jobs report while they are carried out, by `tell`, to whoever listens (`listen_in`): a log, a
terminal, trackers.

A listener hears the thread that listens, so nothing has to be handed down to where the work is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.stopping import Stopped, stop_requested

EventKind = Literal[
    "start", "prepare", "progress", "suite", "evaluate", "evaluated", "done", "failed", "prepared"
]


@dataclass(frozen=True)
class Stage:
    """Counted work before training or within an evaluation: `done` of `total` rows, sentences or
    tasks of a subject.

    The subject is a teacher and its input (features), a corpus (tokens) or a suite (sentences,
    tasks). `total` is None where it is not known beforehand; `item` is the task in work.
    """

    what: Literal["features", "tokens", "sentences", "tasks"]
    subject: str
    done: int
    total: int | None = None
    item: str = ""


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training.

    `rate` is in steps per second, `terms` are means over the last steps, `dev` is the latest dev
    score, taken at this step if `scored`; `first` is the step at which this process resumed,
    `waited` the fraction of time that steps waited for images or recordings.
    """

    step: int
    steps: int
    rate: float
    terms: Mapping[str, float]
    dev: float | None = None
    scored: bool = False
    first: int = 0
    waited: float = 0.0


@dataclass(frozen=True)
class Event:
    """One report of a run. `run` is its key, which `tell` sets; each kind of event sets other
    fields.

    start: `device`; prepare: `stage`; progress: `progress`, `device` and the most memory taken so
    far; suite: `suite`, whose evaluation starts; evaluate: `stage` of it; evaluated: `suite` and
    its `seconds`. Three kinds come from the queue of jobs alone: done, with a
    `harness.store.Result`; failed, with an `error`; prepared, with one if it failed. A preparation
    for several runs (tokens, features, weights of a teacher) reports under a key such as "tokens of
    toy-text for toy-bert".
    """

    kind: EventKind
    run: str = ""
    device: str = ""
    stage: Stage | None = None
    progress: TrainingProgress | None = None
    suite: str = ""
    seconds: float = 0.0
    memory_mb: float = 0.0
    result: Any = None
    error: str = ""


Listener = Callable[[Event], None]

#: the run that is in work in this thread, and who listens
_listening: ContextVar[tuple[str, tuple[Listener, ...]]] = ContextVar(
    "_listening", default=("", ())
)


@contextmanager
def listen_in(run: str, *more: Listener) -> Iterator[None]:
    """What is told in the block is about `run`, and is heard by more listeners before those from
    outside.
    """
    token = _listening.set((run, (*more, *_listening.get()[1])))
    try:
        yield
    finally:
        _listening.reset(token)


def tell(event: Event) -> None:
    """Report what this thread does for the run in work; without a listener nothing happens.

    Raises Stopped if this process was asked to stop, but while it trains, where the loop saves
    before it stops.
    """
    run, listeners = _listening.get()
    for listen in listeners:
        listen(replace(event, run=run))
    if stop_requested() and event.kind != "progress":
        raise Stopped


def forward_to_both(first: Listener, second: Listener) -> Listener:
    """A listener that forwards each event to two others."""

    def listen(event: Event) -> None:
        first(event)
        second(event)

    return listen
