"""Scores in several places, such as tasks or settings: interquartile means and probabilities of
improvement.

Definitions of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", NeurIPS 2021, section 4, with their stratified bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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
        # the seeds come first, since numpy is fast along a long last axis
        x = np.ascontiguousarray(np.moveaxis(first, -1, 0))[:, None]
        y = np.ascontiguousarray(np.moveaxis(second, -1, 0))[None]
        wins = (x > y) + 0.5 * (x == y)
        shares.append(wins.mean(axis=(0, 1)))

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
    sizes = tuple(tuple(map(len, places)) for places in variants)
    samples = []
    for places, rows_of_places in zip(variants, _draw_rows(sizes, draws, seed), strict=True):
        samples.append([scores[rows] for scores, rows in zip(places, rows_of_places, strict=True)])

    low, high = np.quantile(statistic(*samples), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)


@lru_cache(maxsize=8)  # most variants of a table have as many seeds as the others
def _draw_rows(
    sizes: tuple[tuple[int, ...], ...], draws: int, seed: int
) -> list[list[NDArray[np.int64]]]:
    """The places of drawn values, (draws, S_p) for each place p of each variant."""
    generator = np.random.default_rng(seed)
    rows = []
    for sizes_of_places in sizes:
        rows_of_places = [generator.integers(0, size, (draws, size)) for size in sizes_of_places]
        rows.append(rows_of_places)
    return rows
