"""Pairs with the fingerprints that features of them are kept by, and what computing features depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.corpora.base import Pairs
from harness.errors import UserError
from harness.inputs import FeatureKind
from harness.planning.events import Stage
from harness.planning.inventory import UsedCorpus


@dataclass(frozen=True)
class KnownPairs:
    """Pairs with the fingerprints of their images and captions, and of their stored features by teacher."""

    pairs: Pairs
    images: str
    captions: str
    stored: Mapping[str, str]

    @classmethod
    def of_corpus(cls, corpus: UsedCorpus) -> KnownPairs:
        """Load a pair corpus. Raises MissingData or UserError."""
        read = corpus.read
        loaded = read.source.load(read.root)
        if not isinstance(loaded, Pairs):
            raise UserError(f"the corpus '{corpus.name}' has no image-caption pairs, but teacher features need them")
        stored = {teacher: file.fingerprint for teacher, file in corpus.stored.items()}
        return cls(loaded, read.source.images_fingerprint(read.root), read.fingerprint, stored)

    @classmethod
    def of_content(cls, pairs: Pairs, content: str) -> KnownPairs:
        """Pairs of no corpus, whose whole content has one fingerprint."""
        return cls(pairs, content, content, dict.fromkeys(pairs.features, content))

    def rows(self, of: FeatureKind) -> int:
        """The number of images, or of captions."""
        return self.pairs.image_count if of == "image" else len(self.pairs)


@dataclass(frozen=True)
class FeatureContext:
    """For which student, a model folder, the features of one run are computed, and where.

    `max_length` is the number of tokens that teachers of captions read, special ones included. `trained` returns the
    model folder of a run that is a teacher, by its fingerprint; the run is trained first if it has to be.
    """

    student: Path
    max_length: int
    device: str
    trained: Callable[[str], Path]
    listen: Callable[[Stage], None]
