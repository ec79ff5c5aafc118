"""Linear classifiers of several classes, with the bias as the last weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from harness.evaluation.probes.folds import Split


@dataclass(frozen=True)
class Fitted:
    """Classifiers of F splits and m l2 weights each.

    `weights` is (F, m, C, d + 1), the bias last; `dev` (F, m) is the accuracy on dev rows, NaN where there are none.
    """

    weights: np.ndarray
    dev: np.ndarray

    def predict(self, split: int, column: int, x: np.ndarray) -> np.ndarray:
        """Predict the classes (n,) of vectors (n, d); ties: the first class."""
        weights = self.weights[split, column]
        classes: np.ndarray = (x @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1)
        return classes


class Probe(Protocol):
    """An algorithm that trains classifiers, and its number of folds."""

    folds: int

    def refit_split(self, rows: np.ndarray) -> Split:
        """Split the n training rows of the classifier that is tested into train and dev rows."""

    def fit(self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray) -> Fitted:
        """Train one classifier for each split and each of its l2 weights.

        `x` (n, d) floats and `labels` (n,) int64, from 0, are all rows; `l2` is (splits, m).
        """


def with_ones(x: np.ndarray) -> np.ndarray:
    """Append the input of the bias: (n, d) -> (n, d + 1) of the same type."""
    return np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1)
