"""Alignment and uniformity of sentence vectors (Wang and Isola, 2020; alpha = 2, t = 2), smaller is
better.

There are three readings, which are not comparable:

- `alignment` and `uniformity` take a task's pairs as one set, as the papers describe. Positives are
  pairs with a gold score above 4.0; uniformity is over the sentences of both sides of all pairs,
  with repeats.
- `alignment_batch128` and `uniformity_batch128` follow the public MCSE code: batches of 128 pairs,
  positives from 4.0 on, 0 for a batch without positives, and the plain mean over the batches, a
  short last one included.
- `alignment_subsets` and `uniformity_subsets` follow the public DALR code: each subset as one set,
  positives above 4.0, and the mean over the subsets weighted by their pairs. The alignment skips a
  subset without positives (FNWN of STS13), where that code divides by 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.evaluation.suites import (
    Embedded,
    PairSuite,
    SentencePair,
    Subsets,
    TaskScores,
    TrainedOn,
    compute_unit_rows,
    list_pairs,
    list_sentences,
)
from harness.metrics import Metric

#: Gold score (of 0 to 5) above which a pair counts as positive; from which, in MCSE's public code.
POSITIVE = 4.0
#: Pairs in one batch of the public code.
BATCH = 128
#: Rows of squared distances in memory at a time: 1024 x 1024 float64 take 8 MB.
_BLOCK = 1024
#: Summed variance of normalised vectors below which float32 vectors count as equal.
_NO_VARIANCE = 1e-12

#: Why a metric is undefined.
_WHY = {
    "alignment": f"no pair has a gold score above {POSITIVE}",
    "alignment_batch128": f"no pair has a gold score of {POSITIVE} or more",
    "alignment_subsets": f"no pair has a gold score above {POSITIVE}",
    "mean_cosine": "there is only one sentence",
    "top_variance": "all vectors are equal",
    "effective_rank": "all vectors are equal",
}


def alignment(x: np.ndarray, y: np.ndarray) -> float:
    """Compute the mean squared distance of n > 0 pairs of rows, normalised first: (n, d) and (n, d)
    -> [0, 4].
    """
    if not len(x):
        raise ValueError("alignment needs at least one pair")
    difference = compute_unit_rows(x) - compute_unit_rows(y)
    return float(np.einsum("nd,nd->n", difference, difference).mean())


def uniformity(z: np.ndarray) -> float:
    """Compute the log of the mean of exp(-2 squared distance) over pairs of distinct rows of (n,
    d), normalised first.

    The range is [-8, 0]; memory is bounded for any n. Raises ValueError for fewer than two rows.
    """
    n = len(z)
    if n < 2:
        raise ValueError("uniformity needs at least two vectors")

    z = compute_unit_rows(z)
    squares = np.einsum("nd,nd->n", z, z)
    total = 0.0

    for top in range(0, n, _BLOCK):
        rows = slice(top, top + _BLOCK)
        for start in range(top, n, _BLOCK):
            columns = slice(start, start + _BLOCK)
            products = z[rows] @ z[columns].T
            distances = squares[rows, None] + squares[None, columns] - 2 * products
            kernel = np.exp(-2 * np.maximum(distances, 0))
            if start == top:
                # a pair counts once
                kernel = np.triu(kernel, k=1)
            total += float(kernel.sum())
    return float(np.log(total / (n * (n - 1) / 2)))


def mean_cosine(z: np.ndarray) -> float:
    """Compute the mean cosine of pairs of distinct rows of (n, d), the anisotropy of Ethayarajh
    (2019), in [-1, 1].

    A zero row has cosine 0 with every other. Raises ValueError for fewer than two rows.
    """
    n = len(z)
    if n < 2:
        raise ValueError("a mean cosine needs at least two vectors")

    z = compute_unit_rows(z)
    # the squared norm of the sum is the sum of all n x n cosines, less those of rows with
    # themselves
    total = z.sum(axis=0)
    cosines = total @ total - np.einsum("nd,nd->", z, z)
    return float(cosines / (n * (n - 1)))


def spectrum(z: np.ndarray) -> np.ndarray:
    """Compute the share of variance of each principal component of (n, d), rows normalised first:
    (d,), largest first.

    Shares add up to 1; all are 0 where the rows are equal in float32.
    """
    z = compute_unit_rows(z)
    z -= z.mean(axis=0)
    ascending = np.linalg.eigvalsh(z.T @ z / len(z))
    variances = np.maximum(ascending[::-1], 0.0)
    total = variances.sum()
    if total <= _NO_VARIANCE:
        return np.zeros_like(variances)
    return np.asarray(variances / total)


def effective_rank(shares: np.ndarray) -> float:
    """Compute the exponential of the entropy of shares of variance, (d,) -> [1, d] (Roy and
    Vetterli, 2007).
    """
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


class GeometrySuite(PairSuite):
    """Alignment, uniformity and spread of the vectors of similarity tasks.

    Metrics of a task: `alignment` and `uniformity` in the three readings of the module, `n` pairs,
    `n_positive` pairs above 4.0; `mean_cosine` and `effective_rank` of its distinct sentences
    (normalised), and `top_variance`, the share of variance in the first principal component.
    Undefined values are left out.
    """

    name = "geometry"
    title = "Alignment and uniformity"
    # 2 adds readings by subsets, mean_cosine, top_variance and effective_rank; the other numbers
    # are as in 1
    version = 2
    metrics = (
        *(
            Metric(
                f"{name}{reading}",
                larger_is_better=False,
                digits=3,
                shown=not reading,
                judged=False,
            )
            for reading in ("", "_batch128", "_subsets")
            for name in ("alignment", "uniformity")
        ),
        Metric("mean_cosine", larger_is_better=False, shown=False, judged=False),
        Metric("top_variance", larger_is_better=False, shown=False, judged=False),
        Metric("effective_rank", shown=False, judged=False),
    )

    def score(
        self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None
    ) -> TaskScores:
        pairs = list_pairs(subsets)
        positive = [pair for pair in pairs if pair[2] > POSITIVE]
        batches = list(_split_into_batches(subsets))
        distinct = dict.fromkeys(list_sentences(subsets))

        values = {
            "alignment": _compute_alignment(positive, vectors),
            "alignment_batch128": _compute_alignment_of_batches(batches, vectors),
            "alignment_subsets": _compute_alignment_of_subsets(subsets, vectors),
            "uniformity": _compute_uniformity(pairs, vectors),
            "uniformity_batch128": _compute_uniformity_of_batches(batches, vectors),
            "uniformity_subsets": _compute_uniformity_of_subsets(subsets, vectors),
            **_measure_spread(vectors.rows(distinct)),
        }

        defined = dict[str, float]()
        warnings = []
        for name, value in values.items():
            if value is None:
                warnings.append(f"{name} left out, {_WHY[name]}")
            else:
                defined[name] = value

        counts = {"n": len(pairs), "n_positive": len(positive)}
        return TaskScores(defined | counts, warnings=warnings)


def _compute_alignment_of_batches(
    batches: Sequence[Sequence[SentencePair]], vectors: Embedded
) -> float | None:
    """The mean over batches as in MCSE's public code: positive from POSITIVE on, 0 for a batch
    without a positive pair; None if all are without.
    """
    alignments = []
    for batch in batches:
        positive = [pair for pair in batch if pair[2] >= POSITIVE]
        alignments.append(_compute_alignment(positive, vectors))
    if all(alignment is None for alignment in alignments):
        return None
    return _compute_weighted_mean([(alignment or 0.0, 1) for alignment in alignments])


def _compute_alignment_of_subsets(subsets: Subsets, vectors: Embedded) -> float | None:
    """The mean over subsets with a positive pair, weighted by all their pairs; None without any."""
    weighted = []
    for pairs in subsets.values():
        positive = [pair for pair in pairs if pair[2] > POSITIVE]
        alignment = _compute_alignment(positive, vectors)
        if alignment is not None:
            weighted.append((alignment, len(pairs)))
    return _compute_weighted_mean(weighted) if weighted else None


def _compute_uniformity_of_batches(
    batches: Sequence[Sequence[SentencePair]], vectors: Embedded
) -> float:
    return _compute_weighted_mean([(_compute_uniformity(batch, vectors), 1) for batch in batches])


def _compute_uniformity_of_subsets(subsets: Subsets, vectors: Embedded) -> float:
    weighted = [(_compute_uniformity(pairs, vectors), len(pairs)) for pairs in subsets.values()]
    return _compute_weighted_mean(weighted)


def _measure_spread(z: np.ndarray) -> dict[str, float | None]:
    """How far vectors (n, d) spread over their dimensions."""
    values: dict[str, float | None] = dict.fromkeys(
        ("mean_cosine", "top_variance", "effective_rank")
    )
    if len(z) > 1:
        values["mean_cosine"] = mean_cosine(z)

    shares = spectrum(z)
    if shares.any():
        values["top_variance"] = float(shares[0])
        values["effective_rank"] = effective_rank(shares)
    return values


def _split_into_batches(subsets: Subsets) -> Iterator[Sequence[SentencePair]]:
    """Yield the batches of the public MCSE code, which do not cross subsets.

    In a task with several subsets (the year sets) pairs are sorted by the number of words of the
    first sentence, of the second, and the score; a task of one set keeps its order.
    """
    for pairs in subsets.values():
        ordered = sorted(pairs, key=_get_sort_key) if len(subsets) > 1 else pairs
        for start in range(0, len(ordered), BATCH):
            yield ordered[start : start + BATCH]


def _get_sort_key(pair: SentencePair) -> tuple[int, int, float]:
    first, second, score = pair
    return len(first.split()), len(second.split()), score


def _compute_alignment(pairs: Sequence[SentencePair], vectors: Embedded) -> float | None:
    return alignment(*_get_sides(pairs, vectors)) if pairs else None


def _compute_uniformity(pairs: Sequence[SentencePair], vectors: Embedded) -> float:
    return uniformity(np.concatenate(_get_sides(pairs, vectors)))


def _get_sides(pairs: Sequence[SentencePair], vectors: Embedded) -> tuple[np.ndarray, np.ndarray]:
    return vectors.rows(pair[0] for pair in pairs), vectors.rows(pair[1] for pair in pairs)


def _compute_weighted_mean(weighted: Sequence[tuple[float, int]]) -> float:
    """The mean of values with their weights."""
    total = sum(value * weight for value, weight in weighted)
    return total / sum(weight for _, weight in weighted)
