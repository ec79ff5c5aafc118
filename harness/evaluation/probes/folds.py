"""The rows that classifiers are trained and selected on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: SentEval's seed of every fold, permutation and classifier.
SEED = 1111


@dataclass(frozen=True)
class Split:
    """The rows of one classifier: `train` in the order of its batches, and `dev` for selection.

    `drawn` is the length of the permutation that was drawn from the classifier's random numbers to make the split, 0
    for none; its batches use the numbers after it.
    """

    train: np.ndarray
    dev: np.ndarray
    drawn: int = 0


def stratified(rows: np.ndarray, labels: np.ndarray, folds: int) -> list[Split]:
    """Split n rows into shuffled folds of equal shares of each class, rows ascending in both parts of a split.

    `labels` (n,) are those of the rows. The folds are those of scikit-learn's StratifiedKFold with SentEval's seed.
    """
    from sklearn.model_selection import StratifiedKFold

    maker = StratifiedKFold(n_splits=folds, shuffle=True, random_state=SEED)
    return [Split(rows[train], rows[dev]) for train, dev in maker.split(rows, labels)]


def held_out(rows: np.ndarray, share: float) -> Split:
    """Hold out the first `share` of a seeded permutation of n rows, rounded down; train on the others as permuted."""
    order = np.random.RandomState(SEED).permutation(len(rows))
    dev = int(share * len(rows))
    return Split(rows[order[dev:]], rows[order[:dev]], drawn=len(rows))
