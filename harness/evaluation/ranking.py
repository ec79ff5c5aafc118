"""Exact ranks of true rows among all rows of a gallery, by cosine, and recalls.

Ties count against the model: a row that is as similar as the true one is ranked before it, so a model with one vector
for everything has the worst rank everywhere. Cosines that differ by less than `TIE`, float32's rounding, are ties.
"""

from __future__ import annotations

import numpy as np

from harness.evaluation.cosines import row_blocks, units
from harness.evaluation.suites import Values

#: Cosines that differ by less count as equal: four steps of float32 just below 1.
TIE = 2.0**-22
#: Ranks up to which a recall is counted.
TOP = (1, 5, 10)
#: Captions of an image in the reading 'five'; the usual splits of COCO cut the images that have more.
FIVE = 5


def ranks(queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray) -> np.ndarray:
    """Rank the best true row of each query, from 1: (n, p) and (m, p) -> (n,) int64.

    Row j is true for query i where `gallery_of[j] == query_of[i]`, (m,) and (n,) int. The rank is 1 plus the number
    of other rows that are at least as similar as the best true one. A zero row has cosine 0 with everything, and
    values that are not finite count as 0. Raises ValueError for a query without a true row.
    """
    queries, gallery = units(queries), units(gallery)
    order = np.argsort(gallery_of, kind="stable")
    first, last = (np.searchsorted(gallery_of[order], query_of, side=side) for side in ("left", "right"))
    if not (first < last).all():
        raise ValueError("a query has no true row in the gallery")
    found = np.empty(len(queries), dtype=np.int64)
    for block in row_blocks(len(queries), len(gallery)):
        found[block] = _ranks(queries[block] @ gallery.T, order, first[block], (last - first)[block])
    return found


def recalls(found: np.ndarray) -> Values:
    """Compute `R@1`, `R@5`, `R@10` (x100) and `median_rank` of the ranks (n,) of n > 0 queries."""
    return {f"R@{k}": 100 * float((found <= k).mean()) for k in TOP} | {"median_rank": float(np.median(found))}


def both_ways(texts: np.ndarray, images: np.ndarray, image_of: np.ndarray) -> tuple[Values, dict[str, Values]]:
    """Score text to image (`t2i_`) and image to text (`i2t_`): captions (n, p), images (m, p), caption's image (n,).

    Each caption is a query of t2i; a query of i2t is an image, which finds its best caption. Where an image has
    several captions there are two readings, returned as parts: 'one' takes each image's first caption, 'five' its
    first five; the scores are then those of 'five'. `n_texts` captions and `n_images` take part. Raises ValueError
    for an image without a caption.
    """
    place = _places(image_of)
    scores = _both_ways(texts, images, image_of, place < FIVE)
    parts = {"one": _both_ways(texts, images, image_of, place < 1), "five": scores} if place.any() else {}
    return scores | {"n_texts": int((place < FIVE).sum()), "n_images": len(images)}, parts


def _both_ways(texts: np.ndarray, images: np.ndarray, image_of: np.ndarray, taken: np.ndarray) -> Values:
    texts, image_of = texts[taken], image_of[taken]
    every = np.arange(len(images))
    found = {"t2i": ranks(texts, images, image_of, every), "i2t": ranks(images, texts, every, image_of)}
    return {f"{way}_{name}": value for way, each in found.items() for name, value in recalls(each).items()}


def _places(image_of: np.ndarray) -> np.ndarray:
    """Number the captions of each image from 0: (n,)."""
    order = np.argsort(image_of, kind="stable")
    starts = np.searchsorted(image_of[order], image_of[order], side="left")
    places = np.empty(len(image_of), dtype=np.int64)
    places[order] = np.arange(len(image_of)) - starts
    return places


def _ranks(cosines: np.ndarray, order: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Rank a block of queries, (b, m) -> (b,); `order[first : first + counts]` are a query's true rows."""
    starts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(cosines)), counts)
    true = cosines[rows, order[np.repeat(first - starts, counts) + np.arange(counts.sum())]]
    least = np.maximum.reduceat(true, starts) - np.float32(TIE)
    similar = np.count_nonzero(cosines >= least[:, None], axis=1)
    return np.asarray(1 + similar - np.add.reduceat(true >= least[rows], starts))
