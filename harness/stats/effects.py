"""Size of a difference in standard deviations, and Holm's correction for many tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.summary import Summary, check_level, noise
from harness.stats.t_tests import pooled_deviation

#: Beyond this statistic, the normal part of the noncentral t distribution is negligible.
_FAR = 1000.0


@dataclass(frozen=True)
class Effect:
    """Hedges' g and the confidence interval of the standardised difference, in pooled standard deviations."""

    g: float
    low: float
    high: float
    level: float


def hedges_g(a: Summary, b: Summary, *, level: float = 0.95) -> Effect | None:
    """Difference of means in pooled standard deviations with Hedges' exact correction for small samples (1981).

    The interval is that of the population's standardised difference, found by inverting the noncentral t distribution
    (Steiger and Fouladi 1997). None when a side has fewer than two values, no standard deviation, or when neither has
    any spread: there is then no unit. Raises ValueError for a level outside (0, 1).
    """
    check_level(level)
    if a.n < 2 or b.n < 2 or a.std is None or b.std is None or max(a.std, b.std) <= noise(a.mean, b.mean):
        return None
    df = a.n + b.n - 2
    d = (a.mean - b.mean) / pooled_deviation(a, b)
    correction = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)
    scale = math.sqrt(1 / a.n + 1 / b.n)
    tail = (1 - level) / 2
    low, high = (scale * _noncentrality(d / scale, df, quantile) for quantile in (1 - tail, tail))
    return Effect(d * correction, low, high, level)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: Holm's step-down method (1979), capped at 1.

    Rejecting those below alpha keeps the chance of any false rejection below alpha. Raises ValueError for a p that is
    not between 0 and 1.
    """
    if not all(0.0 <= p <= 1.0 for p in ps):
        raise ValueError("p values lie between 0 and 1")
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def _noncentrality(statistic: float, df: int, quantile: float) -> float:
    """The noncentrality for which `statistic` is this quantile of the noncentral t distribution."""
    if statistic < 0:
        return -_noncentrality(-statistic, df, 1 - quantile)
    from scipy import optimize, stats

    if statistic > _FAR:
        return statistic * math.sqrt(float(stats.chi2.ppf(1 - quantile, df)) / df)

    def excess(noncentrality: float) -> float:
        return float(stats.nct.cdf(statistic, df, noncentrality)) - quantile

    low, high, step = statistic, statistic, 1.0 + statistic / 2
    while excess(low) < 0:
        low -= step
    while excess(high) > 0:
        high += step
    return float(optimize.brentq(excess, low, high, xtol=1e-10)) if high > low else low
