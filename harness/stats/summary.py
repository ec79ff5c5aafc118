"""Mean and standard deviation of a few values, and the confidence interval of the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Spreads below this share of the mean are rounding noise of equal numbers.
_NOISE = 1e-12


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean and sample standard deviation of n values, in the values' own unit. `std` is None for n < 2."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of a confidence interval at `level`."""

    low: float
    high: float
    level: float


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation. Raises ValueError for no values and for NaN or infinity."""
    numbers = [float(value) for value in values]  # a few: numpy would take ten times as long
    if not numbers:
        raise ValueError("a summary needs at least one value")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a summary needs finite values")
    count = len(numbers)
    mean = math.fsum(numbers) / count
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in numbers) / (count - 1)) if count > 1 else None
    return Summary(mean, std, count)


def mean_interval(summary: Summary, *, level: float = 0.95) -> Interval | None:
    """The t interval of a mean; None for fewer than two values, of width 0 without spread.

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


def noise(*means: float) -> float:
    """The size below which a difference of numbers like these is rounding noise."""
    return max(map(abs, means)) * _NOISE


def check_level(level: float) -> None:
    """Raise ValueError for a confidence level outside (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the confidence level {level} is not between 0 and 1")
