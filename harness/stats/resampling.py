"""Statistics by drawing from the values at hand: permutation, bootstrap, almost stochastic order,
ranks, best of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.stats.equivalence import Floats
from harness.stats.t_tests import Interval, check_level, noise, summarise

#: If there are at most this many ways to split the values into two groups, all of them are counted.
_EXACT = 20_000


@dataclass(frozen=True)
class Permutation:
    """`p` of the difference mean(a) - mean(b); `smallest` is the least p that these counts can
    give.
    """

    difference: float
    p: float
    exact: bool
    smallest: float


def bootstrap_difference(
    a: Sequence[float],
    b: Sequence[float],
    *,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval | None:
    """The percentile bootstrap interval of mean(a) - mean(b) (Efron 1979), each side resampled
    separately.

    None when a side has fewer than two values. With a handful of values it is too narrow: it cannot
    reach beyond the values given.
    """
    check_level(level)
    if len(a) < 2 or len(b) < 2:
        return None

    first_side, second_side = _check_sides(a, b)
    first_means = _sample_means(*first_side, draws, seed)
    second_means = _sample_means(*second_side, draws, seed)
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(first_means - second_means, ends)
    return Interval(float(low), float(high), level)


def permutation_test(
    a: Sequence[float],
    b: Sequence[float],
    *,
    paired: bool = False,
    draws: int = 20_000,
    seed: int = 0,
) -> Permutation:
    """Permutation test of mean(a) - mean(b), two-sided by absolute size.

    All ways of splitting the values are counted where there are at most 20,000 (eight values
    against eight); otherwise `draws` random ones and the observed one, so p is never 0 (Phipson and
    Smyth 2010). If `paired`, the i-th values of both change sides together, and up to 14 pairs are
    counted. Equal values give p 1. Raises ValueError for no values, for NaN or infinity, and for
    unequal numbers of paired values.
    """
    observed = summarise(a).mean - summarise(b).mean
    values = np.asarray([*a, *b], dtype=np.float64)
    n = len(a)
    ways = 2**n if paired else comb(len(values), n)
    is_exact = ways <= _EXACT
    generator = np.random.default_rng(seed)
    if paired:
        signs = _list_signs(n) if is_exact else generator.integers(0, 2, (draws, n))
        differences = (1.0 - 2.0 * signs) @ (values[:n] - values[n:]) / n
    else:
        if is_exact:
            rows = _list_splits(len(values), n)
        else:
            rows = np.array([generator.permutation(len(values))[:n] for _ in range(draws)])
        sums = values[rows].sum(axis=1)
        differences = sums / n - (values.sum() - sums) / len(b)

    # differences that are equal but for the order of summation count as equal
    bound = abs(observed) - 10 * noise(*values)
    extreme = int((np.abs(differences) >= bound).sum())
    if is_exact:
        # of equal numbers, the mirrored split is as extreme
        least = 2 if n == len(b) else 1
        return Permutation(observed, extreme / ways, is_exact, least / ways)
    return Permutation(observed, (extreme + 1) / (draws + 1), is_exact, 1 / (draws + 1))


def violation_ratio(a: Sequence[float], b: Sequence[float]) -> float:
    """How far a is from being stochastically larger than b: 0 if it is, 1 if it is smaller
    everywhere.

    The squared distance of the two quantile functions where a lies below b, as a share of the whole
    (Dror et al. 2019, Eq. 3, with empirical quantile functions, integrated exactly). Equal
    distributions give 1/2: neither is larger. Raises ValueError for no values and for NaN or
    infinity.
    """
    _check_sides(a, b)
    first = np.sort(np.asarray(a, dtype=np.float64))
    second = np.sort(np.asarray(b, dtype=np.float64))
    ratios = _compute_ratios(first[:, None], second[:, None], noise(*a, *b))
    return float(ratios[0])


def almost_stochastic_order(
    a: Sequence[float],
    b: Sequence[float],
    *,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> float | None:
    """The upper confidence bound on the violation ratio of 'a is larger than b'; None for fewer
    than two values.

    Below 1/2 a is almost stochastically larger at this confidence; Ulmer et al. (2022) ask for 0.2.
    The bound is that of Dror et al. (2019), kept within [0, 1]: the ratio less sqrt((n + m) / (n m))
    times sigma times the normal quantile of 1 - confidence, where sigma is the scaled standard
    deviation of the ratio over `draws` seeded bootstrap samples of both sides. Raises ValueError
    for a confidence outside (0, 1).
    """
    check_level(confidence)
    if len(a) < 2 or len(b) < 2:
        return None

    ratio = violation_ratio(a, b)
    first_side, second_side = _check_sides(a, b)
    first = _sort_samples(*first_side, draws, seed)
    second = _sort_samples(*second_side, draws, seed)
    sampled_ratios = _compute_ratios(first, second, noise(*a, *b))
    factor = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    sigma = float(np.std(factor * (sampled_ratios - ratio)))
    from scipy.special import ndtri  # scipy.stats takes a second to import

    bound = ratio - sigma * float(ndtri(1 - confidence)) / factor
    return min(max(bound, 0.0), 1.0)


#: a side's values, the sizes of both sides, and which of them it is
_Side = tuple[tuple[float, ...], tuple[int, int], int]


def _check_sides(a: Sequence[float], b: Sequence[float]) -> tuple[_Side, _Side]:
    """Both sides of a comparison. Raises ValueError for NaN or infinity."""
    summarise(a)
    summarise(b)
    sizes = (len(a), len(b))
    return (tuple(a), sizes, 0), (tuple(b), sizes, 1)


# what follows is kept, since a row is compared with many
@lru_cache(maxsize=256)
def _sample_means(*samples: Any) -> Floats:
    means: Floats = _draw_samples(*samples).mean(axis=0)
    return means


@lru_cache(maxsize=256)
def _sort_samples(*samples: Any) -> Floats:
    return np.sort(_draw_samples(*samples), axis=0)


def _draw_samples(
    values: tuple[float, ...], sizes: tuple[int, int], place: int, draws: int, seed: int
) -> Floats:
    """Samples of a side with replacement, (n, draws): numpy is fast along a long last axis."""
    rows = _draw_rows(sizes, draws, seed)[place]
    return np.asarray(values, dtype=np.float64)[rows]


@lru_cache(maxsize=32)
def _draw_rows(sizes: tuple[int, int], draws: int, seed: int) -> list[NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, size, (draws, size)).T.copy() for size in sizes]


def _list_signs(count: int) -> NDArray[np.int64]:
    """All ways to mark some of the pairs by a 1, (2^count, count)."""
    return np.arange(2**count)[:, None] >> np.arange(count) & 1


@lru_cache(maxsize=8)
def _list_splits(count: int, size: int) -> NDArray[np.int64]:
    """All ways to choose some of the values, (ways, size)."""
    return np.array(list(combinations(range(count), size)))


def _compute_ratios(a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """The violation ratio of each pair of columns of a `(n, R)` and b `(m, R)`, which are sorted."""
    steps_of_a, steps_of_b, widths = _list_quantile_steps(len(a), len(b))
    gaps = a[steps_of_a] - b[steps_of_b]
    gaps[np.abs(gaps) <= scale] = 0.0
    total = (gaps**2 * widths[:, None]).sum(axis=0)
    below = (np.minimum(gaps, 0.0) ** 2 * widths[:, None]).sum(axis=0)
    is_different = total > 0
    return np.where(is_different, below / np.where(is_different, total, 1.0), 0.5)


@lru_cache(maxsize=32)
def _list_quantile_steps(n: int, m: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """The places of n and of m sorted values whose quantile functions are constant between two
    ends, and the distances of the ends.
    """
    # in units of 1/(n m), they are constant between the multiples of m and of n
    ends_of_a = np.arange(1, n + 1) * m
    ends_of_b = np.arange(1, m + 1) * n
    ends = np.unique(np.concatenate([ends_of_a, ends_of_b]))
    widths = np.diff(ends, prepend=0) / (n * m)
    return (ends - 1) // m, (ends - 1) // n, widths


#: numbers drawn at a time, to bound the memory
_AT_A_TIME = 1_000_000


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over places of V variants, 1 the best, in the order of the scores given.

    `low` and `high` are the ends of the bootstrap interval at `level`. `order` are the variants
    from best to worst, and `flips` (V - 1) the chance that each is behind the next with other
    seeds; equal ranks count half.
    """

    mean_rank: Floats
    low: Floats
    high: Floats
    order: NDArray[np.int64]
    flips: Floats
    level: float


