"""Power of a two-sample t-test: power, seeds needed, minimum detectable difference.

Pooled, two-sided, equally many seeds on both sides, by the noncentral t distribution (Cohen 1988).
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: More seeds than anybody runs; beyond it the answer is that no number of seeds will do.
_MOST = 10_000_000


def power_of_t_test(effect: float, std: float, n: int, *, alpha: float = 0.05) -> float:
    """The chance that n seeds a side show a true difference `effect` of means, `std` being that of one side.

    Without any spread every difference is seen (1) and none is not (alpha); one seed shows nothing (0). Raises
    ValueError for a negative std, n < 1, an effect of NaN or an alpha outside (0, 1).
    """
    _check(std, alpha)
    if n < 1 or math.isnan(effect):
        raise ValueError("a test needs seeds and a difference")
    if n < 2:
        return 0.0
    if std == 0:
        return 1.0 if effect else alpha
    from scipy import stats

    df, noncentrality = 2 * n - 2, abs(effect) / std * math.sqrt(n / 2)
    critical = float(stats.t.ppf(1 - alpha / 2, df))
    # far beyond the critical value the distribution function underflows to NaN
    if noncentrality > critical + 38:
        return 1.0
    upper = float(stats.nct.sf(critical, df, noncentrality))
    lower = float(stats.nct.cdf(-critical, df, noncentrality))
    return min(1.0, upper + (0.0 if math.isnan(lower) else lower))


def seeds_needed(effect: float, std: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """The fewest seeds a side that show `effect` with at least this power; never fewer than two.

    Raises ValueError for no effect, or one that ten million seeds would not show.
    """
    _check(std, alpha, power)
    found = fewest_seeds(lambda n: power_of_t_test(effect, std, n, alpha=alpha), power)
    if found is None:
        raise ValueError("no number of seeds can detect this difference")
    return found


def fewest_seeds(power_at: Callable[[int], float], power: float) -> int | None:
    """The fewest seeds a side, at least two, with enough power; None if ten million are too few.

    The power must not fall below the wanted one again as seeds are added. Raises ValueError for a power outside (0, 1).
    """
    _check(0.0, power)
    if not power_at(_MOST) >= power:
        return None
    low, high = 1, 2
    while power_at(high) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if power_at(middle) < power else (low, middle)
    return high


def detectable_difference(std: float, n: int, *, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest difference that n seeds a side show with this power; None for one seed, 0 without spread."""
    _check(std, alpha, power)
    if n < 2:
        return None
    if std == 0 or power <= alpha:
        return 0.0
    from scipy import optimize

    high = std
    while power_of_t_test(high, std, n, alpha=alpha) < power:
        high *= 2
    found = optimize.brentq(lambda effect: power_of_t_test(effect, std, n, alpha=alpha) - power, 0.0, high, xtol=1e-12)
    return float(found)


def check_std(std: float) -> None:
    """Raise ValueError for what is no standard deviation."""
    if not (std >= 0 and math.isfinite(std)):
        raise ValueError("a standard deviation is a number, never negative")


def _check(std: float, *shares: float) -> None:
    check_std(std)
    if not all(0.0 < share < 1.0 for share in shares):
        raise ValueError("power and alpha lie between 0 and 1")
