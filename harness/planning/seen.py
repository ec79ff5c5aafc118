"""Training data seen: the rows that a run's steps read, or all of a setting, and whether a text or an
image of a test is among them.

Texts are compared after lower-casing, with every run of characters that are neither letters nor
digits as one blank. A text is kept as 64 bits of a hash, so that a million sentences take 8 MB; the
hashes of a corpus are computed once, in the order of its texts, and kept in the cache folder.

An image is known by its bytes where both sides have them: other pictures may have the same name.
Without bytes it is known by its path, where its corpus has ids. Photographs of Flickr are numbered
alike in Flickr8k and Flickr30k (`1000268201_693b08cb0e.jpg` is `1000268201.jpg`), so that such a
number tells a photograph that was saved again. Where a corpus names no images, an image counts as
read if one of its captions was.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unicodedata import unidata_version

import numpy as np

from harness.caches import in_cache
from harness.corpora.base import CorpusSource, Pairs
from harness.datafiles import normalised_text
from harness.files import kept_files, write_bytes
from harness.planning.ingredients import Ingredient
from harness.sources import digest, reading_code
from harness.spec import Stream

#: version of the hashes
VERSION = 3
#: the hash of a text without letters and digits; such a text never counts as seen
EMPTY = 0

_EXTENSION = re.compile(r"\.(jpe?g|png)$", re.IGNORECASE)
_FLICKR = re.compile(r"(\d+)_[0-9a-f]{10}")


def text_hashes(texts: Iterable[str]) -> np.ndarray:
    """Hash n texts by their words: (n,) uint64, `EMPTY` for a text without any."""
    return np.fromiter(map(_hash, texts), np.uint64)


def cached_hashes(content: str, texts: Callable[[], Iterable[str]]) -> np.ndarray:
    """The hashes of a corpus in the order of its texts, (n,) uint64, mapped from the cache.

    `content` is the fingerprint of the corpus; `texts` is called if they are not cached.
    """
    name = f"{digest('seen', VERSION, reading_code(), unidata_version, content)}.npy"

    def found(folder: Path) -> np.ndarray:
        path = folder / name

        def make() -> dict[str, str]:
            buffer = io.BytesIO()
            np.save(buffer, text_hashes(texts()))
            write_bytes(path, buffer.getvalue())
            return {}

        kept_files(path.with_suffix(".json"), {"sha256": path}, "it will be computed again", make)
        return np.asarray(np.load(path, mmap_mode="r"))

    return in_cache("seen", found)


def image_name(image_id: str) -> str:
    """The id of an image without the extension of its file; of a file of Flickr, the photograph's
    number.
    """
    stem = _EXTENSION.sub("", image_id)
    numbered = _FLICKR.fullmatch(stem)
    return numbered[1] if numbered else stem


@dataclass(frozen=True)
class NamedImages:
    """Images of a corpus: their names, and hashes of their bytes, None without these.

    `photographs` are the numbers of those with the name of a file of Flickr.
    """

    names: frozenset[str]
    contents: frozenset[str] | None
    photographs: frozenset[str]

    def has(self, image_id: str, content: str | None) -> bool:
        """Whether an image is among them."""
        name = image_name(image_id)
        if content is None or self.contents is None:
            return name in self.names
        is_photograph = name in self.photographs or _is_of_flickr(image_id)
        return content in self.contents or (is_photograph and name in self.names)


def _is_of_flickr(image_id: str) -> bool:
    return bool(_FLICKR.fullmatch(_EXTENSION.sub("", image_id)))


@dataclass(frozen=True)
class SeenRows:
    """What a training read (`harness.evaluation.suites.TrainedOn`); its text corpora are hashed at
    the first query.

    `rows` are the rows read of each text stream, numbered over its corpora in their order; without
    them, all were read.
    """

    corpora: Sequence[Ingredient[CorpusSource]]
    rows: Mapping[Stream, np.ndarray] | None = None

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Whether each of n texts was read: (n,) bool. Raises MissingData or UserError."""
        return among(text_hashes(texts), self._texts)

    def images(
        self,
        texts: Sequence[str],
        image_of: np.ndarray,
        ids: Sequence[str] | None,
        contents: Sequence[str] | None = None,
    ) -> np.ndarray:
        """Whether each of m images was read: (m,) bool. Raises MissingData or UserError.

        `texts` are their n captions and `image_of` the image of each, (n,) below m; `ids`, and the
        hashes of their bytes, are None where unknown.
        """
        if ids is None:
            return np.bincount(image_of, among(text_hashes(texts), self._captions)) > 0

        unnamed, named = self._images
        read = np.bincount(image_of, among(text_hashes(texts), unnamed)) > 0
        hashes: Sequence[str | None] = contents or [None] * len(ids)
        for images in named:
            seen = [
                images.has(image_id, content) for image_id, content in zip(ids, hashes, strict=True)
            ]
            read |= np.array(seen, dtype=bool)
        return read

    @cached_property
    def _texts(self) -> np.ndarray:
        """Hashes of all texts, sorted, (n,)."""
        return _distinct([_rows_of(_hashes(corpus), rows) for corpus, rows in self._parts()])

    @cached_property
    def _captions(self) -> np.ndarray:
        """Hashes of the captions of all pairs, sorted, (n,)."""
        return _distinct([_rows_of(_hashes(corpus), rows) for corpus, rows in self._pairs()])

    @cached_property
    def _images(self) -> tuple[np.ndarray, list[NamedImages]]:
        """Hashes of the captions of unnamed images, sorted, (n,); and the images of each corpus that
        names them.
        """
        unnamed = []
        named = []
        for corpus, rows in self._pairs():
            images = _named_images(corpus.source, corpus.root, rows)
            if images is None:
                unnamed.append(_rows_of(_hashes(corpus), rows))
            else:
                named.append(images)
        return _distinct(unnamed), named

    def _pairs(self) -> Iterator[tuple[Ingredient[CorpusSource], np.ndarray | None]]:
        """The corpora of captioned images among `_parts`."""
        for corpus, rows in self._parts():
            if corpus.source.stream == "pairs":
                yield corpus, rows

    def _parts(self) -> Iterator[tuple[Ingredient[CorpusSource], np.ndarray | None]]:
        """Each corpus with its rows that were read, numbered within it; None for all."""
        start = Counter[Stream]()
        for corpus in self.corpora:
            stream = corpus.source.stream
            if self.rows is None:
                yield corpus, None
            elif stream in self.rows:
                count = len(_hashes(corpus))
                rows = self.rows[stream] - start[stream]
                inside = rows[(rows >= 0) & (rows < count)]
                yield corpus, None if len(inside) == count else inside
                start[stream] += count


