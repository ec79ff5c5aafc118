"""Embedders, the models that suites evaluate; rows of norm 1, cosines, and correlations, None where undefined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from harness.errors import UserError

#: Cosines in memory at a time: 64 MB in float32.
_CELLS = 1 << 24


class NotFiniteError(Exception):
    """Vectors with NaN or infinite values, of which no score is made."""


def normalised(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1 in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def units(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1, computed in float64, returned as float32. Raises NotFiniteError."""
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise NotFiniteError(f"{np.count_nonzero(~finite):,} of {len(x):,} vectors are not finite")
    return normalised(x).astype(np.float32)


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Split the rows of a large matrix of cosines into blocks that fit in memory."""
    size = max(1, _CELLS // columns)
    return (slice(top, min(top + size, rows)) for top in range(0, rows, size))


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 for a zero row, as in SentEval.

    Equal rows give exactly 1, so pairs of a sentence with itself tie.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    dot, x_squares, y_squares = (np.einsum("nd,nd->n", *pair) for pair in ((x, y), (x, x), (y, y)))
    squares = x_squares * y_squares
    return np.where(squares > 0, dot / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.clip(_unit(x - x.mean()) @ _unit(y - y.mean()), -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rho: Pearson's r of the ranks, ties at their average rank; None as for `pearson`."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _unit(x: np.ndarray) -> np.ndarray:
    # divided by its largest value first, or the squares of tiny values would underflow to 0
    x = x / np.abs(x).max()
    return np.asarray(x / np.sqrt(x @ x))


T = TypeVar("T")
#: n sentences -> float32 (n, d), rows in the order given. The callable does its own batching and sorting.
EmbedFunction = Callable[[Sequence[str]], np.ndarray]


class ImageTextSpace(Protocol):
    """A space that a method projects captions and images into with its own heads."""

    def texts(self, sentences: Sequence[str], /) -> np.ndarray:
        """Project n captions: (n, p) float32."""

    def images(self, images: Any, task: str, /) -> np.ndarray:
        """Project the m images of a retrieval task: (m, p) float32."""


class ImageTextTeacher(Protocol):
    """The frozen teacher of a run."""

    def both(self, texts: Sequence[str], images: Any, task: str, /) -> tuple[np.ndarray, np.ndarray] | None:
        """Embed captions (n, f) and images (m, f) of a retrieval task; None for a teacher without captions."""


class TrainedOn(Protocol):
    """What the training of a model has read."""

    def sentences(self, texts: Sequence[str], /) -> np.ndarray:
        """Whether each of n sentences was read, by its words: (n,) bool."""

    def images(self, texts: Sequence[str], image_of: np.ndarray, ids: Sequence[str] | None, /) -> np.ndarray:
        """Whether each of m images was read, from its captions, (n,), and its id if known: (m,) bool."""


@dataclass(frozen=True)
class Embedder:
    """A model that suites evaluate: an `EmbedFunction` and, where it has them, other abilities; otherwise None.

    `device` is named as in PyTorch; probes are trained there, and no score depends on it. `views` encodes each of s
    sentences n times with dropout active: (sentences, n, seed) -> (s, n, d) float32. `shared` is the method's space of
    images and captions and `teacher` the run's teacher of them. `trained_on` is None for a model that was not trained,
    or whose training is not known. Suites keep partial results in the folder `keep`, and tell `report` which task
    starts, and how many of how many are done.
    """

    embed: EmbedFunction
    device: str = "cpu"
    views: Callable[[Sequence[str], int, int], np.ndarray] | None = None
    shared: ImageTextSpace | None = None
    teacher: ImageTextTeacher | None = None
    trained_on: TrainedOn | None = None
    keep: Path | None = None
    report: Callable[[str, int, int], None] = lambda task, done, total: None

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        return self.embed(sentences)


def told(embed: Embedder, tasks: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """Yield tasks by name, each after the embedder was told."""
    for done, (name, task) in enumerate(tasks.items()):
        embed.report(name, done, len(tasks))
        yield name, task


class Embedded:
    """The vectors of a set of sentences, looked up by sentence."""

    def __init__(self, embed: EmbedFunction, sentences: Iterable[str]) -> None:
        """Embed every distinct sentence, in order of first occurrence, in one call of `embed`.

        Raises UserError where none of the vectors is finite, ValueError unless `embed` returns one row a sentence.
        """
        unique = list(dict.fromkeys(sentences))
        vectors = np.asarray(embed(unique), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(unique):
            raise ValueError(f"the embedder returned shape {vectors.shape} for {len(unique)} sentences, not (n, d)")
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
            raise NotFiniteError(f"{count:,} of the {len(self):,} sentence vectors of the suite are not finite")
        return self._vectors[rows]
