"""Pairs with the fingerprints of their contents, which features of them are kept by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.corpora.base import Pairs
from harness.errors import UserError
from harness.execution.inventory import UsedCorpus
from harness.inputs import FeatureKind


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
            raise UserError(f"the corpus '{corpus.name}' has no image-caption pairs, which teacher features need")
        stored = {teacher: file.fingerprint for teacher, file in corpus.stored.items()}
        return cls(loaded, read.source.images_fingerprint(read.root), read.fingerprint, stored)

    @classmethod
    def of_content(cls, pairs: Pairs, content: str) -> KnownPairs:
        """Pairs of no corpus, whose whole content has one fingerprint."""
        return cls(pairs, content, content, dict.fromkeys(pairs.features, content))

    def rows(self, of: FeatureKind) -> int:
        """The number of images, or of captions."""
        return self.pairs.image_count if of == "image" else len(self.pairs)
