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

from harness.caches import make_in_cache
from harness.corpora.base import CorpusSource, Pairs
from harness.files import keep_files, write_bytes
from harness.planning.ingredients import Ingredient
from harness.remarks import normalise_text
from harness.sources import digest, hash_reading_code
from harness.spec import Stream

#: version of the hashes
VERSION = 3
#: the hash of a text without letters and digits; such a text never counts as seen
EMPTY = 0

_EXTENSION = re.compile(r"\.(jpe?g|png)$", re.IGNORECASE)
_FLICKR = re.compile(r"(\d+)_[0-9a-f]{10}")


def hash_texts(texts: Iterable[str]) -> np.ndarray:
    """Hash n texts by their words: (n,) uint64, `EMPTY` for a text without any."""
    return np.fromiter(map(_hash_text, texts), np.uint64)


def load_hashes(content: str, texts: Callable[[], Iterable[str]]) -> np.ndarray:
    """The hashes of a corpus in the order of its texts, (n,) uint64, mapped from the cache.

    `content` is the fingerprint of the corpus; `texts` is called if they are not cached.
    """
    name = f"{digest('seen', VERSION, hash_reading_code(), unidata_version, content)}.npy"

    def load_from(folder: Path) -> np.ndarray:
        path = folder / name

        def make() -> dict[str, str]:
            buffer = io.BytesIO()
            np.save(buffer, hash_texts(texts()))
            write_bytes(path, buffer.getvalue())
            return {}

        keep_files(path.with_suffix(".json"), {"sha256": path}, "it will be computed again", make)
        return np.asarray(np.load(path, mmap_mode="r"))

    return make_in_cache("seen", load_from)


def name_image(image_id: str) -> str:
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
        name = name_image(image_id)
        if content is None or self.contents is None:
            return name in self.names
        if content in self.contents:
            return True
        # a photograph of Flickr that was saved again has other bytes and the same number
        is_photograph = name in self.photographs or _is_of_flickr(image_id)
        return is_photograph and name in self.names


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
        return is_among(hash_texts(texts), self._text_hashes)

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
        hashes = hash_texts(texts)
        if ids is None:
            return np.bincount(image_of, is_among(hashes, self._caption_hashes)) > 0

        unnamed_captions, named = self._images
        read = np.bincount(image_of, is_among(hashes, unnamed_captions)) > 0
        contents_or_none: Sequence[str | None] = contents or [None] * len(ids)
        for images in named:
            seen = [
                images.has(image_id, content)
                for image_id, content in zip(ids, contents_or_none, strict=True)
            ]
            read |= np.array(seen, dtype=bool)
        return read

    @cached_property
    def _text_hashes(self) -> np.ndarray:
        """Hashes of all texts, sorted, (n,)."""
        return _merge_hashes(
            [_hash_rows(corpus, rows) for corpus, rows in self._list_read_corpora()]
        )

    @cached_property
    def _caption_hashes(self) -> np.ndarray:
        """Hashes of the captions of all pairs, sorted, (n,)."""
        return _merge_hashes([_hash_rows(corpus, rows) for corpus, rows in self._list_read_pairs()])

    @cached_property
    def _images(self) -> tuple[np.ndarray, list[NamedImages]]:
        """Hashes of the captions of unnamed images, sorted, (n,); and the images of each corpus that
        names them.
        """
        unnamed = []
        named = []
        for corpus, rows in self._list_read_pairs():
            images = _find_named_images(corpus.source, corpus.root, rows)
            if images is None:
                unnamed.append(_hash_rows(corpus, rows))
            else:
                named.append(images)
        return _merge_hashes(unnamed), named

    def _list_read_pairs(self) -> Iterator[tuple[Ingredient[CorpusSource], np.ndarray | None]]:
        """The corpora of captioned images among `_list_read_corpora`."""
        for corpus, rows in self._list_read_corpora():
            if corpus.source.stream == "pairs":
                yield corpus, rows

    def _list_read_corpora(self) -> Iterator[tuple[Ingredient[CorpusSource], np.ndarray | None]]:
        """Each corpus with its rows that were read, numbered within it; None for all."""
        first_row = Counter[Stream]()
        for corpus in self.corpora:
            stream = corpus.source.stream
            if self.rows is None:
                yield corpus, None
                continue
            if stream not in self.rows:
                continue

            row_count = len(_hash_corpus(corpus))
            rows = self.rows[stream] - first_row[stream]
            rows = rows[(rows >= 0) & (rows < row_count)]
            yield corpus, None if len(rows) == row_count else rows
            first_row[stream] += row_count


def is_among(hashes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each of n hashes is in the sorted `known`; false for texts without words: (n,) bool."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray((known[places] == hashes) & (hashes != EMPTY))


def _hash_text(text: str) -> int:
    words = normalise_text(text)
    if not words:
        return EMPTY
    hashed = hashlib.blake2b(words.encode(), digest_size=8)
    return int.from_bytes(hashed.digest(), "little")


def _hash_corpus(corpus: Ingredient[CorpusSource]) -> np.ndarray:
    """The hashes of a text corpus, (rows, texts per row) uint64."""
    hashes = load_hashes(corpus.fingerprint, lambda: corpus.current().texts(corpus.root))
    return hashes.reshape(-1, corpus.source.per_row)


def _hash_rows(corpus: Ingredient[CorpusSource], rows: np.ndarray | None) -> np.ndarray:
    """The hashes of some rows of a corpus, or of all."""
    hashes = _hash_corpus(corpus)
    return hashes if rows is None else hashes[rows]


def _find_named_images(
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

    read_ids = [ids[number] for number in numbers]
    read_contents = None
    if contents is not None:
        read_contents = frozenset(contents[number] for number in numbers)
    photographs = frozenset(
        name_image(image_id) for image_id in read_ids if _is_of_flickr(image_id)
    )
    return NamedImages(frozenset(map(name_image, read_ids)), read_contents, photographs)


def _merge_hashes(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The distinct hashes of arrays of any shape, sorted, (n,)."""
    empty = np.zeros(0, np.uint64)  # there may be no part
    return np.unique(np.concatenate([empty, *(part.ravel() for part in parts)]))
