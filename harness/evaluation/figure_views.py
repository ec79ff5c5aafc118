"""Triples of captions, two close and one distant, and their encodings under dropout (KDMCSE Figures 8 to 12)."""

from __future__ import annotations

import numpy as np

from harness.evaluation.retrieval import ImagesWithCaptions


def sentence_triples(data: ImagesWithCaptions, n: int, rng: np.random.Generator) -> list[list[str]]:
    """Draw n triples of captions: two close ones and a distant one.

    The first two are the first two distinct captions of a drawn image or, where it has one caption, this and the
    caption of another image with most shared words. The third belongs to another image: among the captions with at
    least as many words as the first, the one with fewest words shared with both, ties drawn. Shared words are counted
    as a share of all words of the two. Raises ValueError for fewer than three images.
    """
    images = np.unique(data.image_of)
    if len(images) < 3:
        raise ValueError("triples of captions need three images")
    words = [frozenset(text.lower().split()) for text in data.texts]
    drawn = rng.choice(images, size=n, replace=n > len(images))
    return [_triple(data, words, int(image), rng) for image in drawn]


def view_cosines(views: np.ndarray) -> dict[str, float]:
    """Compute mean cosines of encodings, (t, 3, v, d) of norm 1, v > 1, over t triples (see `FiguresSuite`)."""
    n = views.shape[2]
    centres = views.mean(axis=2, dtype=np.float64)
    squares = np.einsum("tsd,tsd->", centres, centres) / centres[..., 0].size
    first, second, apart = centres.transpose(1, 0, 2)
    return {
        # the mean over all n x n pairs, less each encoding with itself
        "cosine_same": float((n * squares - 1) / (n - 1)),
        "cosine_close": float(np.einsum("td,td->t", first, second).mean()),
        "cosine_apart": float(np.einsum("td,td->t", (first + second) / 2, apart).mean()),
    }


def _triple(data: ImagesWithCaptions, words: list[frozenset[str]], image: int, rng: np.random.Generator) -> list[str]:
    mine = list(dict.fromkeys(data.texts[row] for row in np.flatnonzero(data.image_of == image)))
    others = [row for row in np.flatnonzero(data.image_of != image) if data.texts[row] not in mine]
    first = frozenset(mine[0].lower().split())
    if len(mine) == 1:
        mine.append(data.texts[max(others, key=lambda row: _shared(first, words[row]))])
    both = first | frozenset(mine[1].lower().split())
    others = [row for row in others if data.texts[row] not in mine]
    long = [row for row in others if len(data.texts[row].split()) >= len(mine[0].split())] or others
    shared = np.array([_shared(both, words[row]) for row in long])
    return [*mine[:2], data.texts[long[rng.choice(np.flatnonzero(shared == shared.min()))]]]


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))
