"""Interquartile means and probabilities of improvement: against scipy and slow loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats

from harness.stats import interquartile_mean, probability_of_improvement, stratified_interval

RNG = np.random.default_rng(3)
#: two variants in three places with 5, 3 and 4 seeds, in steps that make ties
A, B = ([RNG.integers(0, 9, n) / 2.0 for n in (5, 3, 4)] for _ in range(2))


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end() -> None:
    assert interquartile_mean(A) == pytest.approx(scipy.stats.trim_mean(np.concatenate(A), 0.25))
    assert interquartile_mean([np.array([1.0, 2, 3, 100])]) == 2.5
    assert interquartile_mean([np.array([[1.0, 2, 3, 100], [0.0, 4, 5, 6]])]).tolist() == [2.5, 4.5]


def test_the_probability_of_improvement_counts_pairs_of_seeds_within_places() -> None:
    wins = [[(x > y) + (x == y) / 2 for x, y in product(a, b)] for a, b in zip(A, B, strict=True)]
    shares = [sum(some) / len(some) for some in wins]
    assert probability_of_improvement(A, B) == pytest.approx(sum(shares) / 3)
    assert probability_of_improvement(B, A) == pytest.approx(1 - sum(shares) / 3)
    u = scipy.stats.mannwhitneyu(A[0], B[0]).statistic
    assert probability_of_improvement(A[:1], B[:1]) == pytest.approx(u / 25)


def test_intervals_resample_the_seeds_of_each_place_alone() -> None:
    draws = 4000
    generator, means = np.random.default_rng(8), []
    for _ in range(draws):
        drawn = sorted(x for place in A for x in generator.choice(place, len(place)))
        means.append(sum(drawn[3:-3]) / 6)
    interval = stratified_interval(interquartile_mean, A, draws=draws)
    assert (interval.low, interval.high) == pytest.approx(
        np.quantile(means, [0.025, 0.975]), abs=0.15
    )
    apart = [np.array([0.0, 0.0]), np.array([10.0, 10.0])]
    fixed = stratified_interval(interquartile_mean, apart)
    assert fixed.low == fixed.high == 5.0, "scores do not move between places"
    sure = stratified_interval(
        probability_of_improvement, [np.array([3.0, 4])], [np.array([1.0, 2])]
    )
    assert (sure.low, sure.high) == (1.0, 1.0)
    with pytest.raises(ValueError, match="level"):
        stratified_interval(interquartile_mean, A, level=1.0)
