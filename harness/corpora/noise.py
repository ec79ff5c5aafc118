"""Triplets with deleted, inserted and swapped words (NonLing Figure 3).

The paper does not define the three kinds of noise. Here each word is deleted with a given probability, except that one
word always remains; an inserted word is a copy of a word of the text at a random place; a swap exchanges the words at
two random places. They are applied in this order, once per text, drawn in the order of the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.corpora.base import CorpusSource, Triplets
from harness.seeds import generator
from harness.sources import Missing, digest


class Noisy(CorpusSource):
    """Triplets with noise in every text: `deletion` is a probability, `insertion` and `swap` are counts per text."""

    stream = "triplets"

    def __init__(self, clean: CorpusSource, deletion: float = 0.0, insertion: int = 0, swap: int = 0) -> None:
        self.clean, self.deletion, self.insertion, self.swap = clean, deletion, insertion, swap

    @classmethod
    def over(cls, source: CorpusSource, **noise: float) -> Noisy:
        """Add noise to a corpus, by the names of the parameters; in one that is noisy already, it is combined."""
        clean, known = source, noise
        if isinstance(source, Noisy):
            clean, known = source.clean, {**source.noise, **noise}
        return cls(clean, known.get("deletion", 0.0), int(known.get("insertion", 0)), int(known.get("swap", 0)))

    @property
    def noise(self) -> dict[str, float]:
        return {"deletion": self.deletion, "insertion": self.insertion, "swap": self.swap}

    def missing(self, root: Path | None) -> list[Missing]:
        return self.clean.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        return digest("noise", self.clean.fingerprint(root), self.deletion, self.insertion, self.swap)

    def load(self, root: Path | None) -> Triplets:
        texts = list(self.texts(root))
        return Triplets(texts[0::3], texts[1::3], texts[2::3])

    def texts(self, root: Path | None) -> Iterator[str]:
        rng = generator(axis="noise", deletion=str(self.deletion), insertion=self.insertion, swap=self.swap)
        for text in self.clean.texts(root):
            yield self._noisy(text, rng)

    def _noisy(self, text: str, rng: np.random.Generator) -> str:
        words = text.split()
        if self.deletion:
            stays = rng.random(len(words)) >= self.deletion
            stays[rng.integers(len(words))] |= not stays.any()
            words = [word for word, stay in zip(words, stays, strict=True) if stay]
        for _ in range(self.insertion):
            words.insert(int(rng.integers(len(words) + 1)), words[int(rng.integers(len(words)))])
        for _ in range(self.swap):
            one, other = rng.integers(len(words), size=2)
            words[one], words[other] = words[other], words[one]
        return " ".join(words)
