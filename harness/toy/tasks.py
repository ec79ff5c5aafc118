"""Evaluation tasks of the toy world, which need no downloads: similarity, retrieval, and tasks of
mteb.

A similarity task has pairs of descriptions, scored by the attributes that their scenes share, in
subsets by genre. Synonyms and templates are drawn independently: good scores require knowing which
words mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpora.retrieval import CaptionedImages
from harness.evaluation.suites import SentencePair, Subsets, list_pairs
from harness.seeds import make_generator
from harness.sources import Generated, digest
from harness.toy.corpora import ToyPairs, hash_generated
from harness.toy.world import (
    ATTRIBUTES,
    GENRES,
    LEXICON,
    SIZES,
    describe,
    draw_distinct_scenes,
    draw_scenes,
)

#: subset -> genres of the first and second sentence
SUBSETS = {
    "phrases": ("phrases", "phrases"),
    "statements": ("statements", "statements"),
    "mixed": GENRES,
}


class ToySimilarity(Generated):
    """A similarity task of the toy world."""

    def __init__(self, name: str, sizes: dict[str, int]) -> None:
        self.name = name
        self.sizes = sizes

    def fingerprint(self, root: Path | None) -> str:
        return hash_generated(
            ["similarity", self.name, self.sizes], lambda: digest(self.load(root))
        )

    def load(self, root: Path | None) -> Subsets:
        return {subset: self._make_pairs(subset, size) for subset, size in self.sizes.items()}

    def _make_pairs(self, subset: str, size: int) -> list[SentencePair]:
        rng = make_generator(world="toy", part="similarity", task=self.name, subset=subset)
        first_scenes, second_scenes, gold = draw_related_scenes(rng, size)
        first_genre, second_genre = (GENRES.index(genre) for genre in SUBSETS[subset])
        first = describe(first_scenes, rng, np.full(size, first_genre))
        second = describe(second_scenes, rng, np.full(size, second_genre))
        return list(zip(first, second, gold.tolist(), strict=True))


def draw_related_scenes(
    rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw pairs of scenes, (count, attributes) each, with gold scores, (count,).

    The number of shared attributes is uniform from none to all, and so is the choice of them. The
    score is five times the fraction of shared attributes, rounded to two decimals.
    """
    first = draw_scenes(rng, count)
    ranks = rng.permuted(np.tile(np.arange(len(ATTRIBUTES)), (count, 1)), axis=1)
    shared = rng.integers(0, len(ATTRIBUTES) + 1, size=(count, 1))
    # a step that is no multiple of the number of values gives another value
    steps = rng.integers(1, SIZES, size=first.shape)
    second = np.where(ranks < shared, first, (first + steps) % SIZES)

    gold = 5 * (first == second).mean(axis=1)
    return first, second, np.round(gold, 2)


class ToyRetrieval(Generated):
    """Pictures of the toy world's test split, each with a caption that describes no other picture."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.pairs = ToyPairs(split="test", size=size)

    def fingerprint(self, root: Path | None) -> str:
        return self.pairs.fingerprint(root)

    def load(self, root: Path | None) -> CaptionedImages:
        pairs = self.pairs.load(root)
        ids = self.pairs.image_ids(root)
        return CaptionedImages(list(pairs.texts), np.arange(len(pairs)), pairs, ids)


TOY_STS = ToySimilarity("ToySTS", {"phrases": 300, "statements": 300, "mixed": 400})
TOY_STS_DEV = ToySimilarity("ToySTS-dev", {"phrases": 150, "statements": 150, "mixed": 200})


class ToyTask(Generated):
    """A generated MTEB task, with data in the form of `harness.evaluation.mteb_local.OfflineTask`."""

    language = "eng-Latn"
    settings: Mapping[str, Any] = {}

    def __init__(self, kind: str, generate: Callable[[], dict[str, Any]]) -> None:
        self.name = f"ToyMTEB-{kind}"
        self.type = kind
        self._generate = generate

    def fingerprint(self, root: Path | None) -> str:
        return digest(self.load(root))

    def load(self, root: Path | None) -> dict[str, Any]:
        return self._generate()


def _make_similarity() -> dict[str, Any]:
    return {"pairs": list_pairs(TOY_STS.load(None))}


def _make_classification() -> dict[str, Any]:
    """400 descriptions per split, labelled with the colour of their scene."""
    colours = list(LEXICON["colour"])
    data = {}
    for split in ("train", "test"):
        rng = make_generator(world="toy", part="mteb classification", split=split)
        scenes = draw_scenes(rng, 400)
        labels = [colours[number] for number in scenes[:, ATTRIBUTES.index("colour")]]
        data[split] = list(zip(labels, describe(scenes, rng), strict=True))
    return data


def _make_retrieval() -> dict[str, Any]:
    """Three descriptions of each of 200 scenes as documents, a fourth one as the query."""
    rng = make_generator(world="toy", part="mteb retrieval")
    scenes = draw_distinct_scenes(rng, 200)
    documents = iter(describe(np.tile(scenes, (3, 1)), rng))
    corpus = {}
    for copy in range(3):
        for scene in range(len(scenes)):
            corpus[f"{scene}-{copy}"] = next(documents)

    queries = {}
    relevant = {}
    for scene, text in enumerate(describe(scenes, rng)):
        queries[str(scene)] = text
        relevant[str(scene)] = dict.fromkeys(_list_documents(scene), 1)
    return {"corpus": corpus, "queries": queries, "relevant": relevant}


def _list_documents(scene: int) -> list[str]:
    """The ids of the descriptions of a scene."""
    return [f"{scene}-{copy}" for copy in range(3)]


def _make_reranking() -> dict[str, Any]:
    """The data of retrieval; candidates are the three relevant documents and those of the next four
    scenes.
    """
    data = _make_retrieval()
    scenes = len(data["queries"])
    candidates = {}
    for scene in range(scenes):
        documents = [_list_documents((scene + step) % scenes) for step in range(5)]
        candidates[str(scene)] = list(chain.from_iterable(documents))
    return data | {"candidates": candidates}


TOY_STS_TASK = ToyTask("STS", _make_similarity)
TOY_CLASSIFICATION = ToyTask("Classification", _make_classification)
TOY_RETRIEVAL = ToyRetrieval("ToyRetrieval", 1000)
TOY_MTEB_RETRIEVAL = ToyTask("Retrieval", _make_retrieval)
TOY_RERANKING = ToyTask("Reranking", _make_reranking)
