"""Whether two means are equal within a margin, and how many seeds decide between equal and different.

Two one-sided t-tests (Schuirmann 1987), pooled. Powers are exact: with the difference of means normal and the pooled
variance a scaled chi-square independent of it, the chance of a verdict given the variance is a normal probability, and
one integral over the variance remains.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.stats.t_tests import (
    ALPHA,
    Summary,
    check_std,
    fewest_seeds,
    noise,
    pooled_deviation,
    power_of_t_test,
    t_test_from_summaries,
)

#: nodes of the Gauss-Legendre rule for each smooth piece of the integral
_NODES = 200
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided t-tests of `|mean(a) - mean(b)| < margin`.

    `p` is the larger of the two p-values. `low` and `high` are the ends of the interval of the difference at `level`,
    1 - 2 alpha: it lies within the margin exactly where p < alpha.
    """

    difference: float
    margin: float
    p: float
    low: float
    high: float
    level: float


def equivalence_test(a: Summary, b: Summary, margin: float, *, alpha: float = ALPHA) -> Equivalence | None:
    """Test for equivalence from means, sample standard deviations and counts; `margin` is in the means' own unit.

    None when a side has fewer than two values or no standard deviation. When neither side has any spread, p is the
    limit: 0 for a difference within the margin, else 1. Raises ValueError for a margin that is not positive and finite,
    or an alpha outside (0, 0.5).
    """
    _check(margin, alpha)
    test = t_test_from_summaries(a, b, level=1 - 2 * alpha)
    if test is None:
        return None
    difference = test.difference
    if test.low == test.high:
        p = 0.0 if abs(difference) < margin - noise(a.mean, b.mean) else 1.0
    else:
        from scipy import stats

        # both one-sided tests reject where the one at the nearer end of the margin does
        error = pooled_deviation(a, b) * math.sqrt(1 / a.n + 1 / b.n)
        p = float(stats.t.sf((margin - abs(difference)) / error, test.df))
    return Equivalence(difference, margin, p, test.low, test.high, test.level)


def power_of_verdict(effect: float, std: float, n: int, margin: float, *, alpha: float = ALPHA) -> float:
    """The chance that n seeds a side show equivalence or a difference, by either test at `alpha`.

    `effect` and `std` are the true difference and the true deviation of one side. One seed shows nothing (0); without
    any spread, there is no doubt (1). Raises ValueError as `equivalence_test`, for a negative std, n < 1, or an effect
    of NaN.
    """
    _check(margin, alpha, effect, std, n)
    if n < 2 or std == 0:
        return float(n > 1)
    from scipy.special import stdtrit

    case = _Case.of(effect, std, n, margin)
    one_sided, two_sided = (float(stdtrit(case.df, share)) for share in (1 - alpha, 1 - alpha / 2))

    def undecided(s: Floats) -> Floats:
        return case.within(two_sided * s) - case.within(margin - one_sided * s)

    # below the first bound every difference is equivalent or different; above the second, none is equivalent
    first, second = margin / (one_sided + two_sided), margin / one_sided
    doubt = case.chance(undecided, first, second) + case.chance(undecided, second, math.inf)
    return max(0.0, 1.0 - doubt)


def seeds_to_decide(effect: float, std: float, margin: float | None, *, power: float = 0.8) -> int | None:
    """The fewest seeds a side that show equivalence or a difference with this power; never fewer than two.

    Without a margin only a difference can be shown. None where ten million seeds would not do. Raises ValueError as
    `power_of_verdict`.
    """
    if margin is None:
        return fewest_seeds(lambda n: power_of_t_test(effect, std, n), power)
    return fewest_seeds(lambda n: power_of_verdict(effect, std, n, margin), power)


@dataclass(frozen=True)
class _Case:
    """A true difference and the true standard error of the measured one, with its degrees of freedom."""

    effect: float
    error: float
    df: int

    @classmethod
    def of(cls, effect: float, std: float, n: int, margin: float) -> _Case:
        # a smaller standard error than 1e-6 margins gives the same result, but could underflow
        return cls(abs(effect), max(std * math.sqrt(2 / n), 1e-6 * margin), 2 * n - 2)

    def within(self, bound: Floats) -> Floats:
        """The chance that the measured difference lies within -bound and bound; 0 for a negative bound."""
        from scipy.special import ndtr

        upper, lower = (bound - self.effect) / self.error, (-bound - self.effect) / self.error
        return np.maximum(ndtr(upper) - ndtr(lower), 0.0)

    def chance(self, given: Callable[[Floats], Floats], low: float, high: float) -> float:
        """Integrate a chance, given the measured standard error, over its values from `low` to `high`."""
        from scipy.special import chdtri, gammaln

        half = self.df / 2
        # bounds of measured / true standard error; the probability outside them is negligible
        least, most = (math.sqrt(float(chdtri(self.df, tail)) / self.df) for tail in (1 - 1e-16, 1e-16))
        start, end = max(low / self.error, least), min(high / self.error, most)
        if start >= end:
            return 0.0
        nodes, weights = _rule()
        ratios = start + (end - start) * nodes
        log_density = (self.df - 1) * np.log(ratios) - half * (ratios**2 - 1)
        log_density += math.log(2) + half * (math.log(half) - 1) - float(gammaln(half))
        chances = (end - start) * (weights @ (np.exp(log_density) * given(self.error * ratios)))
        return min(1.0, float(chances))


@cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _check(margin: float, alpha: float, effect: float = 0.0, std: float = 0.0, n: int = 2) -> None:
    if not (margin > 0 and math.isfinite(margin)):
        raise ValueError("a margin of equivalence is positive and finite")
    if not 0.0 < alpha < 0.5:
        raise ValueError("the alpha of a one-sided test lies between 0 and 0.5")
    check_std(std)
    if n < 1 or math.isnan(effect):
        raise ValueError("a test needs seeds and a difference")
