"""Whether two means are equal within a margin, and how many seeds decide between equal and
different.

Two one-sided t-tests (Schuirmann 1987). Powers are exact: with the difference of means normal and
the variance that is drawn a scaled chi-square independent of it, the chance of a verdict given the
variance is a normal probability, and one integral over the variance remains.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.stats.t_tests import (
    ALPHA,
    Design,
    Summary,
    TTest,
    check_std,
    quantile,
)

#: More seeds than anybody runs; if more would be needed, the answer is that no number of seeds
#: suffices.
_MOST, _POWER = 10_000_000, 0.8
#: nodes of the Gauss-Legendre rule for each smooth piece of the integral
_NODES = 200
Floats = NDArray[np.float64]
#: how the second side of a test belongs to the first, or the numbers of one that is given
Other = Design | Summary


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided t-tests of `|mean(a) - mean(b)| < margin`.

    `p` is the larger of the two p-values. `low` and `high` are the ends of the interval of the
    difference at `level`, 1 - 2 alpha: it lies within the margin exactly where p < alpha.
    """

    difference: float
    margin: float
    p: float
    low: float
    high: float
    level: float

    @property
    def bound(self) -> float:
        """The smallest margin within which the means are equal at alpha: the larger end of the
        interval.
        """
        return max(-self.low, self.high)


def equivalence_test(test: TTest, margin: float, *, alpha: float = ALPHA) -> Equivalence:
    """The two one-sided tests with the difference, the standard error and the design of a t-test.

    `margin` is in the unit of the difference. Without spread, p is the limit: 0 for a difference
    within the margin, else 1. Raises ValueError for a margin that is not positive and finite, or an
    alpha outside (0, 0.5).
    """
    _check(margin, alpha)
    half, inside = quantile(test.df, 1 - alpha) * test.error, margin - abs(test.difference)
    if test.error == 0:
        p = 0.0 if inside > 1e-9 * margin else 1.0  # rounding of the means does not decide
    else:
        from scipy.special import stdtr  # scipy.stats takes a second to import

        # both one-sided tests reject where the one at the nearer end of the margin does
        p = float(stdtr(test.df, -inside / test.error))
    return Equivalence(
        test.difference, margin, p, test.difference - half, test.difference + half, 1 - 2 * alpha
    )


def power_of_verdict(
    effect: float,
    std: float,
    n: int,
    margin: float | None,
    *,
    alpha: float = ALPHA,
    other: Other = "independent",
) -> float:
    """The chance that n seeds a side show equivalence or a difference, by either test at `alpha`.

    `effect` and `std` are the true difference and the true deviation of one side. The other side is
    as large, or one of n pairs or a number, with `std` that of the differences, or a summary that
    stays as it is. Without a margin only a difference can be shown. One seed shows nothing (0).
    Raises ValueError as `equivalence_test`, for a negative std, n < 1, or an effect of NaN.
    """
    _check(1.0 if margin is None else margin, alpha, effect, std, n)
    if n < 2:
        return 0.0
    from scipy.special import stdtrit

    case = _Case.of(effect, std, n, margin or abs(effect) or 1.0, other)
    one_sided, two_sided = (
        float(stdtrit(case.test_df, share)) for share in (1 - alpha, 1 - alpha / 2)
    )
    if margin is None:
        return max(0.0, 1.0 - case.chance(lambda s: case.within(two_sided * s), 0.0, math.inf))

    def undecided(s: Floats) -> Floats:
        return case.within(two_sided * s) - case.within(margin - one_sided * s)

    # below the first bound every difference is equivalent or different; above the second, none is
    # equivalent
    first, second = margin / (one_sided + two_sided), margin / one_sided
    doubt = case.chance(undecided, first, second) + case.chance(undecided, second, math.inf)
    return max(0.0, 1.0 - doubt)


def seeds_to_decide(
    effect: float,
    std: float,
    margin: float | None,
    *,
    alpha: float = ALPHA,
    other: Other = "independent",
) -> int | None:
    """The fewest seeds a side, or pairs, that show equivalence or a difference with a power of 80
    %, at least two.

    The arguments are those of `power_of_verdict`, which raises the same errors. None where ten
    million would not do.
    """

    def enough(n: int) -> bool:
        return power_of_verdict(effect, std, n, margin, alpha=alpha, other=other) >= _POWER

    if not enough(_MOST):
        return None
    high = next(2**exponent for exponent in range(1, 64) if enough(2**exponent))
    return bisect_left(range(high), True, lo=2, key=enough)


def detectable_difference(
    std: float, n: int, *, power: float = 0.8, alpha: float = ALPHA
) -> float | None:
    """The smallest difference that n seeds a side show with this power; None for one seed, 0
    without spread.
    """
    if n < 2:
        return None
    if std == 0 or power <= alpha:
        return 0.0
    from scipy import optimize

    def excess(effect: float) -> float:
        return power_of_verdict(effect, std, n, None, alpha=alpha) - power

    high = next(std * 2**exponent for exponent in range(64) if excess(std * 2**exponent) >= 0)
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-12))


@dataclass(frozen=True)
class _Case:
    """A true difference, the true standard error of the measured one, and the standard error that
    the test measures.

    The square of the latter is `drawn` times a chi-square over its `df`, plus `given`; the t-test
    has `test_df`.
    """

    effect: float
    error: float
    drawn: float
    df: int
    given: float
    test_df: int

    @classmethod
    def of(cls, effect: float, std: float, n: int, unit: float, other: Other) -> _Case:
        # a smaller standard error than 1e-6 units gives the same result, but could underflow
        std = max(std, 1e-6 * unit * math.sqrt(n))
        if isinstance(other, Summary):
            df, share = n + other.n - 2, 1 / n + 1 / other.n
            drawn, given = (
                (count - 1) * s**2 * share / df
                for count, s in ((n, std), (other.n, other.std or 0.0))
            )
            return cls(abs(effect), std / math.sqrt(n), drawn, n - 1, given, df)
        variance, df = (
            (2 * std**2 / n, 2 * n - 2) if other == "independent" else (std**2 / n, n - 1)
        )
        return cls(abs(effect), math.sqrt(variance), variance, df, 0.0, df)

    def within(self, bound: Floats) -> Floats:
        """The chance that the measured difference lies within -bound and bound; 0 for a negative
        bound.
        """
        from scipy.special import ndtr

        upper, lower = (bound - self.effect) / self.error, (-bound - self.effect) / self.error
        return np.maximum(ndtr(upper) - ndtr(lower), 0.0)

    def chance(self, given: Callable[[Floats], Floats], low: float, high: float) -> float:
        """Integrate a chance, given the measured standard error, over its values from `low` to
        `high`.
        """
        from scipy.special import chdtri, gammaln

        half = self.df / 2
        # bounds of measured / true deviation of what is drawn; the probability outside them is
        # negligible
        least, most = (
            math.sqrt(float(chdtri(self.df, tail)) / self.df) for tail in (1 - 1e-16, 1e-16)
        )
        first, last = (math.sqrt(max(0.0, end**2 - self.given) / self.drawn) for end in (low, high))
        start, end = max(first, least), min(last, most)
        if start >= end:
            return 0.0
        nodes, weights = _rule()
        ratios = start + (end - start) * nodes
        log_density = (self.df - 1) * np.log(ratios) - half * (ratios**2 - 1)
        log_density += math.log(2) + half * (math.log(half) - 1) - float(gammaln(half))
        measured = np.sqrt(self.drawn * ratios**2 + self.given)
        chances = (end - start) * (weights @ (np.exp(log_density) * given(measured)))
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
