"""Sentences to vectors, each distinct sentence once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

#: n sentences -> float32 (n, d), rows in the order given. Sorting by length and batching are its own affair.
Embedder = Callable[[Sequence[str]], np.ndarray]


class Embedded:
    """The vectors of a set of sentences, looked up by sentence."""

    def __init__(self, embed: Embedder, sentences: Iterable[str]) -> None:
        """Embed every distinct sentence, in order of first occurrence, in one call of `embed`.

        As in SentEval, a value that is not a number becomes 0 and an infinite one the largest float32;
        `not_finite` counts the sentences this happened to. Raises ValueError when `embed` does not give one
        row a sentence.
        """
        unique = list(dict.fromkeys(sentences))
        vectors = np.asarray(embed(unique), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(unique):
            raise ValueError(f"the embedder gave shape {vectors.shape} for {len(unique)} sentences, not (n, d)")
        self.not_finite = int(np.count_nonzero(~np.isfinite(vectors).all(axis=1)))
        self._vectors = np.nan_to_num(vectors)
        self._row = {sentence: row for row, sentence in enumerate(unique)}

    def __len__(self) -> int:
        """The number of distinct sentences."""
        return len(self._row)

    def rows(self, sentences: Iterable[str]) -> np.ndarray:
        """The vectors of n sentences, float32 (n, d). Raises KeyError for a sentence that was not embedded."""
        return self._vectors[[self._row[sentence] for sentence in sentences]]
