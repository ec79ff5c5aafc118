"""What a corpus is to the rest of the house: rows of one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor

from harness.corpora.pixels import Pixels
from harness.encoders.vision import normalised
from harness.sources import Source


@dataclass(frozen=True)
class Sentences:
    """Text alone: n sentences."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


class Later(Sequence[str]):
    """n texts that are read when one of them is asked for."""

    def __init__(self, count: int, read: Callable[[], Sequence[str]]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self._texts[place]

    @cached_property
    def _texts(self) -> Sequence[str]:
        return self._read()


@dataclass(frozen=True)
class Pairs:
    """n captions, each with its image, of which there are m.

    `image_of` says the number of each caption's image, (n,) below m; None where caption i has image i. `images`
    holds pixels where the corpus has them, (m, height, width, 3) uint8, or files that are decoded when they are
    asked for; `features` holds stored image features by teacher name, each of shape (m, f) float32.
    """

    texts: Sequence[str]
    images: np.ndarray | Pixels | None = None
    features: Mapping[str, np.ndarray] = field(default_factory=dict)
    #: what a person should know of the data
    warnings: Sequence[str] = ()
    image_of: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def image_count(self) -> int:
        """Images, m."""
        return len(self) if self.image_of is None else int(self.image_of[-1]) + 1


@dataclass(frozen=True)
class Triplets:
    """n triplets of natural language inference: premise, entailed and contradicted hypothesis."""

    premises: Sequence[str]
    entailed: Sequence[str]
    contradicted: Sequence[str]

    def __len__(self) -> int:
        return len(self.premises)


class Media(ABC):
    """n images or recordings with their classes, `labels`, (n,) int64; an unlabelled item is a class of its own."""

    labels: np.ndarray
    #: whether a batch is work that is worth a process of its own, such as decoding files
    costly = False
    #: what a person should know of the data, such as items that could not be read
    warnings: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """The inputs of some rows: pixels (B, 2, 3, H, W) uint8, two augmentations, or spectrograms (B, frames, bins).

        Everything random is drawn from `rng`, so that a resumed run sees what it would have seen.
        """

    def ready(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """A batch's inputs, on the student's device, as its patch embedding takes them: pixels normalised."""
        return {name: normalised(value) if name == "pixels" else value for name, value in inputs.items()}


class CorpusSource(Source):
    """A source of one stream of training data."""

    stream: Literal["sentences", "pairs", "triplets", "images", "audio"]
    #: stored teacher features by teacher, each with its own files
    stored: Mapping[str, Any] = {}
    #: the images of pairs, where they are files beside the corpus's own that only some teachers read
    pixels: Source | None = None

    @property
    def per_row(self) -> int:
        """Texts of a row."""
        return 3 if self.stream == "triplets" else 1

    @abstractmethod
    def load(self, root: Path | None) -> Sentences | Pairs | Triplets | Media:
        """Read the corpus. Raises MissingData or UserError."""

    def texts(self, root: Path | None) -> Iterator[str]:
        """The texts of the rows in their order, three a row of triplets. Raises MissingData or UserError."""
        found = self.load(root)
        if isinstance(found, Triplets):
            for triplet in zip(found.premises, found.entailed, found.contradicted, strict=True):
                yield from triplet
        elif isinstance(found, Sentences | Pairs):
            yield from found.texts

    def images_fingerprint(self, root: Path | None) -> str:
        """What the images and the order of them depend on, however their captions are read."""
        return self.fingerprint(root)

    def with_captions(self, which: Literal["one", "all"]) -> CorpusSource:
        """The same source with one caption of an image as a row, or every one, where it has several."""
        return self
