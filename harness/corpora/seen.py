"""The texts and images that a training has read, by their words and names.

Texts are compared after lower-casing, with every run of characters that are neither letters nor digits as one blank. A
text is kept as 64 bits of a hash, so that a million sentences take 8 MB; the hashes of a corpus are computed once, in
the order of its texts, and kept in the cache folder.

An image is known by its id where its corpus has ids. Photographs of Flickr are numbered alike in Flickr8k and
Flickr30k (`1000268201_693b08cb0e.jpg` is `1000268201.jpg`). Where a corpus names no images, an image counts as read if
one of its captions was.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.caches import in_cache
from harness.files import kept_files, write_bytes
from harness.sources import digest
from harness.textfiles import normalised_text

#: version of the hashes
VERSION = 2
#: the hash of a text without letters and digits, which counts as read by no training
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
    name = f"{digest('seen', VERSION, content)}.npy"

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
    """The id of an image without the extension of its file; of a file of Flickr, the photograph's number."""
    stem = _EXTENSION.sub("", image_id)
    numbered = _FLICKR.fullmatch(stem)
    return numbered[1] if numbered else stem


@dataclass(frozen=True)
class SeenRows:
    """The rows that a training read (`harness.evaluation.embed.TrainedOn`).

    `texts` are hashes of all texts, `captions` of the captions, and `unplaced` of the captions of images whose ids are
    not known: sorted, (n,) uint64 each. `names` are those of the other images.
    """

    texts: np.ndarray
    captions: np.ndarray
    unplaced: np.ndarray
    names: frozenset[str] = frozenset()

    def sentences(self, texts: Sequence[str]) -> np.ndarray:
        """Whether each of n texts was read: (n,) bool."""
        return among(text_hashes(texts), self.texts)

    def images(self, texts: Sequence[str], image_of: np.ndarray, ids: Sequence[str] | None) -> np.ndarray:
        """Whether each of m images was read: (m,) bool.

        `texts` are their n captions and `image_of` the image of each, (n,) below m; `ids` are None where unknown.
        """
        by_text = self.captions if ids is None else self.unplaced
        found = np.bincount(image_of, among(text_hashes(texts), by_text)) > 0
        return found if ids is None else found | np.array([image_name(one) in self.names for one in ids], dtype=bool)


def among(hashes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each of n hashes is among the sorted ones, and not that of a text without words: (n,) bool."""
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray((known[places] == hashes) & (hashes != EMPTY))


def _hash(text: str) -> int:
    words = normalised_text(text)
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little") if words else EMPTY
