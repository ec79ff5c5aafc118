"""Power and numbers of seeds against textbook values and simulated experiments."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from harness.stats import (
    detectable_difference,
    power_of_t_test,
    seeds_needed,
)


# Cohen 1988, table 2.4.1: n a side for d, at 0.05 two-sided and power 0.80.
@pytest.mark.parametrize(("d", "n"), [(0.2, 394), (0.5, 64), (0.8, 26)])
def test_seeds_needed_are_those_of_the_textbook(d: float, n: int) -> None:
    assert seeds_needed(d, 1.0) == n
    assert seeds_needed(7 * d, 7.0) == n


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_power_against_simulated_experiments(n: int) -> None:
    generator = np.random.default_rng(n)
    a, b = generator.normal(0.9, 0.7, (40_000, n)), generator.normal(0.0, 0.7, (40_000, n))
    seen = float(np.mean(scipy.stats.ttest_ind(a, b, axis=1).pvalue < 0.05))
    assert power_of_t_test(0.9, 0.7, n) == pytest.approx(seen, abs=0.01)


def test_seeds_needed_is_the_first_with_enough_power() -> None:
    for effect, std, power in ((0.9, 0.7, 0.8), (0.3, 0.5, 0.9), (5.0, 0.7, 0.8)):
        n = seeds_needed(effect, std, power=power)
        assert power_of_t_test(effect, std, n) >= power
        assert n == 2 or power_of_t_test(effect, std, n - 1) < power


def test_detectable_difference_inverts_power() -> None:
    for n in (2, 5, 20):
        found = detectable_difference(0.7, n)
        assert power_of_t_test(found, 0.7, n) == pytest.approx(0.8)


def test_power_is_never_nan_and_never_falls() -> None:
    for n in (2, 5, 500):
        powers = [power_of_t_test(effect, 1.0, n) for effect in np.geomspace(1e-4, 1e4, 120)]
        assert all(earlier <= later + 1e-9 for earlier, later in pairwise(powers))
        assert powers[0] == pytest.approx(0.05, abs=1e-3)
        assert powers[-1] == 1.0


def test_power_edges() -> None:
    assert power_of_t_test(0.5, 1.0, 1) == 0.0
    assert power_of_t_test(0.5, 0.0, 3) == 1.0
    assert power_of_t_test(0.0, 0.0, 3) == 0.05
    assert detectable_difference(1.0, 1) is None
    assert detectable_difference(0.0, 3) == 0.0
    for effect in (0.0, 1e-9):
        with pytest.raises(ValueError, match="no number of seeds"):
            seeds_needed(effect, 1.0)
    with pytest.raises(ValueError, match="a difference"):
        seeds_needed(math.nan, 1.0)
    for std in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="deviation"):
            seeds_needed(1.0, std)
    with pytest.raises(ValueError, match="alpha"):
        power_of_t_test(1.0, 1.0, 5, alpha=0.0)
