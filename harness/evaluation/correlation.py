"""Cosines of pairs, and correlations that say when they are undefined."""

from __future__ import annotations

import numpy as np


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 where a row is zero, as in SentEval.

    Equal rows give exactly 1, so pairs of one sentence with itself tie.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    dot, squares = _dot(x, y), _dot(x, x) * _dot(y, y)
    safe = np.where(squares > 0, squares, 1.0)
    return np.where(squares > 0, dot / np.sqrt(safe), 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x, y = _unit(x - x.mean()), _unit(y - y.mean())
    return float(np.clip(x @ y, -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's rho, Pearson's r of the ranks, ties given their average rank; None as for `pearson`."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", x, y)


def _unit(x: np.ndarray) -> np.ndarray:
    # Divided by its largest value first: the squares of tiny spreads would underflow to 0.
    x = x / np.abs(x).max()
    return x / np.sqrt(x @ x)
