"""The interface of suites: the embedders that they receive, their tasks, and the scores that they
return.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from harness import registry
from harness.caches import read_or_compute_hash
from harness.errors import UserError
from harness.metrics import AVERAGE, NO_SCORE, ArrayName, Metric, MetricWords, is_average
from harness.sources import Checkable, FileSource, Findings, Missing, digest, hash_reading_code

#: sentence, sentence, gold score
SentencePair = tuple[str, str, float]
#: subset -> its pairs
Subsets = Mapping[str, Sequence[SentencePair]]
#: The registry kind of tasks with images.
RETRIEVAL = "retrieval task"
#: The registry kind of tasks of sentence pairs with scores.
SIMILARITY = "similarity task"
#: metric -> value
Values = dict[str, float]
T = TypeVar("T")
#: n sentences -> float32 (n, d), rows in the order given; batching and sorting are up to the
#: function.
EmbedFunction = Callable[[Sequence[str]], np.ndarray]
#: Cosines in memory at a time: 64 MB in float32.
CELLS = 1 << 24


class NotFiniteError(Exception):
    """Vectors contain NaN or infinite values, so no score is computed."""


def compute_unit_rows(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1 in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def require_unit_rows(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1, computed in float64, returned as float32. Raises
    NotFiniteError.
    """
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise NotFiniteError(f"{np.count_nonzero(~finite):,} of {len(x):,} vectors are not finite")
    return compute_unit_rows(x).astype(np.float32)


