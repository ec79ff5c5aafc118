"""Statistics by drawing, rankings and the best of n: against scipy, closed forms and slow loops."""

from __future__ import annotations

import math
from itertools import pairwise, permutations, product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats import (
    Ranking,
    almost_stochastic_order,
    bootstrap_ranking,
    expected_best,
    permutation_test,
    violation_ratio,
)

A = [76.1, 77.9, 75.0, 78.2, 77.0]
B = [74.2, 75.1, 73.0, 76.4, 76.9]


@pytest.mark.parametrize("b", [B, B[:3], [75.0]])
def test_exact_permutation_against_every_order(b: list[float]) -> None:
    """A loop over all orders of the values, not only all ways of dealing them out."""
    values, size = [round(10 * value) for value in [*A[:4], *b]], 4
    observed = abs(sum(values[:size]) * len(b) - sum(values[size:]) * size)
    orders = list(permutations(values))
    extreme = sum(abs(sum(o[:size]) * len(b) - sum(o[size:]) * size) >= observed for o in orders)
    test = permutation_test(A[:4], b)
    assert test.exact
    assert test.p == pytest.approx(extreme / len(orders))
    assert test.smallest <= test.p


def test_permutation_agrees_with_scipy_and_knows_its_least_p() -> None:
    theirs = scipy.stats.permutation_test(
        (A, B), lambda a, b: np.mean(a) - np.mean(b), n_resamples=np.inf
    )
    assert permutation_test(A, B).p == pytest.approx(theirs.pvalue)
    for a, least in (([1.0, 2.0, 3.0], 2 / 20), ([1.0, 2.0], 1 / 10)):
        test = permutation_test(a, [7.0, 8.0, 9.0])
        assert test.p == test.smallest == pytest.approx(least)
    assert permutation_test([1.0], [2.0]).p == 1.0
    assert permutation_test([0.1 + 0.2, 0.3], [0.3, 0.3]).p == 1.0
    with pytest.raises(ValueError, match="at least one"):
        permutation_test([], [1.0])