def bootstrap_ranking(
    scores: Floats, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Ranking:
    """Rank variants by scores (V, P, S): V variants in P places over at most S seeds, NaN where a
    seed is absent.

    Larger is better. Ranks are of means over seeds within a place, equal means sharing theirs,
    averaged over places. A draw resamples the seeds of each variant in each place (Efron 1979);
    with a handful of seeds the intervals are too narrow, and one seed has no spread at all. Raises
    ValueError for a variant without a score in some place.
    """
    check_level(level)
    present = np.isfinite(scores)
    counts = present.sum(axis=2)
    if scores.ndim != 3 or not scores.size or not counts.all():
        raise ValueError("a ranking needs a score of each variant in each place")

    # the seeds that are there come first
    seed_order = np.argsort(~present, axis=2, kind="stable")
    packed = np.take_along_axis(np.where(present, scores, 0.0), seed_order, axis=2)
    means = packed.sum(axis=2) / counts
    mean_rank = _rank_means(means[None])[0]
    order = np.lexsort((-means.mean(axis=1), mean_rank))

    ranks = _draw_mean_ranks(packed, counts, draws, np.random.default_rng(seed))
    low, high = np.quantile(ranks, [(1 - level) / 2, (1 + level) / 2], axis=0)
    gaps = np.diff(ranks[:, order], axis=1)
    flips = (gaps < 0).mean(axis=0) + 0.5 * (gaps == 0).mean(axis=0)
    return Ranking(mean_rank, low, high, order, flips, level)


def _draw_mean_ranks(
    packed: Floats, counts: NDArray[np.int64], draws: int, generator: np.random.Generator
) -> Floats:
    """The mean ranks of each draw, (draws, V)."""
    ranks = []
    step = max(1, _AT_A_TIME // packed.size)
    limits = counts[..., None]
    is_present = np.arange(packed.shape[2]) < limits
    for start in range(0, draws, step):
        shape = (min(step, draws - start), *packed.shape)
        uniform = generator.random(shape, dtype=np.float32)
        # the product may round up to the count itself
        seeds = np.minimum((uniform * limits).astype(np.int64), limits - 1)
        values = np.take_along_axis(packed[None], seeds, axis=3)
        means = np.where(is_present, values, 0.0).sum(axis=3) / counts
        ranks.append(_rank_means(means))

    return np.concatenate(ranks)


def _rank_means(means: Floats) -> Floats:
    """Means (B, V, P) -> ranks within each place, averaged over places (B, V)."""
    # scipy's rankdata gives the same ranks, but scipy.stats takes a second to import
    losses = np.ascontiguousarray(np.moveaxis(-means, 1, 2))
    order = np.argsort(losses, axis=2)
    sorted_losses = np.take_along_axis(losses, order, axis=2)
    is_new = np.diff(sorted_losses, axis=2) != 0
    ends = np.ones((*is_new.shape[:2], 1), bool)

    # equal means share the average of the first and of the last of their places
    places = np.arange(losses.shape[2])
    firsts = np.where(np.concatenate([ends, is_new], axis=2), places, 0)
    lasts = np.where(np.concatenate([is_new, ends], axis=2), places, places[-1])
    firsts = np.maximum.accumulate(firsts, axis=2)
    lasts = np.minimum.accumulate(lasts[..., ::-1], axis=2)[..., ::-1]
    ranks = np.empty_like(losses)
    np.put_along_axis(ranks, order, (firsts + lasts) / 2 + 1, axis=2)
    mean_ranks: Floats = ranks.mean(axis=1)
    return mean_ranks


def expected_best(
    scores: Sequence[float] | NDArray[np.float64], *, larger_is_better: bool = True
) -> list[float]:
    """The expected best of n trials for n = 1 to N, from the scores of N trials (Dodge et al. 2019,
    Eq. 3 and 4).

    The n trials are drawn with replacement from the N: the i-th smallest score is the largest of
    them with probability (i/N)^n - ((i-1)/N)^n. The first number is the mean. Raises ValueError for
    no scores and for NaN or infinity.
    """
    values = np.sort(np.asarray(scores, dtype=np.float64))
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError("the best of trials needs at least one finite score")

    if not larger_is_better:
        values = values[::-1]

    shares = np.arange(values.size + 1) / values.size
    trials = np.arange(1, values.size + 1)
    probabilities = np.diff(shares[None, :] ** trials[:, None], axis=1)
    expected: list[float] = (probabilities @ values).tolist()
    return expected
