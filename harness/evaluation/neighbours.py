"""The nearest sentences of a query in a pool (MCSE Table 8, DALR Table 10, NonLing Table D.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.evaluation.embed import Embedded, EmbedFunction

#: Cosines in memory at a time: 64 MB in float32.
_CELLS = 1 << 24
#: Neighbours of a drawn query: the longest list in the papers.
NEAREST = 3


@dataclass(frozen=True)
class NearestRows:
    """The k nearest rows of n queries, nearest first: row numbers in the pool and cosines, (n, k) each."""

    rows: np.ndarray
    cosines: np.ndarray


def nearest_sentences(
    embed: EmbedFunction, queries: Sequence[str], pool: Sequence[str], k: int, *, itself: bool = False
) -> NearestRows:
    """Find the k sentences of the pool with the highest cosine to each query.

    Sentences equal to the query are left out unless `itself`. Raises ValueError where fewer than k remain.
    """
    vectors = Embedded(embed, [*queries, *pool])
    left_out: list[np.ndarray] = [np.array([], dtype=np.int64)] * len(queries)
    if not itself:
        rows: dict[str, list[int]] = {}
        for row, sentence in enumerate(pool):
            rows.setdefault(sentence, []).append(row)
        left_out = [np.array(rows.get(query, []), dtype=np.int64) for query in queries]
    return nearest(vectors.rows(queries), vectors.rows(pool), k, left_out)


def neighbours_of(
    captions: Sequence[str], embed: EmbedFunction, queries: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw `queries` from the distinct captions and find their `neighbours` and `neighbour_cosines`, nearest first.

    Each has at most three, none of them the query. Raises ValueError for fewer than two distinct captions.
    """
    pool = list(dict.fromkeys(captions))
    asked = [pool[row] for row in rng.permutation(len(pool))[:queries]]
    found = nearest_sentences(embed, asked, pool, max(1, min(NEAREST, len(pool) - 1)))
    texts = [[pool[row] for row in rows] for rows in found.rows]
    return {"queries": np.array(asked), "neighbours": np.array(texts), "neighbour_cosines": found.cosines}


def nearest(queries: np.ndarray, pool: np.ndarray, k: int, left_out: Sequence[np.ndarray]) -> NearestRows:
    """Find the k rows of a pool with the highest cosine to each query, exactly: (n, d) and (m, d) float32.

    `left_out` holds the rows of the pool to exclude for each query. Equal cosines are in the order of the pool. A zero
    row has cosine 0 with everything. Raises ValueError where fewer than k rows remain.
    """
    if k < 1 or any(len(pool) - len(rows) < k for rows in left_out):
        raise ValueError(f"fewer than {k} neighbours are left in a pool of {len(pool)}")
    inverse = 1 / _norms(pool)
    queries = queries / _norms(queries)[:, None]
    found = NearestRows(np.empty((len(queries), k), dtype=np.int64), np.empty((len(queries), k), dtype=np.float32))
    size = max(1, _CELLS // len(pool))
    for top in range(0, len(queries), size):
        cosines = (queries[top : top + size] @ pool.T) * inverse
        for row, values in enumerate(cosines, start=top):
            values[left_out[row]] = -np.inf
            found.rows[row] = _largest(values, k)
            found.cosines[row] = values[found.rows[row]]
    return found


def _largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest of (m,) values, largest first, equal ones in order."""
    kth = np.partition(values, len(values) - k)[len(values) - k]
    places = np.flatnonzero(values >= kth)
    return places[np.argsort(-values[places], kind="stable")][:k]


def _norms(x: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(x, axis=1)
    return np.where(norms > 0, norms, np.float32(1))
