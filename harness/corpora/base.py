"""What a corpus is to the rest of the house: sentences, or captions with images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.sources import Source


@dataclass(frozen=True)
class Sentences:
    """Text alone: n sentences."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Pairs:
    """n captions, each with its image.

    `images` holds pixels, shape (n, height, width, 3) uint8, where the corpus has them;
    `features` holds stored image features by teacher name, each of shape (n, f) float32.
    """

    texts: Sequence[str]
    images: np.ndarray | None = None
    features: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)


class CorpusSource(Source):
    """A source that loads into Sentences or Pairs."""

    stream: Literal["sentences", "pairs"]
    #: stored teacher features by teacher, each with its own files
    stored: Mapping[str, Any] = {}

    @abstractmethod
    def load(self, root: Path | None) -> Sentences | Pairs:
        """Read the corpus. Raises MissingData or UserError."""
