"""t-tests, from values or from means, standard deviations and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.summary import Summary, check_level, noise, summarise

#: The level of significance wherever a paper names none.
ALPHA = 0.05
#: Fewer seeds on a side get no verdict: two say next to nothing about a spread.
FEWEST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class TTest:
    """A t-test of a against b.

    `difference` is mean(a) - mean(b); `low` and `high` are the ends of its confidence interval at `level`.
    """

    difference: float
    statistic: float
    df: float
    p: float
    low: float
    high: float
    level: float


def t_test(a: Sequence[float], b: Sequence[float], *, equal_variance: bool = True, level: float = 0.95) -> TTest | None:
    """Independent two-sample t-test from the values themselves; None when either has fewer than two.

    Pooled by default, Welch's with `equal_variance=False`. See `t_test_from_summaries` for values without spread.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    return t_test_from_summaries(summarise(a), summarise(b), equal_variance=equal_variance, level=level)


def t_test_from_summaries(a: Summary, b: Summary, *, equal_variance: bool = True, level: float = 0.95) -> TTest | None:
    """Independent two-sample t-test from means, sample standard deviations and counts, as papers print them.

    None when a side has fewer than two values or no standard deviation: too few seeds to test. When neither side has
    any spread, the limit is returned instead of NaN: equal means give statistic 0 and p 1, unequal means give an
    infinite statistic and p 0; the interval then has no width. No field is ever NaN. Raises ValueError for a negative
    standard deviation or a level outside (0, 1).
    """
    check_level(level)
    if a.n < 2 or b.n < 2 or a.std is None or b.std is None:
        return None
    if a.std < 0 or b.std < 0:
        raise ValueError("a standard deviation is never negative")
    difference = a.mean - b.mean
    scale = noise(a.mean, b.mean)
    if max(a.std, b.std) <= scale:
        return _without_spread(difference, scale, a.n + b.n - 2, level)
    return _tested(difference, *_standard_error(a, b, equal_variance), level)


def paired_t_test(a: Sequence[float], b: Sequence[float], *, level: float = 0.95) -> TTest | None:
    """t-test of the differences of pairs, the i-th of a with the i-th of b; None for fewer than two pairs.

    Equal differences give the limit, as in `t_test_from_summaries`. Raises ValueError for unequal lengths.
    """
    check_level(level)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    if len(a) < 2:
        return None
    first, second = summarise(a), summarise(b)
    differences = summarise([x - y for x, y in zip(a, b, strict=True)])
    std = differences.std or 0.0
    scale, df = noise(first.mean, second.mean), differences.n - 1
    if std <= scale:
        return _without_spread(differences.mean, scale, df, level)
    return _tested(differences.mean, std / math.sqrt(differences.n), float(df), level)


def one_sample_t_test(values: Sequence[float], mean: float, *, level: float = 0.95) -> TTest | None:
    """t-test of values against a number without spread; None for fewer than two values."""
    return paired_t_test(values, [mean] * len(values), level=level)


def pooled_deviation(a: Summary, b: Summary) -> float:
    """The pooled sample standard deviation of two sides. Raises ValueError where one has no standard deviation."""
    std_a, std_b = _deviations(a, b)
    return math.sqrt(((a.n - 1) * std_a**2 + (b.n - 1) * std_b**2) / (a.n + b.n - 2))


def _deviations(a: Summary, b: Summary) -> tuple[float, float]:
    if a.std is None or b.std is None:
        raise ValueError("a side without a standard deviation cannot be pooled")
    return a.std, b.std


def _standard_error(a: Summary, b: Summary, equal_variance: bool) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom."""
    n_a, n_b = a.n, b.n
    if equal_variance:
        return pooled_deviation(a, b) * math.sqrt(1 / n_a + 1 / n_b), float(n_a + n_b - 2)
    std_a, std_b = _deviations(a, b)
    part_a, part_b = std_a**2 / n_a, std_b**2 / n_b
    # Welch-Satterthwaite, with both parts scaled so that tiny variances do not underflow.
    total = part_a + part_b
    share_a, share_b = part_a / total, part_b / total
    return math.sqrt(total), 1.0 / (share_a**2 / (n_a - 1) + share_b**2 / (n_b - 1))


def _tested(difference: float, error: float, df: float, level: float) -> TTest:
    """The two-sided test of a difference with a standard error."""
    from scipy.special import stdtr, stdtrit  # scipy.stats takes a second to import

    statistic = difference / error
    margin = float(stdtrit(df, 0.5 + level / 2)) * error
    p = 2 * float(stdtr(df, -abs(statistic)))
    return TTest(difference, statistic, df, p, difference - margin, difference + margin, level)


def _without_spread(difference: float, scale: float, df: int, level: float) -> TTest:
    if abs(difference) <= scale:
        return TTest(difference, 0.0, float(df), 1.0, difference, difference, level)
    return TTest(difference, math.copysign(math.inf, difference), float(df), 0.0, difference, difference, level)
