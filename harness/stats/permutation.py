"""The permutation test of a difference of means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from harness.stats.summary import noise, summarise

#: Up to this many ways to deal the values out, all are looked at.
_EXACT = 20_000


@dataclass(frozen=True)
class Permutation:
    """`p` of the difference mean(a) - mean(b); `smallest` is the least p that these counts can give."""

    difference: float
    p: float
    exact: bool
    smallest: float


def permutation_test(a: Sequence[float], b: Sequence[float], *, draws: int = 20_000, seed: int = 0) -> Permutation:
    """Permutation test of mean(a) - mean(b), two-sided by absolute size.

    All ways of dealing the values out are counted where there are at most 20,000 (eight values against eight);
    else `draws` random ones and the observed one, so p is never 0 (Phipson and Smyth 2010). Equal values give
    p 1. Raises ValueError for no values and for NaN or infinity.
    """
    first, second = summarise(a), summarise(b)
    values = np.asarray([*a, *b], dtype=np.float64)
    ways = comb(len(values), len(a))
    exact = ways <= _EXACT
    sums = _all_sums(values, len(a)) if exact else _drawn_sums(values, len(a), draws, np.random.default_rng(seed))
    differences = sums / len(a) - (values.sum() - sums) / len(b)
    observed = first.mean - second.mean
    # differences that are equal but for the order of summation count as equal
    extreme = int((np.abs(differences) >= abs(observed) - 10 * noise(*values)).sum())
    p = extreme / ways if exact else (extreme + 1) / (draws + 1)
    smallest = (2 if len(a) == len(b) else 1) / ways if exact else 1 / (draws + 1)
    return Permutation(observed, p, exact, smallest)


def _all_sums(values: np.ndarray, size: int) -> np.ndarray:
    return values[np.array(list(combinations(range(len(values)), size)))].sum(axis=1)


def _drawn_sums(values: np.ndarray, size: int, draws: int, generator: np.random.Generator) -> np.ndarray:
    return np.array([generator.permutation(values)[:size].sum() for _ in range(draws)])
