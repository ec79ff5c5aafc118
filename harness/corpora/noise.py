"""Triplets with words left out, put in and exchanged (NonLing Figure 3).

The paper names deletions, insertions and swaps, and says no more: here a deleted word is one of those that a coin of
the given chance picks, though one word always stays; an inserted one is a word of the text itself at a random
place; a swap exchanges the words at two places. They happen in this order, and each text draws its noise once,
by its place in the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.corpora.base import CorpusSource, Triplets
from harness.seeds import generator
from harness.sources import Missing, digest


class Noisy(CorpusSource):
    """A corpus of triplets in which every text is disturbed: `deletion` is a chance, the others are counts."""

    def __init__(self, clean: CorpusSource, deletion: float = 0.0, insertion: int = 0, swap: int = 0) -> None:
        self.clean, self.deletion, self.insertion, self.swap = clean, deletion, insertion, swap
        self.stream = clean.stream

    @classmethod
    def over(cls, source: CorpusSource, *, deletion: float = 0.0, insertion: int = 0, swap: int = 0) -> Noisy:
        """Add noise to a corpus; in one that is noisy already, the noise is combined."""
        if not isinstance(source, Noisy):
            return cls(source, deletion, insertion, swap)
        return cls(source.clean, deletion or source.deletion, insertion or source.insertion, swap or source.swap)

    def missing(self, root: Path | None) -> list[Missing]:
        """What the corpus lacks."""
        return self.clean.missing(root)

    def fingerprint(self, root: Path | None) -> str:
        """The corpus's, and the noise."""
        return digest("noise", self.clean.fingerprint(root), self.deletion, self.insertion, self.swap)

    def load(self, root: Path | None) -> Triplets:
        """Read the corpus and disturb it. Raises MissingData or UserError."""
        texts = list(self.texts(root))
        return Triplets(texts[0::3], texts[1::3], texts[2::3])

    def texts(self, root: Path | None) -> Iterator[str]:
        """The disturbed texts, three a row."""
        rng = generator(axis="noise", deletion=str(self.deletion), insertion=self.insertion, swap=self.swap)
        for text in self.clean.texts(root):
            yield self._disturbed(text, rng)

    def _disturbed(self, text: str, rng: np.random.Generator) -> str:
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
