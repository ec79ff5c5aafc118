"""Linear classifiers of several classes, a bias as the last weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.evaluation.probes.folds import Split


@dataclass(frozen=True)
class Fitted:
    """Classifiers of F splits and m l2 weights each.

    `weights` is (F, m, C, d + 1), the bias last; `dev` (F, m) is the share of its dev rows that each gets right, NaN
    where it has none.
    """

    weights: np.ndarray
    dev: np.ndarray

    def predict(self, split: int, column: int, x: np.ndarray) -> np.ndarray:
        """Classes (n,) of vectors (n, d); of equal scores the first class wins."""
        weights = self.weights[split, column]
        return (x @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1)


class Probe(Protocol):
    """A way to train classifiers, and its own numbers of folds."""

    folds: int

    def refit_split(self, rows: np.ndarray) -> Split:
        """How the classifier that is tested uses the n rows it may train on."""

    def fit(self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray) -> Fitted:
        """Train one classifier for each split and each of its l2 weights.

        `x` (n, d) floats and `labels` (n,) int64, from 0, are all rows; `l2` is (splits, m).
        """


def with_ones(x: np.ndarray) -> np.ndarray:
    """(n, d) -> (n, d + 1) of the same type, the input of the bias last."""
    return np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1)