def split_rows(rows: int, columns: int) -> Iterator[slice]:
    """Split the rows of a large matrix of cosines into blocks that fit in memory."""
    size = max(1, CELLS // columns)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


class ImageTextSpace(Protocol):
    """A space that a method projects captions and images into with its own heads."""

    def texts(self, sentences: Sequence[str], /) -> np.ndarray:
        """Project n captions: (n, p) float32."""

    def images(self, images: Any, task: str, /) -> np.ndarray:
        """Project the m images of a retrieval task: (m, p) float32."""


class ImageTextTeacher(Protocol):
    """The frozen teacher of a run."""

    def both(
        self, texts: Sequence[str], images: Any, task: str, /
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Embed captions (n, f) and images (m, f) of a retrieval task; None for a teacher without
        captions.
        """


class TrainedOn(Protocol):
    """The sentences and images that a model was trained on."""

    def sentences(self, texts: Sequence[str], /) -> np.ndarray:
        """Whether training read each of n sentences, compared by words: (n,) bool."""

    def images(
        self,
        texts: Sequence[str],
        image_of: np.ndarray,
        ids: Sequence[str] | None,
        contents: Sequence[str] | None = None,
        /,
    ) -> np.ndarray:
        """Whether training read each of m images: (m,) bool.

        An image is judged by the hash of its bytes, `contents`, else by its id, and without either
        by its captions, (n,).
        """


@dataclass(frozen=True)
class Embedder:
    """A model that suites evaluate: an `EmbedFunction` and optional abilities, None if the model
    lacks them.

    `device` is named as in PyTorch; probes are trained there, and no score depends on it. `views`
    encodes each of s sentences n times with dropout active: (sentences, n, seed) -> (s, n, d)
    float32. `shared` is the method's space of images and captions and `teacher` the run's teacher
    of them. `trained_on` is None for a model that was not trained, or whose training is not known;
    `library` is a model of sentence-transformers whose vectors depend on the task, by a prompt or
    by whether a text is a query or a document, or on what else is in a batch. Suites keep partial
    results in the folder `keep`, and call `report` at the start of each task with its name, the
    number of tasks done and their total.
    """

    embed: EmbedFunction
    device: str = "cpu"
    views: Callable[[Sequence[str], int, int], np.ndarray] | None = None
    shared: ImageTextSpace | None = None
    teacher: ImageTextTeacher | None = None
    trained_on: TrainedOn | None = None
    keep: Path | None = None
    report: Callable[[str, int, int], None] = lambda task, done, total: None
    library: Any = None

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        return self.embed(sentences)


def report_tasks(embed: Embedder, tasks: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """Yield tasks by name, reporting each to the embedder first."""
    for done, (name, task) in enumerate(tasks.items()):
        embed.report(name, done, len(tasks))
        yield name, task


class Embedded:
    """The vectors of a set of sentences, looked up by sentence."""

    def __init__(self, embed: EmbedFunction, sentences: Iterable[str]) -> None:
        """Embed every distinct sentence, in order of first occurrence, in one call of `embed`.

        Raises UserError where none of the vectors is finite, and unless `embed` returns one row a
        sentence.
        """
        unique = list(dict.fromkeys(sentences))
        vectors = np.asarray(embed(unique), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(unique):
            raise UserError(
                f"the embedder returned shape {vectors.shape} for {len(unique)} sentences; return (n, d)"
            )

        self._vectors = vectors
        self._finite = np.asarray(np.isfinite(vectors).all(axis=1))
        if unique and not self._finite.any():
            raise UserError(
                f"none of the model's {len(unique):,} sentence vectors is finite: its weights are damaged, or its "
                "training has diverged; restore the weights, or train it with a lower learning rate"
            )

        self._row = {sentence: row for row, sentence in enumerate(unique)}

    def __len__(self) -> int:
        return len(self._row)

    def rows(self, sentences: Iterable[str]) -> np.ndarray:
        """Return the vectors of n sentences, float32 (n, d). Raises NotFiniteError."""
        rows = [self._row[sentence] for sentence in sentences]
        if not self._finite[rows].all():
            count = np.count_nonzero(~self._finite)
            raise NotFiniteError(
                f"{count:,} of the {len(self):,} sentence vectors of the suite are not finite"
            )
        return self._vectors[rows]

    def take_leading(self, dimensions: int) -> Embedded:
        """The same sentences with the first numbers of their vectors alone. Raises UserError where
        the vectors have fewer.
        """
        shorter = copy(self)
        shorter._vectors = take_leading(self._vectors, dimensions)
        return shorter


def take_leading(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """The first numbers of vectors, (n, d) -> (n, `dimensions`). Raises UserError where they have
    fewer.
    """
    width = vectors.shape[1]
    if dimensions > width:
        raise UserError(
            f"the model's vectors have {width} dimensions, of which no {dimensions} can be scored; "
            "name fewer in dims of the suite"
        )
    return vectors[:, :dimensions]


def make_nested_name(metric: str, dimensions: int | str) -> str:
    """The name of a metric of the first dimensions of vectors alone."""
    return f"{metric}@{dimensions}"


def split_nested_name(name: str) -> tuple[str, str]:
    """The metric and the number of dimensions of a name that `make_nested_name` gives."""
    metric, _, dimensions = name.rpartition("@")
    return metric, dimensions


class SimilarityTask(Checkable, Protocol):
    """A task of the entry points `harness.similarity`: sentence pairs with gold scores from 0 to 5.

    A task without subsets loads as one subset named ''.
    """

    name: str

    def load(self, root: Path | None) -> Subsets:
        """Read the pairs of each subset."""


class OwnTask(Checkable, Protocol):
    """A task that a profile defines: its name, and the registry kind of its type."""

    name: str
    kind: str

    def load(self, root: Path | None) -> object:
        """Read the data of a task of this kind."""

    def examined(self, root: Path | None) -> Findings:
        """What reading the data shows (see `harness.sources.Source`). Raises UserError."""


class OwnTables(FileSource):
    """A task over tables of a user whose columns a profile names.

    Its fingerprint is computed from the rows read, so the same rows in another format are the same
    task, and planning a run finds mistakes in the files before anything is trained.
    """

    def __init__(
        self, name: str, files: Sequence[str], *options: object, ignore: Sequence[str] = ()
    ) -> None:
        """`options` are settings that change what is read from the files, `ignore` patterns of the
        names of columns that may be left out.
        """
        super().__init__(files)
        self.name = name
        self._options = options
        self.ignore = tuple(ignore)

    def fingerprint(self, root: Path | None) -> str:
        key = digest("task", hash_reading_code(), type(self).__name__, self.file_fingerprint(root))
        return read_or_compute_hash(f"tasks/{key}", lambda: digest(self.content(root)))

    def file_fingerprint(self, root: Path | None) -> str:
        """A hash of the files' bytes and the options, unlike that of the rows that are read."""
        return digest(super().fingerprint(root), self._options)

    @abstractmethod
    def content(self, root: Path | None) -> object:
        """The data read, as JSON values."""


@dataclass(frozen=True)
class SuiteScores:
    """The scores of one evaluation: `scores` are task -> metric -> value, `parts` are task -> part
    -> metric -> value.

    Undefined values are left out, with a warning; none is NaN. A part is a subset or another
    reading of a task. `arrays` are raw data for figures; they are kept in a file of their own.
    """

    scores: dict[str, Values]
    parts: dict[str, dict[str, Values]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    arrays: Mapping[ArrayName, np.ndarray] = field(default_factory=dict)

    def remove_averages(self) -> SuiteScores:
        """The same without means over tasks, which some tasks of a suite do not have."""
        scores = {task: values for task, values in self.scores.items() if not is_average(task)}
        parts = {task: values for task, values in self.parts.items() if not is_average(task)}
        return replace(self, scores=scores, parts=parts)


@runtime_checkable
class HasImages(Protocol):
    """A task with images."""

    @property
    def has_pictures(self) -> bool:
        """Whether a teacher can compute features of the images."""

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether a teacher must compute features of the images, since no file has them."""


@dataclass(frozen=True)
class TaskScores:
    """One task's scores, those of its parts, and a warning for each undefined value, which is left
    out.
    """

    scores: Values
    parts: dict[str, Values] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class Suite(registry.Registered, ABC):
    """A group of tasks scored by one protocol."""

    #: The name in profiles and result files.
    name: ClassVar[str]
    #: The title in reports; the name where it is empty.
    title: ClassVar[str] = ""
    #: Increased whenever a change of the code can change a score.
    version: ClassVar[int]
    #: The metrics that are averaged over the tasks into the row `Avg`; the first is the main one.
    metrics: ClassVar[tuple[Metric, ...]]
    #: Metric -> its words in tables; one without words has its name.
    words: ClassVar[Mapping[str, MetricWords]] = {}
    #: Whether the vectors of its sentences are kept for other suites.
    remembers: ClassVar[bool] = True
    #: Whether only a model with an image side has scores.
    needs_images: ClassVar[bool] = False
    #: Whether the suite also embeds captions and images with the run's frozen teacher.
    asks_teacher: ClassVar[bool] = False
    #: The hub's name for this type of task, for model cards; empty to leave the scores out of
    #: cards.
    hub_task: ClassVar[str] = ""
    #: The registry kind of its tasks.
    kind: ClassVar[str] = SIMILARITY
    #: The metrics that are also scored of leading dimensions of vectors, where `dims` are given.
    nested: ClassVar[tuple[str, ...]] = ()
    #: Numbers of leading dimensions that are scored beside whole vectors: nested ones, as a
    #: Matryoshka loss trains them.
    dims: tuple[int, ...] = ()

    def __init__(self, tasks: Sequence[str | OwnTask]) -> None:
        """`tasks` are registered names and tasks of a profile. Raises UserError for tasks the suite
        does not accept.
        """
        names = [task if isinstance(task, str) else task.name for task in tasks]
        if not names:
            raise UserError(f"the suite '{self.name}' has no tasks; list each of its tasks once")
        self.refuse_repeated(names)

        self._tasks: dict[str, Any] = {}
        for name, task in zip(names, tasks, strict=True):
            loaded = self.find(task) if isinstance(task, str) else self._check_kind(task)
            self._tasks[name] = loaded

    def refuse_repeated(self, names: Sequence[str]) -> None:
        """Raise UserError where a task is named twice."""
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise UserError(
                f"the suite '{self.name}' names {', '.join(repeated)} twice; list each of its tasks once"
            )

    @classmethod
    def takes(cls, kind: str) -> bool:
        """Whether the suite accepts tasks of a registry kind."""
        return kind == cls.kind

    @classmethod
    def _check_kind(cls, task: OwnTask) -> OwnTask:
        if not cls.takes(task.kind):
            raise UserError(
                f"the suite '{cls.name}' does not evaluate a {task.kind} such as '{task.name}'; "
                "list it in a suite of that kind"
            )
        return task

    @classmethod
    def find(cls, task: str) -> Any:
        return registry.get_instance(cls.kind, task, Checkable)

    @property
    def tasks(self) -> list[str]:
        return list(self._tasks)

    def set_dims(self, dims: Sequence[int]) -> None:
        """Score numbers of leading dimensions too, each metric as `METRIC@D`. Raises UserError for a
        number that is not positive, or stands twice.
        """
        if len(set(dims)) < len(dims) or min(dims, default=1) < 1:
            raise UserError(
                f"the suite '{self.name}' has dims = {list(dims)}; give positive numbers, each once"
            )
        self.dims = tuple(dims)

    def list_metrics(self) -> tuple[Metric, ...]:
        """The metrics that it averages, with those of leading dimensions."""
        nested = [metric for metric in self.metrics if metric.name in self.nested]
        metrics = list(self.metrics)
        for number in self.dims:
            for metric in nested:
                name = make_nested_name(metric.name, number)
                metrics.append(replace(metric, name=name))
        return tuple(metrics)

    @property
    def image_tasks(self) -> list[str]:
        """The names of its retrieval tasks, whose images need features of the run's image teacher."""
        return self.tasks if self.kind == RETRIEVAL else []

    def missing(self, root: Path | None) -> list[Missing]:
        absent = chain.from_iterable(task.missing(root) for task in self._tasks.values())
        # tasks may share a file
        return list(dict.fromkeys(absent))

    def computes(self, teacher: str, root: Path | None) -> bool:
        """Whether an image teacher must compute features for some task, since no file has them."""
        for task in self._tasks.values():
            must_compute = self.needs_images
            if isinstance(task, HasImages):
                must_compute = task.computes(teacher, root)
            if must_compute:
                return True
        return False

    @property
    def has_pictures(self) -> bool:
        """Whether a teacher can compute features of all its images."""
        with_images = [task for task in self._tasks.values() if isinstance(task, HasImages)]
        return all(task.has_pictures for task in with_images)

    def fingerprint(self, root: Path | None) -> str:
        contents = [[name, task.fingerprint(root)] for name, task in self._tasks.items()]
        plain = digest(self.name, self.version, contents)
        return digest(plain, self.dims) if self.dims else plain

    def identity(self, root: Path | None) -> str:
        """Return the fingerprint, or the first missing item; computed for every plan, so it must be
        quick.
        """
        absent = self.missing(root)
        return f"absent: {absent[0].what}" if absent else self.fingerprint(root)

    @abstractmethod
    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        """Score an embedder on every task. Raises MissingData or UserError."""

    def average(self, scores: Mapping[str, Mapping[str, float]]) -> Values:
        """Average unrounded scores over the tasks, for each metric of the suite that every task
        has.

        The papers' scripts average scores already rounded to two decimals; theirs can differ by
        0.01.
        """
        averages = {}
        for metric in self.list_metrics():
            values = [row[metric.name] for row in scores.values() if metric.name in row]
            if len(values) == len(scores):
                averages[metric.name] = sum(values) / len(values)
        return averages

    def collect(self, per_task: Mapping[str, TaskScores]) -> SuiteScores:
        scores = {}
        parts = {}
        warnings = []
        for name, task in per_task.items():
            scores[name] = task.scores
            if task.parts:
                parts[name] = task.parts
            warnings += [f"{name}: {line}" for line in task.warnings]

        average = self.average(scores)
        names = [metric.name for metric in self.list_metrics()]
        left_out = [name for name in names if name not in average]
        if left_out:
            listed = ", ".join(left_out)
            warnings.append(f"{AVERAGE}: {listed} left out, not every task has a value")
        scores[AVERAGE] = average
        return SuiteScores(scores, parts, [f"{self.name}: {line}" for line in warnings])


class PairSuite(Suite):
    """A suite over similarity tasks; every distinct sentence of all its tasks is embedded once."""

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        loaded: dict[str, Subsets] = {}
        sentences = []
        for name, task in self._tasks.items():
            subsets = task.load(root)
            if not subsets or not all(subsets.values()):
                raise UserError(
                    f"the similarity task '{name}' has no pairs in a subset; fix its data or "
                    "remove the task from the suite"
                )
            loaded[name] = subsets
            sentences += list_sentences(subsets)
        vectors = Embedded(embed, sentences)

        def score(name: str, subsets: Subsets) -> TaskScores:
            return self.score(subsets, vectors, embed.trained_on)

        return self.collect(score_tasks(embed, loaded, score))

    @abstractmethod
    def score(
        self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None
    ) -> TaskScores:
        """Score one task; `trained_on` is None if the model was not trained or its training data is
        unknown.
        """


def score_tasks(
    embed: Embedder, tasks: Mapping[str, T], score: Callable[[str, T], TaskScores]
) -> dict[str, TaskScores]:
    """Score tasks, reporting each to the embedder first; a task with non-finite vectors gets only a
    warning.
    """
    scores = {}
    for name, task in report_tasks(embed, tasks):
        try:
            scores[name] = score(name, task)
        except NotFiniteError as error:
            scores[name] = TaskScores({}, warnings=[f"{NO_SCORE}: {error}"])
    return scores


def list_pairs(subsets: Subsets) -> list[SentencePair]:
    """List the pairs of all subsets, in order."""
    return list(chain.from_iterable(subsets.values()))


def list_sentences(subsets: Subsets) -> list[str]:
    """List both sentences of every pair, in order, with repeats."""
    sentences: list[str] = []
    for first, second, _ in list_pairs(subsets):
        sentences += (first, second)
    return sentences
