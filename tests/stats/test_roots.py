"""Roots of functions, against those that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from harness.stats.roots import find_root

#: function, bracket and root
ROOTS: dict[str, tuple[Callable[[float], float], float, float, float]] = {
    "parabola": (lambda x: x * x - 2, 0.0, 5.0, math.sqrt(2)),
    "falling step": (lambda x: -math.tanh(50 * (x - 0.3)), 0.0, 7.0, 0.3),
    "flat power": (lambda x: 1e-3 - x**9, 0.0, 4.0, 1e-3 ** (1 / 9)),
    "steep": (lambda x: math.exp(x) - 1e5, 0.0, 400.0, math.log(1e5)),
    "at an end": (lambda x: x, 0.0, 1.0, 0.0),
    "ends in the other order": (lambda x: x - 0.25, 1.0, 0.0, 0.25),
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_is_found_to_the_tolerance(name: str) -> None:
    function, low, high, root = ROOTS[name]
    assert find_root(function, low, high, tolerance=1e-12) == pytest.approx(root, abs=2e-12)


def test_a_function_without_a_change_of_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="one sign"):
        find_root(lambda x: x * x + 1, -1.0, 1.0, tolerance=1e-9)
