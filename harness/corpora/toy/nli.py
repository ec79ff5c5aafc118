"""The world's triplets: a description, another of the same scene, and one of a scene that differs in one attribute."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from harness.corpora.base import CorpusSource, Triplets
from harness.corpora.toy.grammar import describe
from harness.corpora.toy.remember import remembered
from harness.corpora.toy.scenes import ATTRIBUTES, SIZES, draw_scenes
from harness.seeds import generator
from harness.sources import Missing, digest


class ToyTriplets(CorpusSource):
    """Premise, entailed and contradicted description; synonyms and templates are drawn afresh for each."""

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"] = "triplets"

    def __init__(self, seed: int = 0, size: int = 4096) -> None:
        self.seed, self.size = seed, size

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the corpus is generated."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the sentences."""
        return remembered(["triplets", self.seed, self.size], self._hashed)

    def _hashed(self) -> str:
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
