"""Confidence intervals of a mean and, by resampling, of a difference of means.

The t interval of a difference comes with its test (`TTest.low` and `high`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.stats.summary import Summary, check_level, summarise


@dataclass(frozen=True)
class Interval:
    """Ends of a confidence interval at `level`."""

    low: float
    high: float
    level: float


def mean_interval(summary: Summary, *, level: float = 0.95) -> Interval | None:
    """The t interval of a mean; None for fewer than two values, no width where there is no spread.

    Raises ValueError for a level outside (0, 1) or a negative standard deviation.
    """
    check_level(level)
    if summary.n < 2 or summary.std is None:
        return None
    if summary.std < 0:
        raise ValueError("a standard deviation is never negative")
    from scipy import stats

    margin = float(stats.t.ppf(0.5 + level / 2, summary.n - 1)) * summary.std / math.sqrt(summary.n)
    return Interval(summary.mean - margin, summary.mean + margin, level)


def bootstrap_mean(
    values: Sequence[float], *, level: float = 0.95, draws: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of a mean (Efron 1979); None for fewer than two values.

    With a handful of values it is narrower than it should be: it cannot reach beyond the values seen.
    """
    check_level(level)
    if len(values) < 2:
        return None
    return _percentiles(_resampled_means(values, draws, np.random.default_rng(seed)), level)


def bootstrap_difference(
    a: Sequence[float], b: Sequence[float], *, level: float = 0.95, draws: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of mean(a) - mean(b), each side resampled by itself.

    None when a side has fewer than two values; too narrow with a handful, as `bootstrap_mean`.
    """
    check_level(level)
    if len(a) < 2 or len(b) < 2:
        return None
    generator = np.random.default_rng(seed)
    first = _resampled_means(a, draws, generator)
    return _percentiles(first - _resampled_means(b, draws, generator), level)


def _resampled_means(values: Sequence[float], draws: int, generator: np.random.Generator) -> np.ndarray:
    summarise(values)
    return generator.choice(np.asarray(values, dtype=np.float64), (draws, len(values)), replace=True).mean(axis=1)


def _percentiles(means: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)
