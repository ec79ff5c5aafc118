"""Mean and standard deviation of a few values."""

from __future__ import annotations

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


def summarise(values: Sequence[float]) -> Summary:
    """Mean and sample standard deviation. Raises ValueError for no values and for NaN or infinity."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError("a summary needs at least one value")
    if not np.isfinite(numbers).all():
        raise ValueError("a summary needs finite values")
    std = float(numbers.std(ddof=1)) if numbers.size > 1 else None
    return Summary(float(numbers.mean()), std, int(numbers.size))


def noise(*means: float) -> float:
    """The size below which a difference of numbers like these is rounding noise."""
    return max(map(abs, means)) * _NOISE


def check_level(level: float) -> None:
    """Raise ValueError for a confidence level outside (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the confidence level {level} is not between 0 and 1")
