"""Text and captioned pictures of the toy world."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from harness.corpora.base import Pairs, Sentences, Triplets
from harness.corpora.toy.generated import ToyCorpus
from harness.corpora.toy.grammar import describe
from harness.corpora.toy.render import render
from harness.corpora.toy.scenes import ATTRIBUTES, SIZES, draw_distinct_scenes, draw_scenes
from harness.seeds import generator
from harness.sources import digest


class ToySentences(ToyCorpus):
    """Descriptions of scenes without pictures."""

    stream = "sentences"
    rows = 8192

    def row_hash(self) -> str:
        """Hash of the sentences."""
        return digest(self.load(None).texts)

    def load(self, root: Path | None) -> Sentences:
        """Generate the sentences."""
        rng = generator(world="toy", part="sentences", seed=self.seed)
        return Sentences(describe(draw_scenes(rng, self.size), rng))


class ToyPairs(ToyCorpus):
    """Captioned pictures; the scenes of the test split are distinct, so that each caption fits one picture."""

    stream = "pairs"

    def __init__(self, seed: int = 0, size: int | None = None, split: str = "train") -> None:
        """`split` is 'train' or 'test'."""
        super().__init__(seed, size)
        self.split = split

    def row_hash(self) -> str:
        """Hash of the captions and of the pictures' bytes."""
        pairs = self.load(None)
        assert isinstance(pairs.images, np.ndarray)
        return digest(pairs.texts, hashlib.sha256(pairs.images.tobytes()).hexdigest())

    def load(self, root: Path | None) -> Pairs:
        """Generate captions and pictures, (size, 32, 32, 3) uint8."""
        rng = generator(world="toy", part="pairs", split=self.split, seed=self.seed)
        scenes = draw_distinct_scenes(rng, self.size) if self.split == "test" else draw_scenes(rng, self.size)
        return Pairs(describe(scenes, rng), render(scenes, rng))


class ToyTriplets(ToyCorpus):
    """A description, another of the same scene, and one of a scene that differs in one attribute.

    Synonyms and templates are drawn anew for each description.
    """

    stream = "triplets"

    def row_hash(self) -> str:
        """Hash of the sentences."""
        triplets = self.load(None)
        return digest(triplets.premises, triplets.entailed, triplets.contradicted)

    def load(self, root: Path | None) -> Triplets:
        """Generate the triplets."""
        rng = generator(world="toy", part="triplets", seed=self.seed)
        scenes = draw_scenes(rng, self.size)
        changed = scenes.copy()
        which = rng.integers(0, len(ATTRIBUTES), self.size)
        rows = np.arange(self.size)
        changed[rows, which] = (changed[rows, which] + rng.integers(1, SIZES[which])) % SIZES[which]
        return Triplets(describe(scenes, rng), describe(scenes, rng), describe(changed, rng))
