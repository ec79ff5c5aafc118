"""Rows of norm 1, cosines, and correlations that are None where they are undefined."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Cosines in memory at a time: 64 MB in float32.
_CELLS = 1 << 24


class NotFiniteError(Exception):
    """Vectors with NaN or infinite values, of which no score is made."""


def normalised(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1 in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1.0)


def units(x: np.ndarray) -> np.ndarray:
    """Scale rows to Euclidean norm 1, computed in float64, returned as float32. Raises NotFiniteError."""
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise NotFiniteError(f"{np.count_nonzero(~finite):,} of {len(x):,} vectors are not finite")
    return normalised(x).astype(np.float32)


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Split the rows of a large matrix of cosines into blocks that fit in memory."""
    size = max(1, _CELLS // columns)
    return (slice(top, min(top + size, rows)) for top in range(0, rows, size))


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair of rows, (n, d) and (n, d) -> float64 (n,); 0 for a zero row, as in SentEval.

    Equal rows give exactly 1, so pairs of a sentence with itself tie.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    dot, x_squares, y_squares = (np.einsum("nd,nd->n", *pair) for pair in ((x, y), (x, x), (y, y)))
    squares = x_squares * y_squares
    return np.where(squares > 0, dot / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Pearson's r of two vectors of length n; None when either is constant or n < 2."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.clip(_unit(x - x.mean()) @ _unit(y - y.mean()), -1.0, 1.0))


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Compute Spearman's rho: Pearson's r of the ranks, ties at their average rank; None as for `pearson`."""
    from scipy.stats import rankdata

    return pearson(rankdata(x), rankdata(y))


def _unit(x: np.ndarray) -> np.ndarray:
    # divided by its largest value first, or the squares of tiny values would underflow to 0
    x = x / np.abs(x).max()
    return np.asarray(x / np.sqrt(x @ x))
