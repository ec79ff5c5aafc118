"""Equivalence within a margin, its power, and the seeds that decide, against scipy, published
powers and simulation.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from harness.stats import (
    Summary,
    equivalence_test,
    paired_t_test,
    pooled_deviation,
    power_of_verdict,
    seeds_to_decide,
    summarise,
    t_test,
    t_test_from_summaries,
)

A = [76.1, 77.9, 75.0, 78.2, 77.0]
B = [74.2, 75.1, 73.0, 76.4]


@pytest.mark.parametrize("margin", [0.5, 2.0, 3.5, 5.0])
def test_it_is_two_one_sided_t_tests(margin: float) -> None:
    """Each side's null, a difference of -margin or of +margin, by scipy's one-sided test of shifted
    values.
    """
    above = scipy.stats.ttest_ind([value + margin for value in A], B, alternative="greater").pvalue
    below = scipy.stats.ttest_ind([value - margin for value in A], B, alternative="less").pvalue
    interval = scipy.stats.ttest_ind(A, B).confidence_interval(0.9)
    test = equivalence_test(t_test(A, B), margin)
    assert test.p == pytest.approx(max(above, below))
    assert (test.low, test.high, test.level) == pytest.approx((interval.low, interval.high, 0.9))
    assert test.bound == pytest.approx(max(-interval.low, interval.high))
    above = scipy.stats.ttest_rel(
        [value + margin for value in A[:4]], B, alternative="greater"
    ).pvalue
    below = scipy.stats.ttest_rel([value - margin for value in A[:4]], B, alternative="less").pvalue
    assert equivalence_test(paired_t_test(A[:4], B), margin).p == pytest.approx(max(above, below))
    back = equivalence_test(t_test(B, A), margin)
    assert (back.p, back.difference) == pytest.approx((test.p, -test.difference))


SUMMARIES = st.builds(
    Summary,
    st.floats(-3, 3),
    st.floats(0, 2).filter(lambda std: std == 0 or std > 1e-3),
    st.integers(2, 12),
)


@given(SUMMARIES, SUMMARIES, st.floats(0.1, 5), st.sampled_from([0.01, 0.05, 0.1]))
def test_p_is_below_alpha_where_the_interval_lies_within_the_margin(
    a: Summary, b: Summary, margin: float, alpha: float
) -> None:
    test = equivalence_test(t_test_from_summaries(a, b), margin, alpha=alpha)
    outside = max(-test.low, test.high) - margin
    if abs(outside) > 1e-9:
        assert (test.p < alpha) == (outside < 0)


def test_without_spread_the_margin_alone_decides() -> None:
    def p(difference: float) -> float:
        return equivalence_test(t_test([70.0 + difference] * 3, [70.0] * 5), 1.0).p

    assert [p(0.0), p(-0.99), p(1.0), p(-2.0)] == [0.0, 0.0, 1.0, 1.0]
    ulp = equivalence_test(t_test([76.1, 76.1], [75.1, 75.1]), 1.0)
    assert ulp.p == 1.0, "76.1 - 75.1 is below 1 by a rounding error only"


@pytest.mark.parametrize(
    ("effect", "std", "n"),
    [(0.0, 0.6, 2), (0.3, 0.5, 3), (0.6, 0.4, 5), (1.0, 0.7, 8), (-1.3, 1.0, 5), (0.0, 1.5, 30)],
)
def test_power_against_simulated_experiments(effect: float, std: float, n: int) -> None:
    """The share that shows equivalence within 1 or a difference."""
    generator = np.random.default_rng(n)
    a, b = generator.normal(effect, std, (60_000, n)), generator.normal(0.0, std, (60_000, n))
    differs = scipy.stats.ttest_ind(a, b, axis=1).pvalue < 0.05
    above = scipy.stats.ttest_ind(a + 1, b, axis=1, alternative="greater").pvalue
    below = scipy.stats.ttest_ind(a - 1, b, axis=1, alternative="less").pvalue
    share = float(np.mean(differs | (np.maximum(above, below) < 0.05)))
    assert power_of_verdict(effect, std, n, 1.0) == pytest.approx(share, abs=0.008)


@pytest.mark.parametrize(("effect", "std", "n"), [(0.0, 0.6, 3), (0.6, 0.4, 5), (-1.3, 1.0, 8)])
def test_power_of_pairs_and_beside_print_against_simulated_experiments(
    effect: float, std: float, n: int
) -> None:
    """Pairs have differences with this deviation; a printed side of five seeds is never drawn."""
    generator = np.random.default_rng(n)
    values = generator.normal(effect, std, (60_000, n))

    def share(error: np.ndarray, df: int) -> float:
        one_sided, two_sided = scipy.stats.t.ppf((0.95, 0.975), df)
        size = np.abs(values.mean(axis=1))
        return float(np.mean((size > two_sided * error) | (size + one_sided * error < 1.0)))

    spread = values.std(axis=1, ddof=1)
    paired = power_of_verdict(effect, std, n, 1.0, other="paired")
    assert paired == pytest.approx(share(spread / math.sqrt(n), n - 1), abs=0.008)
    pooled = np.sqrt(((n - 1) * spread**2 + 4 * 0.5**2) / (n + 3))
    beside = power_of_verdict(effect, std, n, 1.0, other=Summary(70.0, 0.5, 5))
    assert beside == pytest.approx(share(pooled * math.sqrt(1 / n + 1 / 5), n + 3), abs=0.008)


def test_no_number_of_seeds_decides_beside_three_printed_ones_that_vary_too_much() -> None:
    """With ever more seeds, the standard error stays above 1 / sqrt(3), and the margin and the
    difference below it.
    """
    assert seeds_to_decide(0.5, 1.0, 0.5, other=Summary(70.0, 1.0, 3)) is None
    assert seeds_to_decide(0.5, 1.0, 0.5) is not None
    assert seeds_to_decide(3.0, 1.0, None, other=Summary(70.0, 1.0, 3)) is not None


@pytest.mark.parametrize(
    ("effect", "std"), [(0.0, 1.0), (0.5, 0.6), (1.0, 0.8), (-1.4, 1.2), (3.0, 0.5)]
)
def test_seeds_to_decide_are_the_first_with_enough_power(effect: float, std: float) -> None:
    n = seeds_to_decide(effect, std, 1.0)
    powers = [power_of_verdict(effect, std, count, 1.0) for count in range(2, n + 1)]
    assert [power >= 0.8 for power in powers] == [False] * (n - 2) + [True]
    assert seeds_to_decide(10 * effect, 10 * std, 10.0) == n, "the unit does not matter"


def test_a_margin_helps_and_a_large_difference_needs_none() -> None:
    assert (seeds_to_decide(0.4, 0.8, 1.0) or 0) < (seeds_to_decide(0.4, 0.8, None) or 0)
    df, shift = 8, 4.0 / 2.0 * 2.5**0.5
    critical = scipy.stats.t.ppf(0.975, df)
    by_noncentral = scipy.stats.nct.sf(critical, df, shift) + scipy.stats.nct.cdf(
        -critical, df, shift
    )
    assert power_of_verdict(4.0, 2.0, 5, None) == pytest.approx(by_noncentral)
    assert power_of_verdict(9.0, 2.0, 5, 0.1) == pytest.approx(power_of_verdict(9.0, 2.0, 5, None))
    assert seeds_to_decide(0.0, 1.0, None) is None


def test_edges_and_nonsense() -> None:
    assert [power_of_verdict(*given, 1.0) for given in ((0.0, 1.0, 1), (0.9, 0.0, 2))] == [0.0, 1.0]
    assert power_of_verdict(0.9, 1e-12, 10_000_000, 1.0) == pytest.approx(1.0)
    pooled = pooled_deviation(Summary(0.0, 3.0, 3), Summary(9.0, 4.0, 5))
    assert pooled == pytest.approx(math.sqrt((2 * 9 + 4 * 16) / 6))
    a, test = summarise(A), t_test(A, B)
    for message, wrong in (
        ("standard deviation", lambda: pooled_deviation(Summary(0.0, None, 1), a)),
        *(
            ("margin", partial(equivalence_test, test, margin))
            for margin in (0.0, -1.0, math.nan, math.inf)
        ),
        ("alpha", lambda: equivalence_test(test, 1.0, alpha=0.5)),
        ("deviation", lambda: power_of_verdict(0.0, math.nan, 5, 1.0)),
        ("a difference", lambda: power_of_verdict(math.nan, 1.0, 5, 1.0)),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
