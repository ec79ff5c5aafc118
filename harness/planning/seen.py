"""Training data seen: the rows that a run's steps read, and the test items that are in a setting's
training data.

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
from harness.errors import MissingData, UserError
from harness.evaluation.retrieval import RetrievalSuite, seen_images
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import PairSuite, SentencePair, Suite, pairs_of
from harness.files import kept_files, write_bytes
from harness.grid import check_setting
from harness.planning.inventory import Ingredient, Inventory
from harness.setting import kept_rows, read_with
from harness.sources import digest, reading_code
from harness.spec import Stream, Variant

#: version of the hashes
VERSION = 2
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
        read, _, _, _ = self._hashed
        return among(text_hashes(texts), read)

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
        _, captions, unplaced, named = self._hashed
        known = captions if ids is None else unplaced
        read = np.bincount(image_of, among(text_hashes(texts), known)) > 0
        if ids is None:
            return read

        hashes: Sequence[str | None] = contents or [None] * len(ids)
        for images in named:
            seen = [
                images.has(image_id, content) for image_id, content in zip(ids, hashes, strict=True)
            ]
            read |= np.array(seen, dtype=bool)
        return read

    @cached_property
    def _hashed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[NamedImages]]:
        """Hashes of all texts, of captions, and of captions of unnamed images, sorted, (n,); and
        the images of each corpus that names them.
        """
        texts = []
        captions = []
        unplaced = []
        named = []
        for corpus, rows in self._parts():
            hashes = _hashes(corpus) if rows is None else _hashes(corpus)[rows]
            texts.append(hashes)
            if corpus.source.stream == "pairs":
                captions.append(hashes)
                images = _named_images(corpus.source, corpus.root, rows)
                if images is None:
                    unplaced.append(hashes)
                else:
                    named.append(images)
        return _distinct(texts), _distinct(captions), _distinct(unplaced), named

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


#: Stands in place of a suite's name for the task that selects checkpoints.
DEV = "dev"


@dataclass(frozen=True)
class PairOverlap:
    """The pairs of one similarity task, or of one of its subsets, compared with the training data
    of a setting.

    `seen` counts pairs with a sentence in the training data, `both_seen` pairs with two.
    `one_image` counts pairs of captions of one training image; `gold_one_image` and
    `gold_other_images` are the mean gold scores of these pairs and of pairs of captions of
    different training images. These three are None if no corpus has several captions of an image, a
    gold score also if there are no such pairs.
    """

    setting: str
    suite: str
    task: str
    subset: str
    pairs: int
    seen: int
    both_seen: int
    one_image: int | None
    gold_one_image: float | None
    gold_other_images: float | None


@dataclass(frozen=True)
class ImageOverlap:
    """The images of one retrieval task, and how many of them are training images of a setting."""

    setting: str
    suite: str
    task: str
    images: int
    seen: int


@dataclass(frozen=True)
class Overlaps:
    """Tables of overlaps; `skipped` has a line for each task whose data are missing."""

    pairs: tuple[PairOverlap, ...]
    images: tuple[ImageOverlap, ...]
    skipped: tuple[str, ...]


def overlaps_of(
    inventory: Inventory, settings: Sequence[Variant], suites: Sequence[str]
) -> Overlaps:
    """Compare the tests of suites, and the task that selects checkpoints, with the training data of
    settings.

    `suites` default to the profile's STS and retrieval suites that are not opt-in. Raises UserError
    for an unknown name and for a suite of other tasks, and MissingData for a missing corpus.
    """
    named = _suites(inventory, suites)
    pairs: list[PairOverlap] = []
    images: list[ImageOverlap] = []
    skipped: list[str] = []
    for setting in settings:
        data = SettingData(inventory, setting)
        dev = inventory.profile.dev_of(data.setting.name)
        tasks = [(name, task) for name, suite in named.items() for task in suite.tasks]
        for suite, task in [*tasks, (DEV, dev)]:
            try:
                if isinstance(named.get(suite), RetrievalSuite):
                    images.append(data.image_overlap(suite, task))
                else:
                    pairs += data.pair_overlaps(suite, task)
            except MissingData as error:
                skipped.append(f"{suite}: {task}: {error}")
    return Overlaps(tuple(pairs), tuple(images), tuple(dict.fromkeys(skipped)))


class SettingData:
    """The text corpora of a setting."""

    def __init__(self, inventory: Inventory, setting: Variant) -> None:
        """Raises MissingData, and UserError for an unknown setting or an option whose rows depend
        on the seed.
        """
        self.inventory = inventory
        self.setting = setting
        options = check_setting(inventory.profile, self.setting)
        plain = [
            inventory.corpora[name]
            for name in inventory.profile.settings[self.setting.name].corpora
        ]
        texts = [
            corpus.plain.source
            for corpus in plain
            if corpus.stream in ("sentences", "pairs", "triplets")
        ]
        if any(kept_rows(options, source.stream) for source in texts):
            raise UserError(
                f"each run of '{setting}' draws other rows; audit '{setting.name}', all of them"
            )
        self.corpora = [Ingredient(read_with(options, source), inventory.root) for source in texts]
        for corpus in self.corpora:
            if corpus.missing:
                raise MissingData("; ".join(map(str, corpus.missing)))
            corpus.source.examined(inventory.root)

    @cached_property
    def seen(self) -> SeenRows:
        return SeenRows(self.corpora)

    @cached_property
    def captions(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Hashes of all captions of the training images, drawn or not, and the image of each, (n,).

        None if no corpus has several captions of an image.
        """
        captioned = [each for corpus in self.corpora if (each := _all_captions(corpus)) is not None]
        starts = np.cumsum([0, *(int(image_of.max()) + 1 for _, image_of in captioned)])
        numbered = [
            image_of + start for (_, image_of), start in zip(captioned, starts[:-1], strict=True)
        ]
        return (
            (np.concatenate([texts for texts, _ in captioned]), np.concatenate(numbered))
            if captioned
            else None
        )

    def pair_overlaps(self, suite: str, task: str) -> Iterator[PairOverlap]:
        """The overlap of a similarity task and, if it has several subsets, of each."""
        subsets = self.inventory.dev(task).source.load(self.inventory.root)
        yield self._pairs(suite, task, "", pairs_of(subsets))
        if len(subsets) > 1:
            yield from (self._pairs(suite, task, name, pairs) for name, pairs in subsets.items())

    def image_overlap(self, suite: str, task: str) -> ImageOverlap:
        data = self.inventory.retrieval_task(task).source.load(self.inventory.root)
        seen = seen_images(data, self.seen)
        return ImageOverlap(str(self.setting), suite, task, len(seen), int(seen.sum()))

    def _pairs(
        self, suite: str, task: str, subset: str, pairs: Sequence[SentencePair]
    ) -> PairOverlap:
        first, second, gold = zip(*pairs, strict=True)
        seen = self.seen.sentences(first), self.seen.sentences(second)
        counts = (len(pairs), int((seen[0] | seen[1]).sum()), int((seen[0] & seen[1]).sum()))
        names = (str(self.setting), suite, task, subset)
        if self.captions is None:
            return PairOverlap(*names, *counts, None, None, None)
        captions, one_image = _of_images(*self.captions, text_hashes(first), text_hashes(second))
        scores = np.array(gold, dtype=np.float64)
        means = (_mean(scores[one_image]), _mean(scores[captions & ~one_image]))
        return PairOverlap(*names, *counts, int(one_image.sum()), *means)


