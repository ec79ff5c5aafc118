"""Ranks of many variants over several places, and how far they depend on the seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.stats.equivalence import Floats
from harness.stats.summary import check_level

#: numbers drawn at a time, to bound the memory
_AT_A_TIME = 4_000_000


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over places of V variants, 1 the best, in the order of the scores given.

    `low` and `high` are the ends of the bootstrap interval at `level`. `order` are the variants from best to worst, and
    `flips` (V - 1) the chance that each is behind the next with other seeds; equal ranks count half.
    """

    mean_rank: Floats
    low: Floats
    high: Floats
    order: NDArray[np.int64]
    flips: Floats
    level: float


def bootstrap_ranking(scores: Floats, *, draws: int = 1000, level: float = 0.95, seed: int = 0) -> Ranking:
    """Rank variants by scores (V, P, S): V variants in P places over at most S seeds, NaN where a seed is absent.

    Larger is better. Ranks are of means over seeds within a place, equal means sharing theirs, averaged over places. A
    draw resamples the seeds of each variant in each place (Efron 1979); with a handful of seeds the intervals are too
    narrow, and one seed has no spread at all. Raises ValueError for a variant without a score in some place.
    """
    check_level(level)
    present = np.isfinite(scores)
    counts = present.sum(axis=2)
    if scores.ndim != 3 or not scores.size or not counts.all():
        raise ValueError("a ranking needs a score of each variant in each place")
    # the seeds that are there come first
    packed = np.take_along_axis(np.where(present, scores, 0.0), np.argsort(~present, axis=2, kind="stable"), axis=2)
    means = packed.sum(axis=2) / counts
    mean_rank = _mean_ranks(means[None])[0]
    order = np.lexsort((-means.mean(axis=1), mean_rank))
    drawn = _drawn(packed, counts, draws, np.random.default_rng(seed))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    gaps = np.diff(drawn[:, order], axis=1)
    flips = (gaps < 0).mean(axis=0) + 0.5 * (gaps == 0).mean(axis=0)
    return Ranking(mean_rank, low, high, order, flips, level)


def _drawn(packed: Floats, counts: NDArray[np.int64], draws: int, generator: np.random.Generator) -> Floats:
    """The mean ranks of each draw, (draws, V)."""
    found, step = [], max(1, _AT_A_TIME // packed.size)
    there = np.arange(packed.shape[2]) < counts[..., None]
    for start in range(0, draws, step):
        uniform = generator.random((min(step, draws - start), *packed.shape), dtype=np.float32)
        # the product may round up to the count itself
        chosen = np.minimum((uniform * counts[..., None]).astype(np.int64), counts[..., None] - 1)
        values = np.take_along_axis(packed[None], chosen, axis=3)
        found.append(_mean_ranks(np.where(there, values, 0.0).sum(axis=3) / counts))
    return np.concatenate(found)


def _mean_ranks(means: Floats) -> Floats:
    """Means (B, V, P) -> ranks within each place, averaged over places (B, V)."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(-means, axis=1).mean(axis=2)
    return ranks
