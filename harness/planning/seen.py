"""What runs are trained on: the rows of their corpora that their steps read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path

import numpy as np

from harness.corpora.base import CorpusSource, Pairs
from harness.corpora.seen import SeenRows, cached_hashes, image_name
from harness.inputs import Stream
from harness.planning.inventory import Ingredient, UsedCorpus


@dataclass(frozen=True)
class RunTraining:
    """What a run was trained on (`harness.evaluation.embed.TrainedOn`); its corpora are hashed at the first question.

    `rows` are the rows read of each text stream, numbered over the stream's corpora in the setting's order.
    """

    corpora: Sequence[UsedCorpus]
    rows: Mapping[Stream, np.ndarray]

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Whether each of n sentences was read: (n,) bool."""
        return self._seen.sentences(texts)

    def images(self, texts: Sequence[str], image_of: np.ndarray, ids: Sequence[str] | None) -> np.ndarray:
        """Whether each of m images was read, from its captions and its id if known: (m,) bool."""
        return self._seen.images(texts, image_of, ids)

    @cached_property
    def _seen(self) -> SeenRows:
        found: list[CorpusRows] = []
        for stream, rows in self.rows.items():
            start = 0
            for corpus in self.corpora:
                if corpus.stream == stream:
                    whole = CorpusRows.of(corpus.read)
                    inside = rows[(rows >= start) & (rows < start + len(whole))] - start
                    found.append(whole if len(inside) == len(whole) else CorpusRows.of(corpus.read, inside))
                    start += len(whole)
        return seen_rows(found)


@dataclass(frozen=True)
class CorpusRows:
    """Rows of one text corpus: hashes of their texts, (n, texts per row) uint64, and the names of their images.

    `names` are None for a corpus that names no images, and for rows whose images' names are not known.
    """

    stream: Stream
    hashes: np.ndarray
    names: frozenset[str] | None

    def __len__(self) -> int:
        return len(self.hashes)

    @classmethod
    def of(cls, corpus: Ingredient[CorpusSource], rows: np.ndarray | None = None) -> CorpusRows:
        """Some rows, (n,), or all. Raises MissingData or UserError."""
        source, root = corpus.source, corpus.root
        hashes = cached_hashes(corpus.fingerprint, lambda: source.texts(root)).reshape(-1, source.per_row)
        names = _names(source, root, rows) if source.stream == "pairs" else None
        return cls(source.stream, hashes if rows is None else hashes[rows], names)


def seen_rows(corpora: Iterable[CorpusRows]) -> SeenRows:
    """What rows of several corpora hold together."""
    listed = list(corpora)
    captions = [one for one in listed if one.stream == "pairs"]
    names: frozenset[str] = reduce(frozenset.union, (one.names or frozenset() for one in captions), frozenset())
    unplaced = [one for one in captions if one.names is None]
    return SeenRows(_distinct(listed), _distinct(captions), _distinct(unplaced), names)


def _names(source: CorpusSource, root: Path | None, rows: np.ndarray | None) -> frozenset[str] | None:
    known = source.image_ids(root)
    if known is None:
        return None
    if rows is None:
        return frozenset(map(image_name, known))
    pairs = source.load(root)
    assert isinstance(pairs, Pairs)
    images = np.unique(rows if pairs.image_of is None else pairs.image_of[rows])
    return frozenset(image_name(known[image]) for image in images)


def _distinct(corpora: Sequence[CorpusRows]) -> np.ndarray:
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *(one.hashes.ravel() for one in corpora)]))
