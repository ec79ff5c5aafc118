"""Effect sizes and intervals against scipy, published values and closed forms."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import scipy.stats

from harness.stats import (
    Summary,
    bootstrap_difference,
    hedges_g,
    mean_interval,
    summarise,
)

A = [76.1, 77.9, 75.0, 78.2, 77.0]


B = [74.2, 75.1, 73.0, 76.4]


def test_hedges_g_by_hand() -> None:
    # Means 1 and 4, pooled deviation sqrt(2), 2 degrees of freedom: gamma(1) / (sqrt(1) gamma(1/2)) = 1 / sqrt(pi).
    found = hedges_g(summarise([0.0, 2.0]), summarise([3.0, 5.0]))
    assert found.g == pytest.approx(-3 / math.sqrt(2) / math.sqrt(math.pi))


def test_hedges_g_interval_covers_what_the_noncentral_t_says() -> None:
    found = hedges_g(summarise(A), summarise(B), level=0.9)
    scale = math.sqrt(1 / 5 + 1 / 4)
    t = float(scipy.stats.ttest_ind(A, B).statistic)
    assert scipy.stats.nct.cdf(t, 7, found.low / scale) == pytest.approx(0.95)
    assert scipy.stats.nct.cdf(t, 7, found.high / scale) == pytest.approx(0.05)
    back = hedges_g(summarise(B), summarise(A), level=0.9)
    assert (back.g, back.low, back.high) == pytest.approx((-found.g, -found.high, -found.low))


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_hedges_g_of_a_huge_difference_stays_finite_and_in_proportion(far: float) -> None:
    found = hedges_g(Summary(far, 1.0, 5), Summary(0.0, 1.0, 5))
    low, high = np.sqrt(scipy.stats.chi2.ppf([0.025, 0.975], 8) / 8)
    assert (found.low / far, found.high / far) == pytest.approx((low, high), rel=1e-4)


def test_hedges_g_without_a_unit_or_seeds_is_none() -> None:
    assert hedges_g(summarise([1.0, 1.0]), summarise([2.0, 2.0])) is None
    assert hedges_g(summarise([1.0]), summarise([2.0, 3.0])) is None
    assert hedges_g(Summary(1.0, None, 5), Summary(1.0, 0.1, 5)) is None
    one_sided = hedges_g(summarise([1.0, 1.0]), summarise([2.0, 2.5]))
    assert all(map(math.isfinite, (one_sided.g, one_sided.low, one_sided.high)))


def test_mean_interval_agrees_with_scipy() -> None:
    found = mean_interval(summarise(A), level=0.9)
    assert (found.low, found.high) == pytest.approx(scipy.stats.t.interval(0.9, 4, np.mean(A), scipy.stats.sem(A)))
    assert mean_interval(Summary(1.0, None, 1)) is None
    still = mean_interval(Summary(1.0, 0.0, 3))
    assert (still.low, still.high) == (1.0, 1.0)
    with pytest.raises(ValueError, match="negative"):
        mean_interval(Summary(1.0, -1.0, 3))


def test_bootstrap_against_all_resamples() -> None:
    values, other = [1.0, 2.5, 4.0, 4.5], [0.0, 1.0, 5.0]
    gaps = [np.mean(x) - np.mean(y) for x in product(values, repeat=4) for y in product(other, repeat=3)]
    for level in (0.9, 0.95):
        found = bootstrap_difference(values, other, level=level, draws=40_000)
        assert (found.low, found.high) == pytest.approx(np.quantile(gaps, [0.5 - level / 2, 0.5 + level / 2]), abs=0.1)


def test_bootstrap_edges() -> None:
    assert bootstrap_difference([1.0, 2.0], [1.0]) is None
    assert bootstrap_difference(A, B, seed=1) == bootstrap_difference(A, B, seed=1)
    still = bootstrap_difference([3.0, 3.0], [1.0, 1.0])
    assert (still.low, still.high) == (2.0, 2.0)
    with pytest.raises(ValueError, match="finite"):
        bootstrap_difference([1.0, math.nan], [1.0, 2.0])