def test_signs_of_differences_against_scipy() -> None:
    differences = [0.4, -0.1, 0.3, 0.2, 0.5, 0.6]
    theirs = scipy.stats.permutation_test(
        (differences, [0.0] * 6),
        lambda a, b: np.mean(a) - np.mean(b),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    test = permutation_test(differences, [0.0] * 6, paired=True)
    assert (test.p, test.smallest, test.exact) == (pytest.approx(theirs.pvalue), 2 / 64, True)
    drawn = permutation_test(differences * 3, [0.0] * 18, paired=True, draws=4000)
    assert not drawn.exact
    assert drawn.p < 0.01
    assert permutation_test([1.0, 2.0], [1.0, 2.0], paired=True).p == 1.0


def test_drawn_permutation_is_seeded_near_the_t_test_and_never_zero() -> None:
    generator = np.random.default_rng(5)
    a, b = generator.normal(0.7, 1, 15).tolist(), generator.normal(0, 1, 15).tolist()
    test = permutation_test(a, b, draws=4000)
    assert not test.exact
    assert test == permutation_test(a, b, draws=4000)
    assert test.p == pytest.approx(scipy.stats.ttest_ind(a, b).pvalue, abs=0.02)
    far = permutation_test(list(range(15)), list(range(100, 115)), draws=500)
    assert far.p == far.smallest == 1 / 501


def slow_ratio(a: list[float], b: list[float], steps: int = 6000) -> float:
    """The two integrals as sums over a fine grid of the quantile functions."""
    below = total = 0.0
    for step in range(steps):
        t = (step + 0.5) / steps
        gap = sorted(a)[math.ceil(t * len(a)) - 1] - sorted(b)[math.ceil(t * len(b)) - 1]
        total += gap**2
        below += gap**2 if gap < 0 else 0.0
    return below / total


@pytest.mark.parametrize("b", [B, B[:3], [75.0, 79.0], [77.0]])
def test_violation_ratio_against_a_grid(b: list[float]) -> None:
    assert violation_ratio(A, b) == pytest.approx(slow_ratio(A, b), abs=1e-9)
    assert violation_ratio(b, A) == pytest.approx(1 - violation_ratio(A, b))


def test_violation_ratio_closed_forms() -> None:
    # Gaps -1 and 2 on half of [0, 1] each.
    assert violation_ratio([0.0, 3.0], [1.0, 1.0]) == pytest.approx(1 / 5)
    assert violation_ratio([2.0, 3.0], [0.0, 1.0]) == 0.0
    assert violation_ratio([0.1 + 0.2], [0.3, 0.3]) == 0.5
    # N(m, 1) against N(0, 4): the gap is m - z, so the ratio is E[(z - m)^2; z > m] / (1 + m^2).
    m, normal = 0.4, scipy.stats.norm
    points = (np.arange(20_000) + 0.5) / 20_000
    wanted = ((1 + m * m) * normal.sf(m) - m * normal.pdf(m)) / (1 + m * m)
    ratio = violation_ratio((normal.ppf(points) + m).tolist(), (2 * normal.ppf(points)).tolist())
    assert ratio == pytest.approx(wanted, abs=1e-3)


def test_order_bound_against_the_bootstrap_distribution_itself() -> None:
    """All 27 x 27 equally likely resamples of three values, in place of drawn ones."""
    a, b = [1.0, 2.0, 4.0], [0.5, 2.5, 3.0]
    ratios = [
        0.5 if sorted(x) == sorted(y) else violation_ratio(list(x), list(y))
        for x in product(a, repeat=3)
        for y in product(b, repeat=3)
    ]
    ratio = violation_ratio(a, b)
    spread = math.sqrt(float(np.var(ratios)))
    wanted = min(1.0, ratio + 0.84162 * spread)
    assert almost_stochastic_order(a, b, confidence=0.8, draws=40_000) == pytest.approx(
        wanted, abs=0.01
    )
    assert wanted < 1


def test_order_edges_and_seed() -> None:
    for a, b, bound in (
        ([2.0, 3.0], [0.0, 1.0], 0.0),
        ([0.0, 1.0], [2.0, 3.0], 1.0),
        ([1.0, 1.0], [1.0, 1.0], 0.5),
    ):
        assert almost_stochastic_order(a, b) == bound
    assert almost_stochastic_order([1.0], [0.0, 0.5]) is None
    assert (
        almost_stochastic_order(A, B, seed=3)
        == almost_stochastic_order(A, B, seed=3)
        > violation_ratio(A, B)
    )
    with pytest.raises(ValueError, match="level"):
        almost_stochastic_order(A, B, confidence=1.0)


SCORES = st.lists(st.floats(-100, 100), min_size=1, max_size=4)


@settings(max_examples=40)
@given(SCORES)
def test_the_expected_best_is_the_mean_over_all_draws(scores: list[float]) -> None:
    expected_bests = expected_best(scores)
    for n, expected in enumerate(expected_bests, start=1):
        draws = [max(draw) for draw in product(scores, repeat=n)]
        assert expected == pytest.approx(sum(draws) / len(draws), abs=1e-9)
    smaller = expected_best([-score for score in scores], larger_is_better=False)
    assert smaller == pytest.approx([-score for score in expected_bests], abs=1e-9)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_more_trials_are_never_expected_to_find_less(scores: list[float]) -> None:
    expected = expected_best(scores)
    assert all(a <= b + 1e-9 for a, b in pairwise(expected))
    assert expected[-1] <= max(scores) + 1e-9
    for bad in ([], [*scores, math.nan], [*scores, math.inf]):
        with pytest.raises(ValueError, match="at least one finite score"):
            expected_best(bad)


NAN = float("nan")


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_mean_ranks_are_those_of_counts_and_lie_in_their_intervals(
    v: int, p: int, s: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (v, p, s)).astype(float)
    scores[:, :, 1:][rng.random((v, p, s - 1)) < 0.3] = NAN
    ranking = bootstrap_ranking(scores, draws=60)
    means = np.nanmean(scores, axis=2)
    ahead, equal = (
        compare(means, means[:, None]).sum(axis=1) for compare in (np.greater, np.equal)
    )
    wanted = (ahead + (equal + 1) / 2).mean(axis=1)
    assert ranking.mean_rank == pytest.approx(wanted)
    assert list(ranking.mean_rank[ranking.order]) == sorted(ranking.mean_rank)
    assert ((ranking.low <= ranking.high) & (ranking.low >= 1) & (ranking.high <= v)).all()
    assert ((ranking.flips >= 0) & (ranking.flips <= 1)).all()
    assert len(ranking.flips) == v - 1


def test_the_chance_of_a_flip_is_that_of_the_bootstrap() -> None:
    def ranked(*variants: list[list[float]]) -> Ranking:
        return bootstrap_ranking(np.array(variants), draws=20_000)

    apart = ranked([[1.0, 2, 3]], [[7.0, 8, 9]], [[4.0, 5, 6]])
    assert list(apart.order) == [1, 2, 0]
    assert list(apart.mean_rank) == list(apart.low) == list(apart.high) == [3, 1, 2]
    assert list(apart.flips) == [0, 0]
    assert ranked([[1.0, 2, 3, 4]], [[1.0, 2, 3, 4]]).flips[0] == pytest.approx(0.5, abs=0.01)
    # means of the first: 1, 2, 2, 3; of the second: 0, 1, 1, 2: of 16 pairs it is ahead in one,
    # equal in four
    assert ranked([[1.0, 3.0]], [[0.0, 2.0]]).flips[0] == pytest.approx(
        (1 + 0.5 * 4) / 16, abs=0.01
    )
    few = np.random.default_rng(0).normal(0, 1, (2, 1, 5)) + np.array([[[0.6]], [[0.0]]])
    assert bootstrap_ranking(np.repeat(few, 12, axis=1)).flips[0] < bootstrap_ranking(few).flips[0]
    with pytest.raises(ValueError, match="each variant in each place"):
        ranked([[NAN, NAN]], [[1.0, 2.0]])
