"""The t-test of a contrast of several means, such as a difference of two differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.t_tests import Summary, check_level, noise, quantile


@dataclass(frozen=True, slots=True)
class ContrastTest:
    """A contrast with its standard error, degrees of freedom, two-sided p-value, and the ends of
    its confidence interval at `level`.
    """

    difference: float
    error: float
    df: float
    p: float
    low: float
    high: float
    level: float


def contrast_test(
    weights: Sequence[float], summaries: Sequence[Summary], *, level: float = 0.95
) -> ContrastTest | None:
    """Test whether the sum of weights times means is zero, with unequal variances (Welch and
    Satterthwaite); a difference of differences has the weights 1, -1, -1, 1.

    The values of different summaries are independent. None when one has fewer than two values.
    Without any spread, p is 1 for equal means and else 0. Raises ValueError for unequal lengths and
    for a level outside (0, 1).
    """
    check_level(level)
    sides = list(zip(weights, summaries, strict=True))
    difference = math.fsum(weight * summary.mean for weight, summary in sides)
    variances = []
    for weight, summary in sides:
        if summary.std is None or summary.n < 2:
            return None
        variances.append((weight * summary.std) ** 2 / summary.n)

    total = math.fsum(variances)
    error = math.sqrt(total)
    if error <= noise(*(summary.mean for summary in summaries)):
        df = float(sum(summary.n - 1 for summary in summaries))
        is_zero = abs(difference) <= noise(*(summary.mean for summary in summaries))
        p = 1.0 if is_zero else 0.0
        return ContrastTest(difference, 0.0, df, p, difference, difference, level)

    from scipy.special import stdtr  # scipy.stats takes a second to import

    # shares of the variance, since squares of tiny variances would underflow
    shares = [variance / total for variance in variances]
    inverse_df = math.fsum(
        share**2 / (summary.n - 1) for share, summary in zip(shares, summaries, strict=True)
    )
    df = 1.0 / inverse_df
    p = 2 * float(stdtr(df, -abs(difference) / error))
    margin = quantile(df, 0.5 + level / 2) * error
    return ContrastTest(difference, error, df, p, difference - margin, difference + margin, level)
