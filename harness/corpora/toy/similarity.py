"""Similarity tasks of the toy world: pairs of descriptions, scored by the attributes that their scenes share.

Like STS 2012-2016, a task has subsets; here a subset is a pair of genres. Synonyms and templates of the two sentences
are drawn independently, so that good scores require knowing which words mean the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.corpora.toy.corpora import cached_hash
from harness.corpora.toy.grammar import GENRES, describe
from harness.corpora.toy.scenes import ATTRIBUTES, SIZES, draw_scenes
from harness.seeds import generator
from harness.sources import Generated, digest

#: sentence, sentence, gold score
Pair = tuple[str, str, float]
#: subset -> genres of the first and second sentence
SUBSETS = {"phrases": ("phrases", "phrases"), "statements": ("statements", "statements"), "mixed": GENRES}


class ToySimilarity(Generated):
    """A similarity task of the toy world."""

    files: tuple[str, ...] = ()

    def __init__(self, name: str, sizes: dict[str, int]) -> None:
        """`sizes` is the number of pairs of each subset."""
        self.name, self.sizes = name, sizes

    def fingerprint(self, root: Path | None) -> str:
        """Hash of sentences and scores."""
        return cached_hash(["similarity", self.name, self.sizes], lambda: digest(self.load(root)))

    def load(self, root: Path | None) -> dict[str, list[Pair]]:
        """Subset -> (sentence, sentence, gold 0..5)."""
        return {subset: self._pairs(subset, size) for subset, size in self.sizes.items()}

    def _pairs(self, subset: str, size: int) -> list[Pair]:
        rng = generator(world="toy", part="similarity", task=self.name, subset=subset)
        first, second, gold = related_scenes(rng, size)
        genres = [np.full(size, GENRES.index(genre)) for genre in SUBSETS[subset]]
        texts = [describe(scenes, rng, genre) for scenes, genre in zip((first, second), genres, strict=True)]
        return list(zip(*texts, gold.tolist(), strict=True))


def related_scenes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw pairs of scenes, (count, attributes) each, with gold scores, (count,).

    The number of shared attributes is uniform from none to all, and which ones is uniform as well. The score is five
    times the fraction of shared attributes, rounded to two decimals.
    """
    first = draw_scenes(rng, count)
    ranks = rng.permuted(np.tile(np.arange(len(ATTRIBUTES)), (count, 1)), axis=1)
    differ = ranks >= rng.integers(0, len(ATTRIBUTES) + 1, size=(count, 1))
    second = np.where(differ, (first + rng.integers(1, SIZES, size=first.shape)) % SIZES, first)
    return first, second, np.round(5 * (first == second).mean(axis=1), 2)


TOY_STS = ToySimilarity("ToySTS", {"phrases": 300, "statements": 300, "mixed": 400})
TOY_STS_DEV = ToySimilarity("ToySTS-dev", {"phrases": 150, "statements": 150, "mixed": 200})
