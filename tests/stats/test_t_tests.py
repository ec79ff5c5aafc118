"""Summaries, t-tests, Holm, effect sizes and powers against scipy, published and textbook values,
and simulation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
import scipy.stats

from harness.stats import (
    Summary,
    TTest,
    bootstrap_difference,
    detectable_difference,
    hedges_g,
    holm,
    mean_interval,
    paired_t_test,
    power_of_verdict,
    seeds_to_decide,
    summarise,
    t_test,
    t_test_from_summaries,
)

A = [76.1, 77.9, 75.0, 78.2, 77.0]
B = [74.2, 75.1, 73.0, 76.4]


def test_summaries_and_their_intervals_are_those_of_a_sample() -> None:
    assert dataclasses.astuple(summarise([1.0, 2.0, 3.0, 4.0])) == pytest.approx(
        (2.5, math.sqrt(5 / 3), 4)
    )
    assert summarise([3.0]) == Summary(3.0, None, 1)
    for values in ([], [1.0, math.nan], [1.0, math.inf]):
        with pytest.raises(ValueError, match="summary"):
            summarise(values)
    interval = mean_interval(summarise(A), level=0.9)
    wanted = scipy.stats.t.interval(0.9, 4, np.mean(A), scipy.stats.sem(A))
    assert (interval.low, interval.high) == pytest.approx(wanted)
    assert mean_interval(Summary(1.0, None, 1)) is mean_interval(Summary(1.0, 0.5, 1)) is None
    assert mean_interval(Summary(1.0, None, 5)) is None, "a printed mean without its deviation"
    still = mean_interval(Summary(1.0, 0.0, 3))
    assert (still.low, still.high) == (1.0, 1.0)
    with pytest.raises(ValueError, match="negative"):
        mean_interval(Summary(1.0, -1.0, 3))
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level"):
            mean_interval(summarise(A), level=level)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (partial(t_test, A, B, equal_variance=True), scipy.stats.ttest_ind(A, B)),
        (partial(t_test, A, B), scipy.stats.ttest_ind(A, B, equal_var=False)),
        (partial(paired_t_test, A[:4], B), scipy.stats.ttest_rel(A[:4], B)),
    ],
)
def test_agrees_with_scipy_from_values(mine: Callable[..., TTest], theirs: Any) -> None:
    test, interval = mine(level=0.9), theirs.confidence_interval(0.9)
    assert dataclasses.astuple(test)[1:-3] == pytest.approx(
        (theirs.statistic, theirs.df, theirs.pvalue, interval.low, interval.high, 0.9)
    )
    assert test.difference == pytest.approx((interval.low + interval.high) / 2)


def test_two_by_two_closed_form() -> None:
    # Means 1 and 4, variances 2 and 2: standard error sqrt(2), t = -3/sqrt(2), 2 degrees of
    # freedom, for which the distribution function is 1/2 + t / (2 sqrt(2 + t^2)).
    a, b = [0.0, 2.0], [3.0, 5.0]
    test, t = t_test(a, b), 3 / math.sqrt(2)
    assert test.statistic == pytest.approx(-t)
    assert test.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    quantile = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    assert (test.low, test.high) == pytest.approx(
        (-3 - quantile * math.sqrt(2), -3 + quantile * math.sqrt(2))
    )
    # pooled deviation sqrt(2): gamma(1) / (sqrt(1) gamma(1/2)) = 1 / sqrt(pi).
    assert hedges_g(summarise(a), summarise(b)).g == pytest.approx(
        -3 / math.sqrt(2) / math.sqrt(math.pi)
    )


def test_too_few_seeds_give_no_test_and_nonsense_is_refused() -> None:
    assert (
        t_test([1.0], [1.0, 2.0]) is t_test([], [1.0, 2.0]) is paired_t_test([1.0], [2.0]) is None
    )
    for n in (1, 5):
        assert t_test_from_summaries(Summary(70.0, None, n), Summary(71.0, 0.5, 5)) is None
    with pytest.raises(ValueError, match="level"):
        t_test(A, B, level=95)
    with pytest.raises(ValueError, match="paired"):
        paired_t_test([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="negative"):
        t_test_from_summaries(Summary(1.0, -0.1, 5), Summary(1.0, 0.1, 5))


def test_no_spread_gives_the_limit_and_no_nan() -> None:
    for equal_variance in (True, False):
        test = partial(t_test, equal_variance=equal_variance)
        same, apart = test([0.1 + 0.2, 0.3], [0.3, 0.3, 0.3]), test([70.0, 70.0], [71.0, 71.0])
        assert (same.statistic, same.p, same.df) == (0.0, 1.0, 3)
        assert (apart.statistic, apart.p, apart.low, apart.high) == (-math.inf, 0.0, -1.0, -1.0)
        one_sided = test([70.0, 70.0], [71.0, 71.5])
        assert not any(math.isnan(value) for value in dataclasses.astuple(one_sided)[:-2])
    shifted = paired_t_test([0.1 + 0.2, 1.3, 2.3], [0.1, 1.1, 2.1])
    assert (shifted.statistic, shifted.p) == (math.inf, 0.0)
    same = paired_t_test([0.3, 0.4], [0.1 + 0.2, 0.4])
    assert (same.statistic, same.p) == (0.0, 1.0)


def test_holm_against_the_step_down_rule() -> None:
    """An adjusted p is the least alpha at which the procedure, gone through step by step, rejects."""
    ps = [0.01, 0.04, 0.03, 0.005, 0.5, 0.04]

    def rejected(alpha: float) -> set[int]:
        out: set[int] = set()
        for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
            if ps[index] > alpha / (len(ps) - rank):
                break
            out.add(index)
        return out

    for index, adjusted in enumerate(holm(ps)):
        assert index in rejected(adjusted + 1e-9)
        assert index not in rejected(adjusted - 1e-9)
    assert (holm([]), holm([0.03]), holm([1.0, 0.6])) == ([], [0.03], [1.0, 1.0])
    for bad in (math.nan, -0.1, 1.1):
        with pytest.raises(ValueError, match="between"):
            holm([0.1, bad])


def test_hedges_g_interval_covers_what_the_noncentral_t_says() -> None:
    effect = hedges_g(summarise(A), summarise(B), level=0.9)
    scale = math.sqrt(1 / 5 + 1 / 4)
    t = float(scipy.stats.ttest_ind(A, B).statistic)
    assert scipy.stats.nct.cdf(t, 7, effect.low / scale) == pytest.approx(0.95)
    assert scipy.stats.nct.cdf(t, 7, effect.high / scale) == pytest.approx(0.05)
    back = hedges_g(summarise(B), summarise(A), level=0.9)
    assert (back.g, back.low, back.high) == pytest.approx((-effect.g, -effect.high, -effect.low))


def test_hedges_g_of_a_huge_difference_stays_in_proportion_and_without_a_unit_or_seeds_is_none() -> (
    None
):
    low, high = np.sqrt(scipy.stats.chi2.ppf([0.025, 0.975], 8) / 8)
    for far in (1e3, 1e6, 1e9):
        effect = hedges_g(Summary(far, 1.0, 5), Summary(0.0, 1.0, 5))
        assert (effect.low / far, effect.high / far) == pytest.approx((low, high), rel=1e-4)
    assert hedges_g(summarise([1.0, 1.0]), summarise([2.0, 2.0])) is None
    assert hedges_g(summarise([1.0]), summarise([2.0, 3.0])) is None
    assert hedges_g(Summary(1.0, None, 5), Summary(1.0, 0.1, 5)) is None
    one_sided = hedges_g(summarise([1.0, 1.0]), summarise([2.0, 2.5]))
    assert all(map(math.isfinite, (one_sided.g, one_sided.low, one_sided.high)))


def test_bootstrap_against_all_resamples() -> None:
    values, other = [1.0, 2.5, 4.0, 4.5], [0.0, 1.0, 5.0]
    gaps = [
        np.mean(x) - np.mean(y) for x in product(values, repeat=4) for y in product(other, repeat=3)
    ]
    for level in (0.9, 0.95):
        ends = bootstrap_difference(values, other, level=level, draws=40_000)
        assert (ends.low, ends.high) == pytest.approx(
            np.quantile(gaps, [0.5 - level / 2, 0.5 + level / 2]), abs=0.1
        )
    assert bootstrap_difference([1.0, 2.0], [1.0]) is None
    assert bootstrap_difference(A, B, seed=1) == bootstrap_difference(A, B, seed=1)
    still = bootstrap_difference([3.0, 3.0], [1.0, 1.0])
    assert (still.low, still.high) == (2.0, 2.0)
    with pytest.raises(ValueError, match="finite"):
        bootstrap_difference([1.0, math.nan], [1.0, 2.0])


def test_seeds_needed_are_those_of_the_textbook_and_invert_power() -> None:
    # Cohen 1988, table 2.4.1: n a side for d, at 0.05 two-sided and power 0.80.
    for d, n in ((0.2, 394), (0.5, 64), (0.8, 26)):
        assert seeds_to_decide(d, 1.0, margin=None) == seeds_to_decide(7 * d, 7.0, margin=None) == n
    for effect, std in ((0.9, 0.7), (0.3, 0.5), (5.0, 0.7)):
        n = seeds_to_decide(effect, std, margin=None)
        assert power_of_verdict(effect, std, n, margin=None) >= 0.8
        assert n == 2 or power_of_verdict(effect, std, n - 1, margin=None) < 0.8
    for n in (2, 5, 20):
        assert power_of_verdict(
            detectable_difference(0.7, n), 0.7, n, margin=None
        ) == pytest.approx(0.8)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_power_against_simulated_experiments(n: int) -> None:
    generator = np.random.default_rng(n)
    a, b = generator.normal(0.9, 0.7, (40_000, n)), generator.normal(0.0, 0.7, (40_000, n))
    seen = float(np.mean(scipy.stats.ttest_ind(a, b, axis=1, equal_var=False).pvalue < 0.05))
    assert power_of_verdict(0.9, 0.7, n, margin=None) == pytest.approx(seen, abs=0.01)


def test_power_never_falls_and_its_edges() -> None:
    for n in (2, 5, 500):
        powers = [
            power_of_verdict(effect, 1.0, n, margin=None) for effect in np.geomspace(1e-4, 1e4, 120)
        ]
        assert all(earlier <= later + 1e-9 for earlier, later in pairwise(powers))
        assert 0.02 < powers[0] < 0.0505, "Welch's test of few seeds stays below its level"
        assert powers[-1] == 1.0
    edges = [
        power_of_verdict(*given, margin=None)
        for given in ((0.5, 1.0, 1), (0.5, 0.0, 3), (0.0, 0.0, 3))
    ]
    assert edges[:2] == pytest.approx([0.0, 1.0])
    assert edges[2] == pytest.approx(power_of_verdict(0.0, 1.0, 3, margin=None))
    assert (detectable_difference(1.0, 1), detectable_difference(0.0, 3)) == (None, 0.0)
    for effect, std, message in (
        (math.nan, 1.0, "a difference"),
        *((1.0, std, "deviation") for std in (-1.0, math.nan, math.inf)),
    ):
        with pytest.raises(ValueError, match=message):
            seeds_to_decide(effect, std, margin=None)
    assert seeds_to_decide(0.0, 1.0, margin=None) is seeds_to_decide(1e-9, 1.0, margin=None) is None
    with pytest.raises(ValueError, match="alpha"):
        power_of_verdict(1.0, 1.0, 5, alpha=0.0, margin=None)
