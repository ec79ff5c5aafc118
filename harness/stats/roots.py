"""Roots of monotone functions of one number, without scipy.optimize, which takes long to import."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise


def find_root(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """The place between `low` and `high` at which a continuous function is 0, to `tolerance` or to
    the precision of floats.

    By the method of Ridders (1979), which at least halves the interval in each step. Raises
    ValueError for values of one sign at both ends.
    """
    at_low = function(low)
    at_high = function(high)
    if at_low == 0:
        return low
    if at_high == 0:
        return high
    if (at_low < 0) == (at_high < 0):
        raise ValueError("the function has one sign at both ends")

    while True:
        middle = (low + high) / 2
        is_found = abs(high - low) <= 2 * tolerance or middle in (low, high)
        if is_found:
            return middle
        at_middle = function(middle)
        if at_middle == 0:
            return middle

        # the exponential curve through the three points crosses 0 here
        share = at_middle / math.sqrt(at_middle**2 - at_low * at_high)
        guess = middle + (middle - low) * share * math.copysign(1, at_low - at_high)
        at_guess = function(guess)
        if at_guess == 0:
            return guess

        # the narrowest interval with a change of sign
        points = sorted([(low, at_low), (middle, at_middle), (guess, at_guess), (high, at_high)])
        for (left, at_left), (right, at_right) in pairwise(points):
            if (at_left < 0) != (at_right < 0):
                low, high = left, right
                at_low, at_high = at_left, at_right
                break
