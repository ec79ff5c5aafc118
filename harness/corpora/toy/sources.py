"""The world's training data: sentences, captioned pictures, labelled pictures."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np

from harness.corpora.base import CorpusSource, Pairs, Sentences
from harness.corpora.toy.grammar import describe
from harness.corpora.toy.remember import remembered
from harness.corpora.toy.render import render
from harness.corpora.toy.scenes import classes, draw_distinct_scenes, draw_scenes
from harness.seeds import generator
from harness.sources import Missing, digest


class ToySentences(CorpusSource):
    """Descriptions of scenes that nobody drew."""

    stream: Literal["sentences", "pairs"] = "sentences"

    def __init__(self, seed: int = 0, size: int = 8192) -> None:
        self.seed, self.size = seed, size

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the corpus is generated."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the sentences."""
        return remembered(["sentences", self.seed, self.size], lambda: digest(self.load(root).texts))

    def load(self, root: Path | None) -> Sentences:
        """Generate the sentences."""
        rng = generator(world="toy", part="sentences", seed=self.seed)
        return Sentences(describe(draw_scenes(rng, self.size), rng))


class ToyPairs(CorpusSource):
    """Captioned pictures; those of the test split show distinct scenes, so that each caption fits one picture."""

    stream: Literal["sentences", "pairs"] = "pairs"

    def __init__(self, seed: int = 0, size: int = 4096, split: str = "train") -> None:
        """`split` is 'train' or 'test'."""
        self.seed, self.size, self.split = seed, size, split

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the corpus is generated."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the captions and of the pictures' bytes."""
        return remembered(["pairs", self.seed, self.size, self.split], self._hashed)

    def _hashed(self) -> str:
        pairs = self.load(None)
        assert isinstance(pairs.images, np.ndarray)
        return digest(pairs.texts, hashlib.sha256(pairs.images.tobytes()).hexdigest())

    def load(self, root: Path | None) -> Pairs:
        """Generate captions and pictures, (size, 32, 32, 3) uint8."""
        rng = generator(world="toy", part="pairs", split=self.split, seed=self.seed)
        scenes = draw_distinct_scenes(rng, self.size) if self.split == "test" else draw_scenes(rng, self.size)
        return Pairs(describe(scenes, rng), render(scenes, rng))


def labelled_images(size: int = 4096, seed: int = 0, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Pictures with their classes, colour x shape: (size, 32, 32, 3) uint8 and (size,) int64 below CLASSES."""
    rng = generator(world="toy", part="labelled images", split=split, seed=seed)
    scenes = draw_scenes(rng, size)
    return render(scenes, rng), classes(scenes)
