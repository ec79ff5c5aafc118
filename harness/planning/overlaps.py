"""Test items that are in a setting's training data, counted before any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.corpora.base import CorpusSource, Pairs
from harness.errors import MissingData, UserError
from harness.evaluation.retrieval import RetrievalSuite, find_seen_images
from harness.evaluation.sts import STSSuite
from harness.evaluation.suites import PairSuite, SentencePair, Suite, list_pairs
from harness.grid import check_setting
from harness.planning.ingredients import Ingredient
from harness.planning.inventory import Inventory
from harness.planning.seen import EMPTY, SeenRows, hash_texts, load_hashes
from harness.setting import find_kept_rows, read_with
from harness.spec import Variant

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


def find_overlaps(
    inventory: Inventory, settings: Sequence[Variant], suites: Sequence[str]
) -> Overlaps:
    """Compare the tests of suites, and the task that selects checkpoints, with the training data of
    settings.

    `suites` default to the profile's STS and retrieval suites that are not opt-in. Raises UserError
    for an unknown name and for a suite of other tasks, and MissingData for a missing corpus.
    """
    suites_by_name = _select_compared_suites(inventory, suites)
    tests = []
    for name, suite in suites_by_name.items():
        tests += [(name, task) for task in suite.tasks]

    pairs: list[PairOverlap] = []
    images: list[ImageOverlap] = []
    skipped: list[str] = []
    for setting in settings:
        data = SettingData(inventory, setting)
        dev_task = inventory.profile.find_dev_task(data.setting.name)
        for suite_name, task in [*tests, (DEV, dev_task)]:
            try:
                if isinstance(suites_by_name.get(suite_name), RetrievalSuite):
                    images.append(data.compare_images(suite_name, task))
                else:
                    pairs += data.compare_pairs(suite_name, task)
            except MissingData as error:
                skipped.append(f"{suite_name}: {task}: {error}")

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
        sources = []
        for name in inventory.profile.settings[self.setting.name].corpora:
            corpus = inventory.corpora[name]
            if corpus.stream in ("sentences", "pairs", "triplets"):
                sources.append(corpus.plain.source)
        if any(find_kept_rows(options, source.stream) for source in sources):
            raise UserError(
                f"each run of '{setting}' draws other rows; audit '{setting.name}', all of them"
            )

        self.corpora = [
            Ingredient(read_with(options, source), inventory.root) for source in sources
        ]
        for ingredient in self.corpora:
            if ingredient.missing:
                raise MissingData("; ".join(map(str, ingredient.missing)))
            ingredient.source.examined(inventory.root)

    @cached_property
    def seen(self) -> SeenRows:
        return SeenRows(self.corpora)

    @cached_property
    def captions(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Hashes of all captions of the training images, drawn or not, and the image of each, (n,).

        None if no corpus has several captions of an image.
        """
        hashes = []
        image_numbers = []
        first_number = 0
        for corpus in self.corpora:
            captions = _hash_all_captions(corpus)
            if captions is None:
                continue

            caption_hashes, image_of = captions
            hashes.append(caption_hashes)
            # images of two corpora never share a number
            image_numbers.append(image_of + first_number)
            first_number += int(image_of.max()) + 1

        if not hashes:
            return None
        return np.concatenate(hashes), np.concatenate(image_numbers)

    def compare_pairs(self, suite: str, task: str) -> Iterator[PairOverlap]:
        """The overlap of a similarity task and, if it has several subsets, of each."""
        source = self.inventory.find_similarity_task(task).source
        subsets = source.load(self.inventory.root)
        yield self._compare_subset(suite, task, "", list_pairs(subsets))
        if len(subsets) > 1:
            for name, pairs in subsets.items():
                yield self._compare_subset(suite, task, name, pairs)

    def compare_images(self, suite: str, task: str) -> ImageOverlap:
        """The overlap of a retrieval task."""
        source = self.inventory.find_retrieval_task(task).source
        seen = find_seen_images(source.load(self.inventory.root), self.seen)
        return ImageOverlap(str(self.setting), suite, task, len(seen), int(seen.sum()))

    def _compare_subset(
        self, suite: str, task: str, subset: str, pairs: Sequence[SentencePair]
    ) -> PairOverlap:
        first, second, gold = zip(*pairs, strict=True)
        first_seen = self.seen.sentences(first)
        second_seen = self.seen.sentences(second)
        overlap = PairOverlap(
            setting=str(self.setting),
            suite=suite,
            task=task,
            subset=subset,
            pairs=len(pairs),
            seen=int((first_seen | second_seen).sum()),
            both_seen=int((first_seen & second_seen).sum()),
            one_image=None,
            gold_one_image=None,
            gold_other_images=None,
        )
        if self.captions is None:
            return overlap

        are_captions, share_an_image = _compare_with_captions(
            *self.captions, hash_texts(first), hash_texts(second)
        )
        scores = np.array(gold, dtype=np.float64)
        return replace(
            overlap,
            one_image=int(share_an_image.sum()),
            gold_one_image=_find_mean(scores[share_an_image]),
            gold_other_images=_find_mean(scores[are_captions & ~share_an_image]),
        )


def _compare_with_captions(
    hashes: np.ndarray, image_of: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether both texts of n pairs are captions, and whether both are of one image: (n,) bool
    each.
    """
    is_in_pair = np.isin(hashes, np.concatenate([first, second])) & (hashes != EMPTY)
    images: dict[int, set[int]] = {}
    for text, image in zip(hashes[is_in_pair].tolist(), image_of[is_in_pair].tolist(), strict=True):
        images.setdefault(text, set()).add(image)

    are_captions = []
    share_an_image = []
    for first_text, second_text in zip(first.tolist(), second.tolist(), strict=True):
        first_images = images.get(first_text, set())
        second_images = images.get(second_text, set())
        are_captions.append(bool(first_images and second_images))
        share_an_image.append(bool(first_images & second_images))
    return np.array(are_captions, dtype=bool), np.array(share_an_image, dtype=bool)


def _select_compared_suites(
    inventory: Inventory, suite_names: Sequence[str]
) -> Mapping[str, Suite]:
    if not suite_names:
        kinds = (STSSuite, RetrievalSuite)
        return {
            name: suite
            for name, suite in inventory.suites.items()
            if isinstance(suite, kinds) and not inventory.profile.suites[name].asked
        }

    suites = {name: inventory.find_suite(name) for name in suite_names}
    for name, suite in suites.items():
        if not isinstance(suite, PairSuite | RetrievalSuite):
            raise UserError(
                f"the suite '{name}' has neither pairs of sentences nor captioned images; name another"
            )
    return suites


def _hash_all_captions(corpus: Ingredient[CorpusSource]) -> tuple[np.ndarray, np.ndarray] | None:
    """The hashes and images of all captions of a pair corpus; None unless images have several
    captions.
    """
    if corpus.source.stream != "pairs":
        return None

    root = corpus.root
    source = corpus.source.with_captions("all")
    if source.missing(root):
        return None

    pairs = source.load(root)
    assert isinstance(pairs, Pairs)
    if pairs.image_of is None or len(pairs) == pairs.image_count:
        return None
    hashes = load_hashes(
        source.fingerprint(root), lambda: corpus.current().with_captions("all").texts(root)
    )
    return hashes, pairs.image_of


def _find_mean(scores: np.ndarray) -> float | None:
    return float(scores.mean()) if len(scores) else None
