"""Statistics by resampling: bootstrap interval, permutation test and almost stochastic order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from harness.stats.summary import Interval, check_level, noise, summarise

#: Up to this many ways to split the values in two groups, all are counted.
_EXACT = 20_000


@dataclass(frozen=True)
class Permutation:
    """`p` of the difference mean(a) - mean(b); `smallest` is the least p that these counts can give."""

    difference: float
    p: float
    exact: bool
    smallest: float


def bootstrap_difference(
    a: Sequence[float], b: Sequence[float], *, level: float = 0.95, draws: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of mean(a) - mean(b) (Efron 1979), each side resampled separately.

    None when a side has fewer than two values. With a handful of values it is too narrow: it cannot reach beyond the
    values given.
    """
    check_level(level)
    if len(a) < 2 or len(b) < 2:
        return None
    generator = np.random.default_rng(seed)
    first, second = (_resampled(side, draws, generator).mean(axis=1) for side in (a, b))
    low, high = np.quantile(first - second, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)


def permutation_test(a: Sequence[float], b: Sequence[float], *, draws: int = 20_000, seed: int = 0) -> Permutation:
    """Permutation test of mean(a) - mean(b), two-sided by absolute size.

    All ways of splitting the values are counted where there are at most 20,000 (eight values against eight); otherwise
    `draws` random ones and the observed one, so p is never 0 (Phipson and Smyth 2010). Equal values give p 1. Raises
    ValueError for no values and for NaN or infinity.
    """
    observed = summarise(a).mean - summarise(b).mean
    values = np.asarray([*a, *b], dtype=np.float64)
    ways, n = comb(len(values), len(a)), len(a)
    exact = ways <= _EXACT
    if exact:
        groups = values[np.array(list(combinations(range(len(values)), n)))]
    else:
        generator = np.random.default_rng(seed)
        groups = np.array([generator.permutation(values)[:n] for _ in range(draws)])
    sums = groups.sum(axis=1)
    differences = sums / n - (values.sum() - sums) / len(b)
    # differences that are equal but for the order of summation count as equal
    extreme = int((np.abs(differences) >= abs(observed) - 10 * noise(*values)).sum())
    p = extreme / ways if exact else (extreme + 1) / (draws + 1)
    smallest = (2 if n == len(b) else 1) / ways if exact else 1 / (draws + 1)
    return Permutation(observed, p, exact, smallest)


def violation_ratio(a: Sequence[float], b: Sequence[float]) -> float:
    """How far a is from being stochastically larger than b: 0 if it is, 1 if it is smaller everywhere.

    The squared distance of the two quantile functions where a lies below b, as a share of the whole (Dror et al. 2019,
    Eq. 3, with empirical quantile functions, integrated exactly). Equal distributions give 1/2: neither is larger.
    Raises ValueError for no values and for NaN or infinity.
    """
    for side in (a, b):
        summarise(side)
    first, second = (np.asarray(side, dtype=np.float64)[None] for side in (a, b))
    return float(_ratios(first, second, noise(*a, *b))[0])


def almost_stochastic_order(
    a: Sequence[float], b: Sequence[float], *, confidence: float = 0.95, draws: int = 1000, seed: int = 0
) -> float | None:
    """The upper confidence bound on the violation ratio of 'a is larger than b'; None for fewer than two values.

    Below 1/2 a is almost stochastically larger at this confidence; Ulmer et al. (2022) ask for 0.2. The bound is ratio
    - sqrt((n + m) / (n m)) * sigma * quantile(1 - confidence) of Dror et al. (2019), kept within [0, 1]; sigma is the
    scaled standard deviation of the ratio over `draws` seeded bootstrap samples of both sides. Raises ValueError for a
    confidence outside (0, 1).
    """
    check_level(confidence)
    if len(a) < 2 or len(b) < 2:
        return None
    ratio = violation_ratio(a, b)
    generator = np.random.default_rng(seed)
    first, second = (_resampled(side, draws, generator) for side in (a, b))
    factor = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    sigma = float(np.std(factor * (_ratios(first, second, noise(*a, *b)) - ratio)))
    from scipy import stats

    bound = ratio - sigma * float(stats.norm.ppf(1 - confidence)) / factor
    return min(max(bound, 0.0), 1.0)


def _resampled(values: Sequence[float], draws: int, generator: np.random.Generator) -> np.ndarray:
    """Samples with replacement, (draws, n). Raises ValueError for NaN or infinity."""
    summarise(values)
    return generator.choice(np.asarray(values, dtype=np.float64), (draws, len(values)), replace=True)


def _ratios(a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """The violation ratio of each pair of rows of a `(R, n)` and b `(R, m)`."""
    n, m = a.shape[1], b.shape[1]
    # both quantile functions are constant between the multiples of 1/n and 1/m, counted in units of 1/(n m)
    ends = np.unique(np.concatenate([np.arange(1, n + 1) * m, np.arange(1, m + 1) * n]))
    widths = np.diff(ends, prepend=0) / (n * m)
    gaps = np.sort(a, axis=1)[:, (ends - 1) // m] - np.sort(b, axis=1)[:, (ends - 1) // n]
    gaps[np.abs(gaps) <= scale] = 0.0
    total = (gaps**2 * widths).sum(axis=1)
    below = (np.minimum(gaps, 0.0) ** 2 * widths).sum(axis=1)
    return np.where(total > 0, below / np.where(total > 0, total, 1.0), 0.5)