def _of_images(
    hashes: np.ndarray, image_of: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether both texts of n pairs are captions, and whether both are of one image: (n,) bool
    each.
    """
    asked = np.isin(hashes, np.concatenate([first, second])) & (hashes != EMPTY)
    images: dict[int, set[int]] = {}
    for text, image in zip(hashes[asked].tolist(), image_of[asked].tolist(), strict=True):
        images.setdefault(text, set()).add(image)
    sides = [[images.get(text, set()) for text in side.tolist()] for side in (first, second)]
    both = list(zip(*sides, strict=True))
    return np.array([bool(a and b) for a, b in both]), np.array([bool(a & b) for a, b in both])


def _suites(inventory: Inventory, asked: Sequence[str]) -> Mapping[str, Suite]:
    known = inventory.suites
    tables = inventory.profile.suites
    if not asked:
        kinds = (STSSuite, RetrievalSuite)
        return {
            name: suite
            for name, suite in known.items()
            if isinstance(suite, kinds) and not tables[name].asked
        }
    suites = {name: inventory.suite(name) for name in asked}
    for name, suite in suites.items():
        if not isinstance(suite, PairSuite | RetrievalSuite):
            raise UserError(
                f"the suite '{name}' has neither pairs of sentences nor captioned images; name another"
            )
    return suites


def _all_captions(corpus: Ingredient[CorpusSource]) -> tuple[np.ndarray, np.ndarray] | None:
    """The hashes and images of all captions of a pair corpus; None unless images have several
    captions.
    """
    if corpus.source.stream != "pairs":
        return None
    source = corpus.source.with_captions("all")
    root = corpus.root
    if source.missing(root):
        return None
    loaded = source.load(root)
    assert isinstance(loaded, Pairs)
    if loaded.image_of is None or len(loaded) == loaded.image_count:
        return None
    return cached_hashes(
        source.fingerprint(root), lambda: corpus.current().texts(root)
    ), loaded.image_of


def _mean(scores: np.ndarray) -> float | None:
    return float(scores.mean()) if len(scores) else None
