"""Intervals over test pairs and seeds together, from the stored cosines of each pair.

A draw takes as many seeds, and as many pairs of each subset, as there are, with replacement; both
methods have the same draw. So the interval holds for other seeds and for other pairs of these kinds,
where a t-test over seeds holds for these pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from harness.metrics import ArrayName
from harness.seeds import make_generator
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
    _CODES.clear()
    seeds = sorted(own.keys() & other.keys())
    tasks = [name.task for name in own[seeds[0]] if name.what == "cosine"]
    whole_tasks = [_Part(task, 0, None) for task in tasks]
    yield _resample_parts(f"{len(tasks)} tasks", own, other, seeds, whole_tasks)

    elsewhere = []
    for task, sizes in subsets.items():
        start = 0
        for name, size in sizes.items():
            if name not in captions and task in tasks:
                elsewhere.append(_Part(task, start, start + size))
            start += size
    if elsewhere:
        over = f"{len(elsewhere)} subsets that are no captions"
        yield _resample_parts(over, own, other, seeds, elsewhere)


class _Part(NamedTuple):
    """Rows of a task's arrays."""

    task: str
    start: int
    stop: int | None


def _resample_parts(
    over: str,
    own: ArraysBySeed,
    other: ArraysBySeed,
    seeds: list[int],
    parts: list[_Part],
) -> Resampled:
    random = make_generator(axis="bootstrap of pairs", over=over)
    size = _average_gain(own, other, seeds, parts, None)
    draws = []
    for _ in range(DRAWS):
        drawn_seeds = random.choice(seeds, len(seeds)).tolist()
        draws.append(_average_gain(own, other, drawn_seeds, parts, random))

    low, high = np.percentile(draws, [2.5, 97.5])
    return Resampled(over, len(seeds), size, float(low), float(high))


def _average_gain(
    own: ArraysBySeed,
    other: ArraysBySeed,
    seeds: list[int],
    parts: list[_Part],
    random: np.random.Generator | None,
) -> float:
    """The mean gain over parts and seeds, of all pairs or of a draw of them."""
    gains = []
    for part in parts:
        gold = _find_codes(own[seeds[0]], part, "gold")
        counts = np.ones(len(gold))
        if random is not None:
            drawn_pairs = random.integers(len(gold), size=len(gold))
            counts = np.bincount(drawn_pairs, minlength=len(gold)).astype(float)
        weighted_gold = counts * _standardise(gold, counts)

        gain_by_seed = {}
        for seed in set(seeds):
            own_codes = _find_codes(own[seed], part, "cosine")
            other_codes = _find_codes(other[seed], part, "cosine")
            own_correlation = float(weighted_gold @ _standardise(own_codes, counts))
            other_correlation = float(weighted_gold @ _standardise(other_codes, counts))
            gain_by_seed[seed] = 100 * (own_correlation - other_correlation)
        # a seed that is drawn twice counts twice
        gains += [gain_by_seed[seed] for seed in seeds]
    return float(np.mean(gains))


#: the id of arrays, which are alive as long as a resampling, a part and what its array holds -> codes
_CODES: dict[tuple[int, _Part, str], np.ndarray] = {}


def _find_codes(arrays: NamedArrays, part: _Part, what: str) -> np.ndarray:
    """The place of each value of a part among its distinct values, so that a draw sorts nothing."""
    key = (id(arrays), part, what)
    if key not in _CODES:
        values = arrays[ArrayName(part.task, what)][part.start : part.stop]
        _CODES[key] = np.unique(values, return_inverse=True)[1]
    return _CODES[key]


def _standardise(codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average ranks of values that are drawn some number of times each, with mean 0 and norm 1 over
    the draw: the sum of products of two is Spearman's correlation.
    """
    by_value = np.bincount(codes, weights=counts)
    ranks = (np.cumsum(by_value) - by_value / 2)[codes]
    ranks -= (counts @ ranks) / counts.sum()
    return np.asarray(ranks / max(float(counts @ ranks**2) ** 0.5, 1e-12))
