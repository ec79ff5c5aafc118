"""Cosines of pairs, and correlations that are None where they are undefined."""

from __future__ import annotations

import numpy as np


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 for a zero row, as in SentEval.

    Equal rows give exactly 1, so pairs of a sentence with itself tie.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    dot, squares = _dot(x, y), _dot(x, x) * _dot(y, y)
    safe = np.where(squares > 0, squares, 1.0)
    return np.where(squares > 0, dot / np.sqrt(safe), 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x, y = _unit(x - x.mean()), _unit(y - y.mean())
    return float(np.clip(x @ y, -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rho: Pearson's r of the ranks, ties at their average rank; None as for `pearson`."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    products: np.ndarray = np.einsum("nd,nd->n", x, y)
    return products


def _unit(x: np.ndarray) -> np.ndarray:
    # divided by its largest value first, or the squares of tiny values would underflow to 0
    x = x / np.abs(x).max()
    unit: np.ndarray = x / np.sqrt(x @ x)
    return unit
