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
    test = equivalence_test(t_test(A, B, equal_variance=True), margin)
    assert test.p == pytest.approx(max(above, below))
    assert (test.low, test.high, test.level) == pytest.approx((interval.low, interval.high, 0.9))
    assert test.bound == pytest.approx(max(-interval.low, interval.high))
    above = scipy.stats.ttest_rel(
        [value + margin for value in A[:4]], B, alternative="greater"
    ).pvalue
    below = scipy.stats.ttest_rel([value - margin for value in A[:4]], B, alternative="less").pvalue
    assert equivalence_test(paired_t_test(A[:4], B), margin).p == pytest.approx(max(above, below))
    back = test.reversed()
    assert back.p == equivalence_test(t_test(B, A, equal_variance=True), margin).p
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


def welch(
    a: np.ndarray, b: np.ndarray, margin: float | None, alpha: float, equality_alpha: float
) -> float:
    """The share of simulated experiments, one a line, that shows a difference or equivalence."""
    parts = a.var(axis=1, ddof=1) / a.shape[1], b.var(axis=1, ddof=1) / b.shape[1]
    error = np.sqrt(sum(parts))
    df = sum(parts) ** 2 / (parts[0] ** 2 / (a.shape[1] - 1) + parts[1] ** 2 / (b.shape[1] - 1))
    size = np.abs(a.mean(axis=1) - b.mean(axis=1))
    shown = size > scipy.stats.t.ppf(1 - alpha / 2, df) * error
    if margin is not None:
        shown |= size + scipy.stats.t.ppf(1 - equality_alpha, df) * error < margin
    return float(np.mean(shown))


@pytest.mark.parametrize(
    ("effect", "stds", "counts", "margin", "levels"),
    [
        (0.0, (0.6, 0.6), (2, 2), 1.0, (0.05, 0.05)),
        (0.3, (0.5, 0.5), (3, 3), 1.0, (0.05, 0.05)),
        (-1.3, (1.0, 1.0), (5, 5), 1.0, (0.05, 0.05)),
        (2.0, (1.0, 3.0), (5, 5), None, (0.05, 0.05)),
        (2.0, (0.5, 1.5), (9, 5), None, (0.00625, 0.05)),
        (0.2, (0.3, 0.9), (9, 5), 1.5, (0.01, 0.02)),
        (0.0, (0.2, 0.6), (2, 7), 1.0, (0.05, 0.05)),
    ],
)
def test_power_against_simulated_experiments(
    effect: float,
    stds: tuple[float, float],
    counts: tuple[int, int],
    margin: float | None,
    levels: tuple[float, float],
) -> None:
    """By Welch's test, with equal and unequal deviations and seeds, at the levels of a family."""
    generator = np.random.default_rng(0)
    a = generator.normal(effect, stds[0], (40_000, counts[0]))
    b = generator.normal(0.0, stds[1], (40_000, counts[1]))
    power = power_of_verdict(
        effect, stds, counts, margin, alpha=levels[0], equality_alpha=levels[1]
    )
    assert power == pytest.approx(welch(a, b, margin, *levels), abs=0.01)


def test_power_against_an_integral_over_both_variances() -> None:
    """In float64, over a grid of quantiles of both chi-squares: no noise of a simulation."""
    df, stds, counts = np.array([4.0, 2.0]), np.array([0.5, 1.5]), np.array([5, 3])
    shares = (np.arange(600) + 0.5) / 600
    first, second = (scipy.stats.chi2.ppf(shares, each) / each for each in df)
    parts = stds**2 / counts
    measured = parts[0] * first[:, None] + parts[1] * second
    test_df = measured**2 / (
        (parts[0] * first[:, None]) ** 2 / df[0] + (parts[1] * second) ** 2 / df[1]
    )
    critical = scipy.stats.t.ppf(0.975, test_df) * np.sqrt(measured)
    error = math.sqrt(parts.sum())
    outside = scipy.stats.norm.sf(critical, 2.0, error) + scipy.stats.norm.cdf(
        -critical, 2.0, error
    )
    power = power_of_verdict(2.0, tuple(stds), tuple(counts), None)
    assert power == pytest.approx(float(outside.mean()), abs=2e-4)


@pytest.mark.parametrize(("effect", "std", "n"), [(0.0, 0.6, 3), (0.6, 0.4, 5), (-1.3, 1.0, 8)])
def test_power_of_pairs_and_beside_print_against_simulated_experiments(
    effect: float, std: float, n: int
) -> None:
    """Pairs have differences with this deviation; a printed side of five seeds is never drawn."""
    generator = np.random.default_rng(n)
    values = generator.normal(effect, std, (60_000, n))

    def share(error: np.ndarray, df: np.ndarray | int) -> float:
        one_sided, two_sided = (scipy.stats.t.ppf(level, df) for level in (0.95, 0.975))
        size = np.abs(values.mean(axis=1))
        return float(np.mean((size > two_sided * error) | (size + one_sided * error < 1.0)))

    measured = values.var(axis=1, ddof=1) / n
    paired = power_of_verdict(effect, std, n, 1.0, other="paired")
    assert paired == pytest.approx(share(np.sqrt(measured), n - 1), abs=0.008)
    printed = 0.5**2 / 5
    df = (measured + printed) ** 2 / (measured**2 / (n - 1) + printed**2 / 4)
    beside = power_of_verdict(effect, std, n, 1.0, other=Summary(70.0, 0.5, 5))
    assert beside == pytest.approx(share(np.sqrt(measured + printed), df), abs=0.008)


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
    critical = scipy.stats.t.ppf(0.975, 8)
    pairs = power_of_verdict(2.0, 2.0, 9, None, other="paired")
    by_noncentral = scipy.stats.nct.sf(critical, 8, 3.0) + scipy.stats.nct.cdf(-critical, 8, 3.0)
    assert pairs == pytest.approx(by_noncentral)
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
