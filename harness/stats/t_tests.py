"""Means and deviations of a few values; t-tests from values or from these; effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from harness.stats.roots import find_root

#: Spreads below this share of the mean are rounding noise of equal numbers.
_NOISE = 1e-12


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and sample standard deviation of n values, in the values' own unit. `std` is None for n
    < 2.

    Raises ValueError for an invalid standard deviation.
    """

    mean: float
    std: float | None
    n: int

    def __post_init__(self) -> None:
        if self.std is not None:
            check_std(self.std)


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of a confidence interval at `level`."""

    low: float
    high: float
    level: float


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation. Raises ValueError for no values and for NaN or infinity."""
    count = len(values)
    if not count:
        raise ValueError("a summary needs at least one value")

    mean = math.fsum(values) / count  # a few: numpy would take ten times as long
    if not math.isfinite(mean):
        raise ValueError("a summary needs finite values")
    if count == 1:
        return Summary(mean, None, count)

    squares = [(value - mean) ** 2 for value in values]
    return Summary(mean, math.sqrt(math.fsum(squares) / (count - 1)), count)


def mean_interval(summary: Summary, *, level: float = 0.95) -> Interval | None:
    """The t interval of a mean; None for fewer than two values, of width 0 without spread.

    Raises ValueError for a level outside (0, 1).
    """
    check_level(level)
    if summary.n < 2 or summary.std is None:
        return None
    critical = quantile(float(summary.n - 1), 0.5 + level / 2)
    margin = critical * summary.std / math.sqrt(summary.n)
    return Interval(summary.mean - margin, summary.mean + margin, level)


def noise(*means: float) -> float:
    """The size below which a difference of numbers like these is rounding noise."""
    return max(map(abs, means)) * _NOISE


def check_level(level: float) -> None:
    """Raise ValueError for a confidence level outside (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the confidence level {level} is not between 0 and 1")


def check_std(std: float) -> None:
    """Raise ValueError for an invalid standard deviation."""
    if not (std >= 0 and math.isfinite(std)):
        raise ValueError("a standard deviation is a number, never negative")


#: The level of significance wherever a paper names none.
ALPHA = 0.05
#: Fewer seeds on a side get no verdict: two say next to nothing about a spread.
FEWEST_SEEDS = 3


#: how the values of two sides belong together
Design = Literal["independent", "paired", "one sample"]


#: what sentences call the tests
WELCH = "Welch's t-test"
POOLED = "the pooled t-test"
PAIRED = "the paired t-test"
ONE_SAMPLE = "the one-sample t-test"
_NAMES: dict[Design, str] = {"independent": WELCH, "paired": PAIRED, "one sample": ONE_SAMPLE}


@dataclass(frozen=True, slots=True)
class TTest:
    """A t-test of a against b.

    `difference` is mean(a) - mean(b), `error` its standard error; `low` and `high` are the ends of
    its confidence interval at `level`. `name` is what sentences call the test.
    """

    difference: float
    statistic: float
    df: float
    p: float
    low: float
    high: float
    level: float
    error: float
    design: Design = "independent"
    name: str = WELCH

    def reversed(self) -> TTest:
        """The same test of b against a."""
        difference = -self.difference
        statistic = -self.statistic
        low = -self.high
        high = -self.low
        return replace(self, difference=difference, statistic=statistic, low=low, high=high)


def t_test(
    a: Sequence[float], b: Sequence[float], *, equal_variance: bool = False, level: float = 0.95
) -> TTest | None:
    """Independent two-sample t-test from the values themselves; None when either has fewer than
    two.

    Welch's by default, which needs no equal spread; pooled with `equal_variance=True`. See
    `t_test_from_summaries` for values without spread.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    return t_test_from_summaries(
        summarise(a), summarise(b), equal_variance=equal_variance, level=level
    )


def t_test_from_summaries(
    a: Summary, b: Summary, *, equal_variance: bool = False, level: float = 0.95
) -> TTest | None:
    """Independent two-sample t-test from means, sample standard deviations and counts, as papers
    print them.

    Welch's by default, pooled with `equal_variance=True`. None when a side has fewer than two
    values or no standard deviation: too few seeds to test. When neither side has any spread, the
    limit is returned instead of NaN: equal means give statistic 0 and p 1, unequal means give an
    infinite statistic and p 0; the interval then has no width. No field is ever NaN. Raises
    ValueError for a level outside (0, 1).
    """
    check_level(level)
    if a.n < 2 or b.n < 2 or a.std is None or b.std is None:
        return None

    difference = a.mean - b.mean
    scale = noise(a.mean, b.mean)
    pooled_df = a.n + b.n - 2
    if max(a.std, b.std) <= scale:
        test = _make_test_without_spread(difference, scale, pooled_df, level)
    elif equal_variance:
        error = pooled_deviation(a, b) * math.sqrt(1 / a.n + 1 / b.n)
        test = _make_test(difference, error, float(pooled_df), level)
    else:
        error, df = _compute_welch_error(a.std, a.n, b.std, b.n)
        test = _make_test(difference, error, df, level)

    if equal_variance:
        return replace(test, name=POOLED)
    return test


def paired_t_test(a: Sequence[float], b: Sequence[float], *, level: float = 0.95) -> TTest | None:
    """t-test of the differences of pairs, the i-th of a with the i-th of b; None for fewer than two
    pairs.

    Equal differences give the limit, as in `t_test_from_summaries`. Raises ValueError for unequal
    lengths.
    """
    return _test_of_pairs(a, b, level, "paired")


