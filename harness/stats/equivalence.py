"""Whether two means are equal within a margin, and how many seeds decide between equal and
different.

Two one-sided t-tests (Schuirmann 1987). Powers are integrals: with the difference of means normal
and the variances that are drawn scaled chi-squares independent of it, the chance of a verdict given
the variances is a normal probability. One integral over the variance of pairs remains, or two over
the variances of two sides, whose ratio decides the degrees of freedom of Welch's test.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from harness.stats.roots import find_root
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
_MOST = 10_000_000
#: the power of the seeds that decide
_POWER = 0.8
#: nodes of the Gauss-Legendre rules for the integral over the ratio of two variances, and for each
#: smooth piece of the integral over their size
_RATIO_NODES = 20
_SIZE_NODES = 40
#: the probability at each end that an integral leaves out
_TAIL = 1e-10
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

    def reversed(self) -> Equivalence:
        """The same tests of `|mean(b) - mean(a)|`."""
        return replace(self, difference=-self.difference, low=-self.high, high=-self.low)


def equivalence_test(test: TTest, margin: float, *, alpha: float = ALPHA) -> Equivalence:
    """The two one-sided tests with the difference, the standard error and the design of a t-test.

    `margin` is in the unit of the difference. Without spread, p is the limit: 0 for a difference
    within the margin, else 1. Raises ValueError for a margin that is not positive and finite, or an
    alpha outside (0, 0.5).
    """
    _check_arguments(margin, alpha)
    inside = margin - abs(test.difference)
    if test.error > 0:
        from scipy.special import stdtr  # scipy.stats takes a second to import

        # both one-sided tests reject where the one at the nearer end of the margin does
        p = float(stdtr(test.df, -inside / test.error))
    else:
        # rounding of the means does not decide
        p = 0.0 if inside > 1e-9 * margin else 1.0

    half_width = quantile(test.df, 1 - alpha) * test.error
    low = test.difference - half_width
    high = test.difference + half_width
    return Equivalence(test.difference, margin, p, low, high, 1 - 2 * alpha)


def power_of_verdict(
    effect: float,
    std: float | tuple[float, float],
    n: int | tuple[int, int],
    margin: float | None,
    *,
    alpha: float = ALPHA,
    equality_alpha: float | None = None,
    other: Other = "independent",
) -> float:
    """The chance that n seeds a side show equivalence or a difference.

    `effect` and `std` are the true difference and the true deviation over seeds; two independent
    sides, which are tested by Welch's t-test, may have a pair of deviations and a pair of numbers
    of seeds. `other` may also be "paired", with n pairs and `std` the deviation of their
    differences, "one sample", a number without a deviation, or a summary that stays as it is, such
    as printed numbers. A difference is tested at `alpha`, equivalence at `equality_alpha`, by
    default the same. Without a margin only a difference can be shown. One seed shows nothing (0).
    Raises ValueError as `equivalence_test`, for a negative std, n < 1, or an effect of NaN.
    """
    stds = std if isinstance(std, tuple) else (std, std)
    counts = n if isinstance(n, tuple) else (n, n)
    if equality_alpha is None:
        equality_alpha = alpha
    for level in (alpha, equality_alpha):
        _check_arguments(1.0 if margin is None else margin, level, effect)
    for side_std, side_n in zip(stds, counts, strict=True):
        check_std(side_std)
        if side_n < 1:
            raise ValueError("a test needs seeds and a difference")

    if min(counts) < 2:
        return 0.0

    errors = _make_errors(stds, counts, margin or abs(effect) or 1.0, other)
    undecided = errors.compute_undecided(abs(effect), margin, alpha, equality_alpha)
    return min(1.0, max(0.0, 1.0 - undecided))


def seeds_to_decide(
    effect: float,
    std: float | tuple[float, float],
    margin: float | None,
    *,
    alpha: float = ALPHA,
    equality_alpha: float | None = None,
    other: Other = "independent",
) -> int | None:
    """The fewest seeds a side, or pairs, that show equivalence or a difference with a power of 80
    %, at least two.

    The arguments are those of `power_of_verdict`, which raises the same errors. In a family, the
    levels are those that the test has to pass there. None where ten million would not do.
    """

    def is_enough(n: int) -> bool:
        power = power_of_verdict(
            effect, std, n, margin, alpha=alpha, equality_alpha=equality_alpha, other=other
        )
        return power >= _POWER

    # the search begins at the answer of normal distributions, which is close
    high = _estimate_seeds(effect, std, margin, alpha, equality_alpha or alpha, other)
    low = 2
    step = 1
    while not is_enough(high):
        if high == _MOST:
            return None
        low = high + 1
        high = min(_MOST, high + step)
        step *= 2
    while low == 2 and high > 2:
        lower = max(2, high - step)
        if not is_enough(lower):
            low = lower + 1
            break
        high = lower
        step *= 2

    return bisect_left(range(high), True, lo=low, key=is_enough)


def _estimate_seeds(
    effect: float,
    std: float | tuple[float, float],
    margin: float | None,
    alpha: float,
    equality_alpha: float,
    other: Other,
) -> int:
    """The seeds that would decide if deviations were known: a start for the search."""
    stds = std if isinstance(std, tuple) else (std, std)
    variance = stds[0] ** 2
    if other == "independent":
        variance += stds[1] ** 2
    normal = NormalDist()

    distances = [(abs(effect), normal.inv_cdf(1 - alpha / 2))]
    if margin is not None:
        distances.append((margin - abs(effect), normal.inv_cdf(1 - equality_alpha)))

    fewest = float(_MOST)
    for distance, critical in distances:
        if distance > 0:
            errors_apart = (critical + normal.inv_cdf(_POWER)) / distance
            fewest = min(fewest, variance * errors_apart**2)
    return max(2, min(_MOST, math.ceil(fewest)))


def detectable_difference(
    std: float, n: int, *, power: float = 0.8, alpha: float = ALPHA
) -> float | None:
    """The smallest difference that n seeds a side show with this power, by Welch's t-test; None for
    one seed, 0 without spread.
    """
    if n < 2:
        return None
    if std == 0 or power <= alpha:
        return 0.0

    def compute_excess(effect: float) -> float:
        return power_of_verdict(effect, std, n, None, alpha=alpha) - power

    high = std
    while compute_excess(high) < 0:
        high *= 2
    return find_root(compute_excess, 0.0, high, tolerance=1e-12)


@dataclass(frozen=True)
class _Errors:
    """The true standard error of a measured difference, and those that its test may measure.

    The square of a measured one is `drawn` times r^2 plus `given`, where r^2 is a chi-square over
    its `size_df`. `drawn` has one value for each way in which the measured variance may be shared
    between the two sides, with its probability in `weights`, (W,). The test has `test_df` degrees
    of freedom, (W,), or `test_df` is None: then they follow from the part that is drawn, with
    `size_df` degrees, and the given one, with `given_df`.
    """

    error: float
    drawn: Floats
    weights: Floats
    size_df: int
    test_df: Floats | None
    given: float = 0.0
    given_df: int = 1

    def compute_undecided(
        self, effect: float, margin: float | None, alpha: float, equality_alpha: float
    ) -> float:
        """The chance that neither a difference nor equivalence within a margin is shown."""
        from scipy.special import chdtri

        # measured over true deviation: what lies outside has a negligible probability
        least = math.sqrt(float(chdtri(self.size_df, 1 - _TAIL)) / self.size_df)
        largest_ratio = math.sqrt(float(chdtri(self.size_df, _TAIL)) / self.size_df)
        ends = [np.full(self.drawn.shape, least), np.full(self.drawn.shape, largest_ratio)]
        if margin is not None and self.test_df is not None:
            # below the first bound every difference is equivalent or different; above the second,
            # none is equivalent: between them the integrand is smooth
            one_sided, two_sided = _compute_quantiles(self.test_df, alpha, equality_alpha)
            for bound in (margin / (one_sided + two_sided), margin / one_sided):
                ratio = bound / np.sqrt(self.drawn)
                ends.insert(-1, np.clip(ratio, least, largest_ratio))

        total = 0.0
        for start, end in pairwise(ends):
            if np.any(end > start):
                total += self._integrate_piece(start, end, effect, margin, alpha, equality_alpha)
        return total

    def _integrate_piece(
        self,
        start: Floats,
        end: Floats,
        effect: float,
        margin: float | None,
        alpha: float,
        equality_alpha: float,
    ) -> float:
        """The part of the chance with ratios from `start` to `end`, (W,)."""
        from scipy.special import gammaln

        nodes, node_weights = _make_gauss_rule(_SIZE_NODES)
        ratios = start[:, None] + (end - start)[:, None] * nodes  # (W, N)
        half = self.size_df / 2
        log_density = (self.size_df - 1) * np.log(ratios) - half * (ratios**2 - 1)
        log_density += math.log(2) + half * (math.log(half) - 1) - float(gammaln(half))

        drawn = self.drawn[:, None] * ratios**2
        measured = np.sqrt(drawn + self.given)
        if self.test_df is None:
            test_df = (drawn + self.given) ** 2
            test_df /= drawn**2 / self.size_df + self.given**2 / self.given_df
        else:
            test_df = self.test_df[:, None]

        one_sided, two_sided = _compute_quantiles(test_df, alpha, equality_alpha)

        chance = self._compute_chance_within(two_sided * measured, effect)
        if margin is not None:
            equivalent = self._compute_chance_within(margin - one_sided * measured, effect)
            chance = np.maximum(chance - equivalent, 0.0)
        inner = (end - start) * ((np.exp(log_density) * chance) @ node_weights)
        return float(self.weights @ inner)

    def _compute_chance_within(self, bound: Floats, effect: float) -> Floats:
        """The chance that the measured difference lies within -bound and bound; 0 for a negative
        bound.
        """
        from scipy.special import ndtr

        upper = (bound - effect) / self.error
        lower = (-bound - effect) / self.error
        return np.maximum(ndtr(upper) - ndtr(lower), 0.0)


def _make_errors(
    stds: tuple[float, float], counts: tuple[int, int], unit: float, other: Other
) -> _Errors:
    """The standard errors of a design. Effects and margins are about as large as the `unit`."""
    # a smaller standard error than 1e-6 units gives the same result, but could underflow
    smallest = 1e-6 * unit
    first = max(stds[0] / math.sqrt(counts[0]), smallest) ** 2
    first_df = counts[0] - 1
    if other == "independent":
        second = max(stds[1] / math.sqrt(counts[1]), smallest) ** 2
        return _make_welch_errors(first, first_df, second, counts[1] - 1)

    error = math.sqrt(first)
    drawn = np.array([first])
    weights = np.ones(1)
    if not isinstance(other, Summary):
        return _Errors(error, drawn, weights, first_df, np.array([float(first_df)]))

    variance = (other.std or 0.0) ** 2 / other.n
    given_df = max(1, other.n - 1)
    return _Errors(error, drawn, weights, first_df, None, variance, given_df)


def _make_welch_errors(first: float, first_df: int, second: float, second_df: int) -> _Errors:
    """The standard errors of Welch's test from the true squared ones of its sides.

    Of two chi-squares, the share of the first in their sum has a beta distribution and is
    independent of the sum (Lukacs 1955). The share decides the degrees of freedom, the sum the
    size.
    """
    from scipy.special import betaincinv, betaln

    # with share = sin(angle)^2, the density has no pole at its ends, even for one degree of freedom
    low_share, high_share = betaincinv(first_df / 2, second_df / 2, [_TAIL, 1 - _TAIL])
    low = math.asin(math.sqrt(low_share))
    high = math.asin(math.sqrt(high_share))
    nodes, node_weights = _make_gauss_rule(_RATIO_NODES)
    angles = low + (high - low) * nodes
    log_density = (first_df - 1) * np.log(np.sin(angles))
    log_density += (second_df - 1) * np.log(np.cos(angles))
    log_density += math.log(2) - float(betaln(first_df / 2, second_df / 2))
    weights = (high - low) * node_weights * np.exp(log_density)

    shares = np.sin(angles) ** 2
    first_part = first * shares / first_df
    second_part = second * (1 - shares) / second_df
    both_parts = first_part + second_part
    size_df = first_df + second_df
    test_df = both_parts**2 / (first_part**2 / first_df + second_part**2 / second_df)
    error = math.sqrt(first + second)
    return _Errors(error, size_df * both_parts, weights, size_df, test_df)


def _compute_quantiles(df: Floats, alpha: float, equality_alpha: float) -> tuple[Floats, Floats]:
    """The one-sided quantiles of equivalence and the two-sided ones of a difference."""
    from scipy.special import stdtrit

    one_sided = np.asarray(stdtrit(df, 1 - equality_alpha), dtype=np.float64)
    two_sided = np.asarray(stdtrit(df, 1 - alpha / 2), dtype=np.float64)
    return one_sided, two_sided


@cache
def _make_gauss_rule(number: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the Gauss-Legendre rule between 0 and 1."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return (nodes + 1) / 2, weights / 2


def _check_arguments(margin: float, alpha: float, effect: float = 0.0) -> None:
    if not (margin > 0 and math.isfinite(margin)):
        raise ValueError("a margin of equivalence is positive and finite")
    if not 0.0 < alpha < 0.5:
        raise ValueError("the alpha of a one-sided test lies between 0 and 0.5")
    if math.isnan(effect):
        raise ValueError("a test needs seeds and a difference")
