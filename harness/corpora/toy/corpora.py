"""Text and captioned pictures of the toy world, and cached fingerprints of everything it generates."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.caches import known_hash
from harness.corpora.base import CorpusSource, Pairs, Sentences, Triplets
from harness.corpora.toy.grammar import GENRES, describe, draw_templates
from harness.corpora.toy.render import render
from harness.corpora.toy.scenes import ATTRIBUTES, SIZES, draw_distinct_scenes, draw_scenes, frequent_scenes
from harness.errors import UserError
from harness.seeds import generator
from harness.sources import Generated, digest, file_hash


def cached_hash(what: object, compute: Callable[[], str]) -> str:
    """The hash (hex) of what the current code generates, so that a plan need not draw thousands of pictures.

    `what` names the options of the generated object.
    """
    code = [file_hash(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return known_hash(f"toy/{digest(repr(what), np.__version__, code)}", compute)


class ToyCorpus(Generated, CorpusSource):
    """A corpus determined by its seed and size."""

    rows: ClassVar[int] = 4096

    def __init__(self, seed: int = 0, size: int | None = None) -> None:
        self.seed, self.size = seed, self.rows if size is None else size

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the rows."""
        return cached_hash([type(self).__name__, vars(self)], self.row_hash)

    @abstractmethod
    def row_hash(self) -> str:
        """Generate the rows and hash them."""


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

    def __init__(self, seed: int = 0, size: int | None = None, split: str = "train", repeats: float = 0.0) -> None:
        """`split` is 'train' or 'test'; `repeats` is the fraction of training pairs with a frequent scene.

        Raises UserError for a fraction outside 0 to 1.
        """
        super().__init__(seed, size)
        if not 0 <= repeats <= 1:
            raise UserError(f"repeats = {repeats:g} of the toy pairs must be a fraction from 0 to 1")
        self.split, self.repeats = split, repeats

    def row_hash(self) -> str:
        """Hash of the captions and of the pictures' bytes."""
        pairs = self.load(None)
        return digest(pairs.texts, hashlib.sha256(np.asarray(pairs.images).tobytes()).hexdigest())

    def load(self, root: Path | None) -> Pairs:
        """Generate captions and pictures, (size, 32, 32, 3) uint8."""
        scenes, rng = self.scenes(), generator(world="toy", part="pairs", split=self.split, seed=self.seed)
        return Pairs(describe(scenes, rng), render(scenes, rng))

    def scenes(self) -> np.ndarray:
        """The scene of each pair, (size, attributes) int64."""
        rng = generator(world="toy", part="scenes of pairs", split=self.split, seed=self.seed)
        if self.split == "test":
            return draw_distinct_scenes(rng, self.size)
        scenes = draw_scenes(rng, self.size)
        repeated = rng.random(self.size) < self.repeats
        frequent = frequent_scenes(rng)
        scenes[repeated] = frequent[rng.integers(0, len(frequent), repeated.sum())]
        return scenes

    def image_ids(self, root: Path | None) -> list[str]:
        """Each picture is drawn once, for one split."""
        return [f"toy-{self.split}-{self.seed}-{number}" for number in range(self.size)]


class ToyTriplets(ToyCorpus):
    """A description, another of the same scene, and one of a scene that differs in one attribute.

    The three share a template, as hypotheses in NLI follow their premise; synonyms are drawn anew for each. With
    templates drawn anew, the untrained student's [CLS], which tells templates apart but not words, has a positive no
    closer than any other sentence: the loss falls from 13 to log(2B), that of equal vectors, and stays there.
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
        genres = rng.integers(0, len(GENRES), self.size)
        templates = draw_templates(rng, genres)
        return Triplets(*(describe(shown, rng, genres, templates) for shown in (scenes, scenes, changed)))
