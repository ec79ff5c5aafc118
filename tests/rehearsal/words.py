"""Made-up sentences of few words, and small pictures: what the stand-ins publish instead of the
real data.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image

_SYLLABLES = (
    "ba",
    "co",
    "di",
    "fu",
    "ga",
    "he",
    "li",
    "mo",
    "nu",
    "pe",
    "ri",
    "sa",
    "to",
    "vu",
    "we",
    "zi",
)
#: words of two syllables, the most frequent first
VOCABULARY = [first + second for first in _SYLLABLES for second in _SYLLABLES]


class Writer:
    """Writes seeded sentences whose words are drawn by Zipf's law."""

    def __init__(self, *axes: int) -> None:
        """`axes` are the numbers that the sentences depend on."""
        self._rng = np.random.default_rng(axes)
        chances = 1 / np.arange(1, len(VOCABULARY) + 1)
        self._chances = chances / chances.sum()

    def sentences(self, count: int, words: int) -> list[str]:
        """Write sentences of about `words` words, four at least."""
        lengths = 4 + self._rng.poisson(max(words - 4, 0), count)
        drawn = np.array(VOCABULARY)[
            self._rng.choice(len(VOCABULARY), lengths.sum(), p=self._chances)
        ]
        return [
            " ".join(part).capitalize() + "." for part in np.split(drawn, np.cumsum(lengths)[:-1])
        ]

    def in_turn(self, count: int, words: int, at_once: int = 100_000) -> Iterator[str]:
        """Write many sentences, not all of them in memory."""
        for start in range(0, count, at_once):
            yield from self.sentences(min(at_once, count - start), words)

    def groups(self, count: int, size: int, words: int) -> list[list[str]]:
        """Write `count` groups of sentences."""
        flat = self.sentences(count * size, words)
        return [flat[start : start + size] for start in range(0, len(flat), size)]

    def scores(self, count: int) -> list[str]:
        """Draw gold scores from 0 to 5."""
        return [f"{score:.1f}" for score in self._rng.integers(0, 51, count) / 10]


def pictures(different: int = 256) -> Iterator[bytes]:
    """Yield JPEG files of about a kilobyte without end; `different` ones in turn."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(different):
        size = (int(rng.integers(60, 100)), int(rng.integers(60, 100)))
        coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        stream = io.BytesIO()
        coarse.resize(size, Image.Resampling.BILINEAR).save(stream, "JPEG", quality=60)
        made.append(stream.getvalue())
    while True:
        yield from made
