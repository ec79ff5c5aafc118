"""Vectors in the plane by t-SNE (van der Maaten and Hinton, 2008), and clusters by K-means (Lloyd, 1982)."""

from __future__ import annotations

import numpy as np

#: scikit-learn takes 32-bit seeds
_SEEDS = 1 << 32
PERPLEXITY = 30.0


def plane(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Compute t-SNE of n > 1 vectors, (n, d) -> (n, 2) float32, started at their principal components; deterministic.

    The perplexity is 30, the usual value (no paper states its own), and less for fewer than 92 vectors.
    """
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, max(1.0, (len(vectors) - 1) / 3))
    # seeded noise where there are no two components
    start = "pca" if min(vectors.shape) > 1 and np.ptp(vectors, axis=0).any() else "random"
    made = TSNE(perplexity=perplexity, init=start, random_state=seed % _SEEDS).fit_transform(vectors)
    return np.asarray(made, dtype=np.float32)


def clusters_of(vectors: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Cluster n vectors by K-means: (n, d) -> (n,) int32 below min(k, n)."""
    from sklearn.cluster import KMeans

    made = KMeans(min(k, len(vectors)), n_init=4, random_state=seed % _SEEDS).fit(vectors)
    return np.asarray(made.labels_, dtype=np.int32)
