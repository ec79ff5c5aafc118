"""Scores in several places, such as tasks or settings: interquartile means and probabilities of
improvement.

Definitions of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021, section 4, with their stratified bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harness.stats.equivalence import Floats
from harness.stats.t_tests import Interval, check_level


def interquartile_mean(scores: Sequence[Floats]) -> Floats:
    """The mean of the middle half of all scores, pooled over places: (..., S_p) for each place p ->
    (...).
    """
    pooled = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    mean: Floats = pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)
    return mean


def probability_of_improvement(a: Sequence[Floats], b: Sequence[Floats]) -> Floats:
    """P(a > b) + P(a = b) / 2 of two seeds in a place, averaged over places: (..., S_p), (..., T_p)
    -> (...).

    In one place it is the Mann-Whitney U statistic over S T.
    """
    shares = []
    for first, second in zip(a, b, strict=True):
        x = first[..., :, None]
        y = second[..., None, :]
        wins = (x > y) + 0.5 * (x == y)
        shares.append(wins.mean(axis=(-2, -1)))

    mean: Floats = np.mean(shares, axis=0)
    return mean


def stratified_interval(
    statistic: Callable[..., Floats],
    *variants: Sequence[Floats],
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The percentile interval of a statistic of variants, each with scores (S_p,) in every place p.

    A draw resamples the seeds of each variant in each place; one seed has no spread. Raises
    ValueError for a level outside (0, 1).
    """
    check_level(level)
    generator = np.random.default_rng(seed)

    def draw(scores: Floats) -> Floats:
        return generator.choice(scores, (draws, len(scores)))

    samples = [list(map(draw, places)) for places in variants]
    low, high = np.quantile(statistic(*samples), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)
