"""The interface of corpora: a registered class that loads the rows of one stream.

A corpus plug-in derives from `CorpusSource`, is registered in the entry point group
`harness.corpora`, and is named by `kind` in a profile's [corpora.NAME] table; the other keys of the
table are its keyword arguments. It sets `stream` and implements `missing`, `fingerprint` (both of
`harness.sources.Source`) and `load`, which returns what the stream requires:

    sentences  Sentences        pairs  Pairs        triplets  Triplets        images, audio  Media

The fingerprint must change with every option and file that changes the rows. All randomness of
loading comes from seeds among the options, all randomness of `Media.batch` from its generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from harness.errors import UserError
from harness.registry import Registered
from harness.sources import Source
from harness.spec import Stream

if TYPE_CHECKING:
    from torch import Tensor

    from harness.corpora.images import FeatureFile


@dataclass(frozen=True)
class Sentences:
    """n sentences."""

    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Pairs:
    """n captions of m images.

    `image_of` is the image number of each caption, (n,) below m, or None if caption i belongs to
    image i. `images` are pixels, (m, height, width, 3) uint8, read on access or not, or None.
    `features` maps teacher -> stored image features, (m, f) float32, and `caption_features` those
    of the captions, (n, f).
    """

    texts: Sequence[str]
    images: np.ndarray | Sequence[np.ndarray] | None = None
    features: Mapping[str, np.ndarray] = field(default_factory=dict)
    #: warnings for the result file
    warnings: Sequence[str] = ()
    image_of: np.ndarray | None = None
    caption_features: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def image_count(self) -> int:
        return len(self) if self.image_of is None else int(self.image_of[-1]) + 1


def number_images(loaded: Sequence[Pairs]) -> np.ndarray:
    """The image of each caption of several corpora in order, numbered over all of them: (n,) int64."""
    numbers = []
    images_before = 0
    for pairs in loaded:
        own_numbers = np.arange(len(pairs)) if pairs.image_of is None else pairs.image_of
        numbers.append(own_numbers + images_before)
        images_before += pairs.image_count
    return np.concatenate(numbers)


@dataclass(frozen=True)
class Phrases:
    """p phrases of the captions of pairs, each of which names one of r regions of the images.

    Of each phrase, `captions` is the number of its caption, (p,) ascending, `spans` its characters
    there from the first to the one after the last, (p, 2), and `regions` its region, (p,) below r.
    Of each region, `images` is the number of its image, (r,) ascending, and `boxes` its pixels from
    left and top to right and bottom, (r, 4), the last two not included; None if it has features
    only. `features` maps teacher -> stored features of the regions, (r, f) float32.
    """

    captions: np.ndarray
    spans: np.ndarray
    regions: np.ndarray
    images: np.ndarray
    boxes: np.ndarray | None = None
    features: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.captions)


class PhraseSource(Source):
    """The phrases of a corpus of pairs with the regions that they name."""

    @abstractmethod
    def load(self, root: Path | None) -> Phrases:
        """Load the phrases of the captions that are rows. Raises MissingData or UserError."""


@dataclass(frozen=True)
class Triplets:
    """n triplets of natural language inference: premise, entailed and contradicted hypothesis."""

    premises: Sequence[str]
    entailed: Sequence[str]
    contradicted: Sequence[str]

    def __len__(self) -> int:
        return len(self.premises)


class Media(ABC):
    """n images or recordings with classes `labels`, (n,) int64; an unlabelled item has a class of
    its own.
    """

    labels: np.ndarray
    #: whether batches are slow to make (files are decoded) and worth worker processes, to which
    #: this object is pickled
    costly = False
    #: warnings for the result file, such as unreadable items
    warnings: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def batch(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, Tensor]:
        """The inputs of some rows: `pixels` (B, 2, 3, H, W) uint8 or `spectrograms` (B, frames,
        bins).

        The pixels are two augmentations of each image. An augmentation that changes classes adds
        `labels`, (B,) int64. All randomness comes from `rng`, so that a resumed run has the same
        batches.
        """

    def augmented(self, how: str) -> Media:
        """The same items under an augmentation that a method asks for. Raises UserError if it is
        not supported.
        """
        if how == "none":
            return self
        raise UserError(
            f"these items have no augmentation '{how}'; give the method the option augment=none"
        )

    def ready(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Normalise the pixels of a batch; called on the student's device."""
        # imports torch, which planning does not need
        from harness.encoders.vision import normalise_pixels

        if "pixels" not in inputs:
            return inputs
        return {**inputs, "pixels": normalise_pixels(inputs["pixels"])}


class CorpusSource(Registered, Source):
    """Training data of one stream."""

    stream: ClassVar[Stream]
    #: stored features of images, of captions and of regions, by teacher
    stored: Mapping[str, FeatureFile] = {}
    stored_captions: Mapping[str, FeatureFile] = {}
    stored_regions: Mapping[str, FeatureFile] = {}
    #: image files of pairs, needed only by teachers without stored features
    pixels: Source | None = None

    @property
    def per_row(self) -> int:
        return 3 if self.stream == "triplets" else 1

    @property
    def phrases(self) -> PhraseSource | None:
        """The phrases of pairs, read only for a method that asks for features of regions; None if
        there are none.
        """
        return None

    @abstractmethod
    def load(self, root: Path | None) -> Sentences | Pairs | Triplets | Media:
        """Load the corpus. Raises MissingData or UserError."""

    def texts(self, root: Path | None) -> Iterator[str]:
        """Yield the texts of the rows, three per triplet. Raises MissingData or UserError."""
        rows = self.load(root)
        if isinstance(rows, Triplets):
            for triplet in zip(rows.premises, rows.entailed, rows.contradicted, strict=True):
                yield from triplet
        elif isinstance(rows, Sentences | Pairs):
            yield from rows.texts

    def expected(self, root: Path | None) -> int | None:
        """The number of texts, as found when the run was planned; None if they are not counted."""
        rows = self.examined(root).rows
        return None if rows is None else rows * self.per_row

    def images_fingerprint(self, root: Path | None) -> str:
        """The fingerprint of the images and their order; the same whichever captions are rows."""
        return self.fingerprint(root)

    def image_ids(self, root: Path | None) -> Sequence[str] | None:
        """The ids of the images of pairs, in order, as other data sets use them; None if there are
        none.
        """
        return None

    def image_contents(self, root: Path | None) -> Sequence[str] | None:
        """Hashes of the bytes of the images of pairs, in order; None if there are no such bytes."""
        return None

    def with_captions(self, which: Literal["one", "all"]) -> CorpusSource:
        """The same corpus with one or all captions of each image as rows; itself if each image has
        one caption.
        """
        return self

    def check_features(self, root: Path | None, teacher: str, of: str = "image") -> int:
        """Check that the images have features of a teacher, stored or to be computed; or the
        regions, or stored ones `of` captions.

        Returns the number of rows of stored features that belong to no image or caption. Raises
        UserError.
        """
        return 0


#: bytes of pictures or recordings up to which all of them are decoded when a run is planned
PLANNED_BYTES = 2**28


def check_positive(option: str, value: int | None) -> None:
    """Raise UserError for a limit below 1."""
    if value is not None and value < 1:
        raise UserError(
            f"{option} = {value} selects no rows; set 1 or more in the profile, or remove the line"
        )
