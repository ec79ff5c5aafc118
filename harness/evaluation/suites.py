"""What a suite is: named tasks, what they need, and the scores of an embedder on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from harness import registry
from harness.errors import UserError
from harness.evaluation.embed import Embedded, Embedder
from harness.metrics import AVERAGE
from harness.sources import Missing, digest

#: subset -> (sentence, sentence, gold score) of each pair
Subsets = Mapping[str, Sequence[tuple[str, str, float]]]


class SimilarityTask(Protocol):
    """What the entry points of `harness.similarity` give: a Source of sentence pairs with gold scores from 0 to 5.

    A task without subsets loads as one whose name is ''.
    """

    name: str

    def missing(self, root: Path | None) -> list[Missing]:
        """What is absent below the data root."""

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the content (hex)."""

    def load(self, root: Path | None) -> dict[str, list[tuple[str, str, float]]]:
        """Subset -> its pairs."""


@dataclass(frozen=True)
class Evaluation:
    """Scores by task and metric, no value of them NaN, and what a reader of them should know.

    `arrays` are what figures are drawn from beside scores, by name; they are kept in a file of their own.
    """

    scores: dict[str, dict[str, float]]
    warnings: list[str] = field(default_factory=list)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


class Suite(ABC):
    """A group of tasks scored by one protocol."""

    #: How it is called in profiles and result files.
    name: ClassVar[str]
    #: Raised whenever a change of the code can change a score.
    version: ClassVar[int]
    #: The number that tables show.
    metric: ClassVar[str]
    #: What is averaged over the tasks into the row `Avg`.
    metrics: ClassVar[tuple[str, ...]]
    #: Where a suite that trains something does so, as PyTorch calls it; no score depends on it.
    device: str = "cpu"
    #: Whether vectors of its sentences are kept for other suites.
    remembers: ClassVar[bool] = True
    #: The kind of thing in the registry that its tasks are.
    kind: ClassVar[str] = "similarity task"

    def __init__(self, tasks: Sequence[str]) -> None:
        """`tasks` are registered names. Raises UserError for none, a repeated or an unknown one."""
        repeated = sorted({task for task in tasks if tasks.count(task) > 1})
        if repeated or not tasks:
            wrong = f"names {', '.join(repeated)} twice" if repeated else "has no tasks"
            raise UserError(f"the suite '{self.name}' {wrong}; list each of its tasks once")
        self._tasks: dict[str, Any] = {task: self.find(task) for task in tasks}

    @classmethod
    def find(cls, task: str) -> Any:
        """A task by name. Raises UserError for an unknown one."""
        return registry.get(cls.kind, task)

    @property
    def tasks(self) -> list[str]:
        """The names of its tasks, in the order given."""
        return list(self._tasks)

    def missing(self, root: Path | None) -> list[Missing]:
        """What its tasks lack below the data root."""
        return list(dict.fromkeys(absent for task in self._tasks.values() for absent in task.missing(root)))

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the protocol's version and of the tasks' names and contents."""
        contents = [[name, task.fingerprint(root)] for name, task in self._tasks.items()]
        return digest(self.name, self.version, contents)

    def identity(self, root: Path | None) -> str:
        """The fingerprint, or which thing is absent; looked up for every plan, so it must be quick."""
        absent = self.missing(root)
        return f"absent: {absent[0].what}" if absent else self.fingerprint(root)

    @abstractmethod
    def evaluate(self, embed: Embedder, root: Path | None) -> Evaluation:
        """Score an embedder on every task. Raises MissingData or UserError."""

    def average(self, scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Plain means over the tasks, of unrounded scores, for each metric that every task has.

        The papers' scripts average scores already rounded to two decimals; theirs can differ by 0.01.
        """
        shared = [metric for metric in self.metrics if all(metric in row for row in scores.values())]
        return {metric: sum(row[metric] for row in scores.values()) / len(scores) for metric in shared}


class PairSuite(Suite):
    """A suite over similarity tasks; every distinct sentence of all its tasks is embedded once."""

    def evaluate(self, embed: Embedder, root: Path | None) -> Evaluation:
        """See `Suite.evaluate`."""
        loaded: dict[str, Subsets] = {name: task.load(root) for name, task in self._tasks.items()}
        for name, subsets in loaded.items():
            if not subsets or not all(subsets.values()):
                raise UserError(f"the similarity task '{name}' has no pairs in a subset; mend its data or leave it out")
        vectors = Embedded(embed, _sentences(loaded.values()))
        warnings = []
        if vectors.not_finite:
            warnings.append(f"{vectors.not_finite} of {len(vectors)} sentence vectors are not finite; NaN counted as 0")
        scores: dict[str, dict[str, float]] = {}
        for name, subsets in loaded.items():
            scores[name], told = self.score(subsets, vectors)
            warnings += [f"{name}: {line}" for line in told]
        scores[AVERAGE] = self.average(scores)
        left = [metric for metric in self.metrics if metric not in scores[AVERAGE]]
        if left:
            warnings.append(f"{AVERAGE}: {', '.join(left)} left out, not every task has a value")
        return Evaluation(scores, [f"{self.name}: {line}" for line in warnings])

    @abstractmethod
    def score(self, subsets: Subsets, vectors: Embedded) -> tuple[dict[str, float], list[str]]:
        """One task's scores by metric, undefined ones left out, and a warning for each that is."""


def _sentences(tasks: Iterable[Subsets]) -> Iterable[str]:
    for subsets in tasks:
        for pairs in subsets.values():
            for first, second, _ in pairs:
                yield first
                yield second
