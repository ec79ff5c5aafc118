"""Statistics over seeds: pure functions on numbers, no files and no names of the house.

Standard deviations are the sample form (n - 1). Tests are two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Spreads below this share of the mean are rounding noise of equal numbers.
_NOISE = 1e-12


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of n values, in the values' own unit. `std` is None for n < 2."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class TTest:
    """A two-sample t-test of a against b.

    `difference` is mean(a) - mean(b); `low` and `high` are the ends of its confidence interval at `level`.
    """

    difference: float
    statistic: float
    df: float
    p: float
    low: float
    high: float
    level: float


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation. Raises ValueError for no values and for NaN or infinity."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError("a summary needs at least one value")
    if not np.isfinite(numbers).all():
        raise ValueError("a summary needs finite values")
    std = float(numbers.std(ddof=1)) if numbers.size > 1 else None
    return Summary(float(numbers.mean()), std, int(numbers.size))


def t_test(a: Sequence[float], b: Sequence[float], *, equal_variance: bool = True, level: float = 0.95) -> TTest | None:
    """Independent two-sample t-test from the values themselves; None when either has fewer than two.

    Pooled by default, Welch's with `equal_variance=False`. See `t_test_from_summaries` for values without spread.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    return t_test_from_summaries(summarise(a), summarise(b), equal_variance=equal_variance, level=level)


def t_test_from_summaries(a: Summary, b: Summary, *, equal_variance: bool = True, level: float = 0.95) -> TTest | None:
    """Independent two-sample t-test from means, sample standard deviations and counts, as papers print them.

    None when a side has fewer than two values or no standard deviation: too few seeds to test.
    When neither side has any spread, the limit is returned instead of NaN: equal means give statistic 0 and p 1,
    unequal means give an infinite statistic and p 0; the interval then has no width. No field is ever NaN.
    Raises ValueError for a negative standard deviation or a level outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"the confidence level {level} is not between 0 and 1")
    if a.n < 2 or b.n < 2 or a.std is None or b.std is None:
        return None
    if a.std < 0 or b.std < 0:
        raise ValueError("a standard deviation is never negative")
    difference = a.mean - b.mean
    scale = max(abs(a.mean), abs(b.mean)) * _NOISE
    if max(a.std, b.std) <= scale:
        return _without_spread(difference, scale, a.n + b.n - 2, level)
    from scipy import stats

    found = stats.ttest_ind_from_stats(a.mean, a.std, a.n, b.mean, b.std, b.n, equal_var=equal_variance)
    error, df = _standard_error((a.std, a.n), (b.std, b.n), equal_variance)
    margin = float(stats.t.ppf(0.5 + level / 2, df)) * error
    return TTest(
        difference, float(found.statistic), df, float(found.pvalue), difference - margin, difference + margin, level
    )


def _standard_error(a: tuple[float, int], b: tuple[float, int], equal_variance: bool) -> tuple[float, float]:
    """Standard error of the difference of two means and its degrees of freedom, from (std, n) of each side."""
    (std_a, n_a), (std_b, n_b) = a, b
    if equal_variance:
        df = n_a + n_b - 2
        pooled = ((n_a - 1) * std_a**2 + (n_b - 1) * std_b**2) / df
        return math.sqrt(pooled * (1 / n_a + 1 / n_b)), float(df)
    part_a, part_b = std_a**2 / n_a, std_b**2 / n_b
    # Welch-Satterthwaite, with both parts scaled so that tiny variances do not underflow.
    total = part_a + part_b
    share_a, share_b = part_a / total, part_b / total
    return math.sqrt(total), 1.0 / (share_a**2 / (n_a - 1) + share_b**2 / (n_b - 1))


def _without_spread(difference: float, scale: float, df: int, level: float) -> TTest:
    if abs(difference) <= scale:
        return TTest(difference, 0.0, float(df), 1.0, difference, difference, level)
    return TTest(difference, math.copysign(math.inf, difference), float(df), 0.0, difference, difference, level)
