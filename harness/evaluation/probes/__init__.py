"""Linear probes on frozen vectors, many trained at a time: their splits, SentEval's settings, and
their interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

#: SentEval's seed for every fold, permutation and classifier.
SEED = 1111
#: l2 weights, weakest first; of equally good ones the first is selected.
L2 = (1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Mode:
    """Folds, batch size, tolerated failures to improve (tenacity), and passes between evaluations
    on dev rows.
    """

    folds: int
    optimizer: Literal["adam", "rmsprop"]
    batch: int
    tenacity: int
    passes: int


_FAST = Mode(folds=5, optimizer="rmsprop", batch=128, tenacity=3, passes=2)
#: The settings of SentEval's classifier that SimCSE's evaluation.py calls 'fasttest', 'dev' and
#: 'test'.
MODES = {
    "fast": _FAST,
    "dev": _FAST,
    "full": Mode(folds=10, optimizer="adam", batch=64, tenacity=5, passes=4),
}


@dataclass(frozen=True)
class Split:
    """The rows of one classifier: `train` in the order of its batches, and `dev` for selection.

    `drawn` is the length of the permutation that made the split, 0 for none; batches use the random
    numbers after it.
    """

    train: np.ndarray
    dev: np.ndarray
    drawn: int = 0


@dataclass(frozen=True)
class Fitted:
    """Classifiers of F splits and m l2 weights each.

    `weights` is (F, m, C, d + 1), the bias last; `dev` (F, m) is the accuracy on dev rows, NaN
    where there are none.
    """

    weights: np.ndarray
    dev: np.ndarray

    def predict(self, split: int, column: int, x: np.ndarray) -> np.ndarray:
        """Predict the classes (n,) of vectors (n, d); ties: the first class."""
        weights = self.weights[split, column]
        return np.asarray((x @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1))


class Probe(Protocol):
    """An algorithm that trains linear classifiers, and its number of folds."""

    folds: int

    def split_for_refit(self, rows: np.ndarray) -> Split:
        """Split the n training rows of the classifier that is tested into train and dev rows."""

    def fit(
        self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray
    ) -> Fitted:
        """Train one classifier for each split and each of its l2 weights.

        `x` (n, d) floats and `labels` (n,) int64, from 0, are all rows; `l2` is (splits, m).
        """


def split_into_folds(rows: np.ndarray, labels: np.ndarray, folds: int) -> list[Split]:
    """Split n rows into shuffled folds of equal shares of each class, rows ascending in both parts
    of a split.

    `labels` (n,) are those of the rows. The folds are those of scikit-learn's StratifiedKFold with
    SentEval's seed.
    """
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(n_splits=folds, shuffle=True, random_state=SEED)
    return [Split(rows[train], rows[dev]) for train, dev in splitter.split(rows, labels)]


def append_ones(x: np.ndarray) -> np.ndarray:
    """Append the input of the bias: (n, d) -> (n, d + 1) of the same type."""
    return np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1)
