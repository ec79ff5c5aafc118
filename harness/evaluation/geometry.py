"""Alignment and uniformity of sentence vectors (Wang and Isola, 2020; alpha = 2, t = 2), smaller is better.

Two readings are kept apart. `alignment` and `uniformity` take a task's pairs as one set, as the papers describe:
positives are pairs with a gold score above 4.0, uniformity is over the sentences of both sides of all pairs,
with repeats. The public MCSE code instead works through batches of 128 pairs, counts a score of 4.0 as positive, lets a
batch without positives count as 0, and averages the batches plainly, a short last one like any other: these
are `alignment_batch128` and `uniformity_batch128`. The two are not comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.evaluation.embed import Embedded
from harness.evaluation.suites import PairSuite, Subsets

#: Gold score (of 0 to 5) from which a pair counts as positive.
POSITIVE = 4.0
#: Pairs in one batch of the public code.
BATCH = 128
#: Rows of the matrix of squared distances held at a time: 1024 x 1024 float64 are 8 MB.
_BLOCK = 1024

Pairs = Sequence[tuple[str, str, float]]


def alignment(x: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance of n positive pairs, rows normalised first: (n, d) and (n, d) -> [0, 4].

    Raises ValueError for no pairs.
    """
    if not len(x):
        raise ValueError("alignment needs at least one pair")
    difference = _normalised(x) - _normalised(y)
    return float(np.einsum("nd,nd->n", difference, difference).mean())


def uniformity(z: np.ndarray) -> float:
    """Log of the mean of exp(-2 squared distance) over unordered pairs of distinct rows of (n, d), normalised first.

    Ranges over [-8, 0]; memory is bounded, whatever n. Raises ValueError for fewer than two rows.
    """
    n = len(z)
    if n < 2:
        raise ValueError("uniformity needs at least two vectors")
    z = _normalised(z)
    squares = np.einsum("nd,nd->n", z, z)
    total = 0.0
    for top in range(0, n, _BLOCK):
        rows = slice(top, top + _BLOCK)
        for left in range(top, n, _BLOCK):
            columns = slice(left, left + _BLOCK)
            distances = squares[rows, None] + squares[None, columns] - 2 * (z[rows] @ z[columns].T)
            kernel = np.exp(-2 * np.maximum(distances, 0))
            total += float(np.triu(kernel, k=1).sum() if left == top else kernel.sum())
    return float(np.log(total / (n * (n - 1) / 2)))


class GeometrySuite(PairSuite):
    """Alignment and uniformity of the pairs of similarity tasks.

    Metrics of a task: `alignment`, `uniformity`, `n` pairs, `n_positive` pairs above 4.0, and the public code's
    reading, `alignment_batch128` and `uniformity_batch128` (see the module). Without positives alignment is left out.
    """

    name = "geometry"
    version = 1
    metric = "alignment"
    metrics = ("alignment", "uniformity", "alignment_batch128", "uniformity_batch128")

    def score(self, subsets: Subsets, vectors: Embedded) -> tuple[dict[str, float], list[str]]:
        """See `PairSuite.score`."""
        return score(subsets, vectors)


def score(subsets: Subsets, vectors: Embedded) -> tuple[dict[str, float], list[str]]:
    """One task's figures by metric (see `GeometrySuite`), and a warning for each that is undefined."""
    pairs = [pair for subset in subsets.values() for pair in subset]
    positive = [pair for pair in pairs if pair[2] > POSITIVE]
    batches = list(_batches(subsets))
    scores = {
        "uniformity": uniformity(np.concatenate(_sides(pairs, vectors))),
        "uniformity_batch128": _mean([uniformity(np.concatenate(_sides(batch, vectors))) for batch in batches]),
        "n": len(pairs),
        "n_positive": len(positive),
    }
    warnings = []
    if positive:
        scores["alignment"] = alignment(*_sides(positive, vectors))
    else:
        warnings.append(f"alignment left out, no pair has a gold score above {POSITIVE}")
    from_positive = [[pair for pair in batch if pair[2] >= POSITIVE] for batch in batches]
    if any(from_positive):
        each = [alignment(*_sides(batch, vectors)) if batch else 0.0 for batch in from_positive]
        scores["alignment_batch128"] = _mean(each)
    else:
        warnings.append(f"alignment_batch128 left out, no pair has a gold score of {POSITIVE} or more")
    return scores, warnings


def _batches(subsets: Subsets) -> Iterator[Pairs]:
    """The public code's batches: no batch crosses a subset.

    A task with several subsets (the year sets) is ordered in each by the words of the first sentence, of the second,
    and the score; a task of one set keeps its order.
    """
    for pairs in subsets.values():
        ordered = pairs
        if len(subsets) > 1:
            ordered = sorted(pairs, key=lambda pair: (len(pair[0].split()), len(pair[1].split()), pair[2]))
        for start in range(0, len(ordered), BATCH):
            yield ordered[start : start + BATCH]


def _sides(pairs: Pairs, vectors: Embedded) -> tuple[np.ndarray, np.ndarray]:
    return vectors.rows(pair[0] for pair in pairs), vectors.rows(pair[1] for pair in pairs)


def _normalised(x: np.ndarray) -> np.ndarray:
    """Rows of Euclidean norm 1 in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
