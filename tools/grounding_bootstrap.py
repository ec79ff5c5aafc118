"""Intervals over test pairs and seeds together, from the stored cosines of each pair.

A draw takes as many seeds, and as many pairs of each subset, as there are, with replacement; both
methods have the same draw. So the interval holds for other seeds and for other pairs of these kinds,
where a t-test over seeds holds for these pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from harness.metrics import ArrayName
from harness.seeds import generator
from harness.store.files import NamedArrays

DRAWS = 400
ArraysBySeed = Mapping[int, NamedArrays]
#: task -> subset -> the pairs of the subset, in the order of the arrays
Subsets = Mapping[str, Mapping[str, int]]


class Resampled(NamedTuple):
    """The mean gain over something, and the ends of its 95 % interval."""

    over: str
    seeds: int
    size: float
    low: float
    high: float


def resample(
    own: ArraysBySeed, other: ArraysBySeed, subsets: Subsets, captions: Collection[str]
) -> Iterator[Resampled]:
    """The gain of one row over another in Spearman x 100: over whole tasks, and over the subsets
    that are no captions.
    """
    seeds = sorted(own.keys() & other.keys())
    tasks = [name.task for name in own[seeds[0]] if name.what == "cosine"]
    parts = [_Part(task, 0, None) for task in tasks]
    yield _resampled(f"{len(tasks)} tasks", own, other, seeds, parts)

    elsewhere = []
    for task, sizes in subsets.items():
        starts = np.cumsum([0, *sizes.values()]).tolist()
        for (name, size), start in zip(sizes.items(), starts, strict=False):
            if name not in captions and task in tasks:
                elsewhere.append(_Part(task, start, start + size))
    if elsewhere:
        what = f"{len(elsewhere)} subsets that are no captions"
        yield _resampled(what, own, other, seeds, elsewhere)


class _Part(NamedTuple):
    """Rows of a task's arrays."""

    task: str
    start: int
    stop: int | None


def _resampled(
    over: str,
    own: ArraysBySeed,
    other: ArraysBySeed,
    seeds: list[int],
    parts: list[_Part],
) -> Resampled:
    numbers = generator(axis="bootstrap of pairs", over=over)
    size = _gain(own, other, seeds, parts, None)
    drawn = [
        _gain(own, other, numbers.choice(seeds, len(seeds)).tolist(), parts, numbers)
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Resampled(over, len(seeds), size, float(low), float(high))


def _gain(
    own: ArraysBySeed,
    other: ArraysBySeed,
    seeds: list[int],
    parts: list[_Part],
    numbers: np.random.Generator | None,
) -> float:
    """The mean gain over parts and seeds, of all pairs or of a draw of them."""
    gains = []
    for part in parts:
        rows = slice(part.start, part.stop)
        gold = own[seeds[0]][ArrayName(part.task, "gold")][rows]
        drawn = np.arange(len(gold))
        if numbers is not None:
            drawn = numbers.integers(len(gold), size=len(gold))
        ranks = _standardised(gold[drawn])
        of_seed = {
            seed: [
                float(
                    ranks @ _standardised(side[seed][ArrayName(part.task, "cosine")][rows][drawn])
                )
                for side in (own, other)
            ]
            for seed in set(seeds)
        }
        gains += [100 * (of_seed[seed][0] - of_seed[seed][1]) for seed in seeds]
    return float(np.mean(gains))


def _standardised(values: np.ndarray) -> np.ndarray:
    """Ranks with mean 0 and norm 1, so that the product of two is Spearman's correlation."""
    ranks = rankdata(values)
    ranks -= ranks.mean()
    return np.asarray(ranks / max(float(np.linalg.norm(ranks)), 1e-12))