def _test_of_pairs(
    a: Sequence[float], b: Sequence[float], level: float, design: Design
) -> TTest | None:
    check_level(level)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    if len(a) < 2:
        return None

    first = summarise(a)
    second = summarise(b)
    differences = summarise([x - y for x, y in zip(a, b, strict=True)])
    std = differences.std or 0.0
    scale = noise(first.mean, second.mean)
    df = differences.n - 1
    if std <= scale:
        return _make_test_without_spread(differences.mean, scale, df, level, design)
    return _make_test(differences.mean, std / math.sqrt(differences.n), float(df), level, design)


def one_sample_t_test(values: Sequence[float], mean: float, *, level: float = 0.95) -> TTest | None:
    """t-test of values against a number without spread; None for fewer than two values."""
    return _test_of_pairs(values, [mean] * len(values), level, "one sample")


def pooled_deviation(a: Summary, b: Summary) -> float:
    """The pooled sample standard deviation of two sides. Raises ValueError where one has no
    standard deviation.
    """
    if a.std is None or b.std is None:
        raise ValueError("a side without a standard deviation cannot be pooled")
    squares = (a.n - 1) * a.std**2 + (b.n - 1) * b.std**2
    return math.sqrt(squares / (a.n + b.n - 2))


def _compute_welch_error(std_a: float, n_a: int, std_b: float, n_b: int) -> tuple[float, float]:
    """The standard error with unequal variances, and its degrees of freedom by Welch and
    Satterthwaite.
    """
    part_a = std_a**2 / n_a
    part_b = std_b**2 / n_b
    total = part_a + part_b

    # shares of the variance, since squares of tiny variances would underflow
    share_a = part_a / total
    share_b = part_b / total
    inverse_df = share_a**2 / (n_a - 1) + share_b**2 / (n_b - 1)
    return math.sqrt(total), 1.0 / inverse_df


def _make_test(
    difference: float, error: float, df: float, level: float, design: Design = "independent"
) -> TTest:
    from scipy.special import stdtr  # scipy.stats takes a second to import

    statistic = difference / error
    margin = quantile(df, 0.5 + level / 2) * error
    p = 2 * float(stdtr(df, -abs(statistic)))
    low = difference - margin
    high = difference + margin
    return TTest(difference, statistic, df, p, low, high, level, error, design, _NAMES[design])


# those of paired tests recur; each Welch test has degrees of freedom of its own
@lru_cache(maxsize=1000)
def quantile(df: float, share: float) -> float:
    """A quantile of the t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(df, share))


def _make_test_without_spread(
    difference: float, scale: float, df: int, level: float, design: Design = "independent"
) -> TTest:
    statistic = 0.0
    p = 1.0
    if abs(difference) > scale:
        statistic = math.copysign(math.inf, difference)
        p = 0.0
    return TTest(
        difference,
        statistic,
        float(df),
        p,
        difference,
        difference,
        level,
        0.0,
        design,
        _NAMES[design],
    )


#: Beyond this statistic, the normal part of the noncentral t distribution is negligible.
_FAR = 1000.0


@dataclass(frozen=True)
class Effect:
    """Hedges' g and the confidence interval of the standardised difference, in pooled standard
    deviations.
    """

    g: float
    low: float
    high: float
    level: float


def hedges_g(a: Summary, b: Summary, *, level: float = 0.95) -> Effect | None:
    """Difference of means in pooled standard deviations with Hedges' exact correction for small
    samples (1981).

    The interval is that of the population's standardised difference, found by inverting the
    noncentral t distribution (Steiger and Fouladi 1997). None when a side has fewer than two
    values, no standard deviation, or when neither has any spread: there is then no unit. Raises
    ValueError for a level outside (0, 1).
    """
    check_level(level)
    if a.n < 2 or b.n < 2 or a.std is None or b.std is None:
        return None
    if max(a.std, b.std) <= noise(a.mean, b.mean):
        return None

    df = a.n + b.n - 2
    d = (a.mean - b.mean) / pooled_deviation(a, b)
    log_correction = math.lgamma(df / 2) - math.lgamma((df - 1) / 2)
    correction = math.exp(log_correction) / math.sqrt(df / 2)

    scale = math.sqrt(1 / a.n + 1 / b.n)
    tail = (1 - level) / 2
    low = scale * _find_noncentrality(d / scale, df, 1 - tail)
    high = scale * _find_noncentrality(d / scale, df, tail)
    return Effect(d * correction, low, high, level)


def _find_noncentrality(statistic: float, df: int, quantile: float) -> float:
    """The noncentrality for which `statistic` is this quantile of the noncentral t distribution."""
    if statistic < 0:
        return -_find_noncentrality(-statistic, df, 1 - quantile)

    from scipy.special import chdtri, nctdtr

    if statistic > _FAR:
        variance = float(chdtri(df, quantile)) / df
        return statistic * math.sqrt(variance)

    def compute_excess(noncentrality: float) -> float:
        return float(nctdtr(df, noncentrality, statistic)) - quantile

    # a bracket around the root, wide enough on either side
    low = statistic
    high = statistic
    step = 1.0 + statistic / 2
    while compute_excess(low) < 0:
        low -= step
    while compute_excess(high) > 0:
        high += step
    if high <= low:
        return low
    return find_root(compute_excess, low, high, tolerance=1e-10)