def among(hashes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each of n hashes is in the sorted `known`; false for texts without words: (n,) bool."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray((known[places] == hashes) & (hashes != EMPTY))


def _rows_of(hashes: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """The hashes of some rows of a corpus, or of all."""
    return hashes if rows is None else hashes[rows]


def _hash(text: str) -> int:
    words = normalised_text(text)
    return (
        int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little")
        if words
        else EMPTY
    )


def _hashes(corpus: Ingredient[CorpusSource]) -> np.ndarray:
    """The hashes of a text corpus, (rows, texts per row) uint64."""
    source = corpus.source
    root = corpus.root
    return cached_hashes(corpus.fingerprint, lambda: corpus.current().texts(root)).reshape(
        -1, source.per_row
    )


def _named_images(
    source: CorpusSource, root: Path | None, rows: np.ndarray | None
) -> NamedImages | None:
    """The images of some rows of pairs, or of all; None for a corpus that names no images."""
    ids = source.image_ids(root)
    contents = source.image_contents(root)
    if ids is None:
        return None

    numbers = range(len(ids))
    if rows is not None:
        pairs = source.load(root)
        assert isinstance(pairs, Pairs)
        numbers = np.unique(rows if pairs.image_of is None else pairs.image_of[rows]).tolist()
    read = [ids[number] for number in numbers]
    hashes = None if contents is None else frozenset(contents[number] for number in numbers)
    photographs = frozenset(image_name(image_id) for image_id in read if _is_of_flickr(image_id))
    return NamedImages(frozenset(map(image_name, read)), hashes, photographs)


def _distinct(hashes: Sequence[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *(each.ravel() for each in hashes)]))
