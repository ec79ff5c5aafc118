"""The rows that classifiers are trained and chosen on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: What SentEval seeds every fold, permutation and classifier with.
SEED = 1111


@dataclass(frozen=True)
class Split:
    """Rows that one classifier sees: `train` in the order its batches count them, `dev` to choose by.

    `drawn` is the length of the permutation that made the split out of the classifier's own random numbers, 0 for
    none: its batches come from the numbers after it.
    """

    train: np.ndarray
    dev: np.ndarray
    drawn: int = 0


def stratified(rows: np.ndarray, labels: np.ndarray, folds: int) -> list[Split]:
    """Split n rows into shuffled folds of equal shares of each class, rows ascending in both parts of a split.

    `labels` (n,) are the rows' own. These are the folds of scikit-learn's StratifiedKFold under SentEval's seed.
    """
    from sklearn.model_selection import StratifiedKFold

    maker = StratifiedKFold(n_splits=folds, shuffle=True, random_state=SEED)
    return [Split(rows[train], rows[dev]) for train, dev in maker.split(rows, labels)]


def held_out(rows: np.ndarray, share: float) -> Split:
    """Hold out the first `share` of a seeded permutation of n rows, rounded down; train on the others as permuted."""
    order = np.random.RandomState(SEED).permutation(len(rows))
    dev = int(share * len(rows))
    return Split(rows[order[dev:]], rows[order[:dev]], drawn=len(rows))
