"""Evaluation tasks of the toy world, which need no downloads: similarity, retrieval, and tasks of
mteb.

A similarity task has pairs of descriptions, scored by the attributes that their scenes share, in
subsets by genre. Synonyms and templates are drawn independently: good scores require knowing which
words mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpora.retrieval import CaptionedImages
from harness.evaluation.suites import SentencePair, Subsets
from harness.seeds import generator
from harness.sources import Generated, digest
from harness.toy.corpora import ToyPairs, cached_hash
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
        return cached_hash(["similarity", self.name, self.sizes], lambda: digest(self.load(root)))

    def load(self, root: Path | None) -> Subsets:
        return {subset: self._pairs(subset, size) for subset, size in self.sizes.items()}

    def _pairs(self, subset: str, size: int) -> list[SentencePair]:
        rng = generator(world="toy", part="similarity", task=self.name, subset=subset)
        first, second, gold = related_scenes(rng, size)
        genres = [np.full(size, GENRES.index(genre)) for genre in SUBSETS[subset]]
        texts = [
            describe(scenes, rng, genre)
            for scenes, genre in zip((first, second), genres, strict=True)
        ]
        return list(zip(*texts, gold.tolist(), strict=True))


def related_scenes(
    rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw pairs of scenes, (count, attributes) each, with gold scores, (count,).

    The number of shared attributes is uniform from none to all, and so is the choice of them. The
    score is five times the fraction of shared attributes, rounded to two decimals.
    """
    first = draw_scenes(rng, count)
    ranks = rng.permuted(np.tile(np.arange(len(ATTRIBUTES)), (count, 1)), axis=1)
    differ = ranks >= rng.integers(0, len(ATTRIBUTES) + 1, size=(count, 1))
    second = np.where(differ, (first + rng.integers(1, SIZES, size=first.shape)) % SIZES, first)
    return first, second, np.round(5 * (first == second).mean(axis=1), 2)


class ToyRetrieval(Generated):
    """Pictures of the toy world's test split, each with a caption that describes no other picture."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.pairs = name, ToyPairs(split="test", size=size)

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


def _similarity() -> dict[str, Any]:
    return {"pairs": [pair for subset in TOY_STS.load(None).values() for pair in subset]}


def _classification() -> dict[str, Any]:
    """400 descriptions per split, labelled with the colour of their scene."""
    colours = list(LEXICON["colour"])
    data = {}
    for split in ("train", "test"):
        rng = generator(world="toy", part="mteb classification", split=split)
        scenes = draw_scenes(rng, 400)
        labels = [colours[number] for number in scenes[:, ATTRIBUTES.index("colour")]]
        data[split] = list(zip(labels, describe(scenes, rng), strict=True))
    return data


def _retrieval() -> dict[str, Any]:
    """Three descriptions of each of 200 scenes as documents, a fourth one as the query."""
    rng = generator(world="toy", part="mteb retrieval")
    scenes = draw_distinct_scenes(rng, 200)
    names = [f"{scene}-{copy}" for copy in range(3) for scene in range(len(scenes))]
    return {
        "corpus": dict(zip(names, describe(np.tile(scenes, (3, 1)), rng), strict=True)),
        "queries": {str(scene): text for scene, text in enumerate(describe(scenes, rng))},
        "relevant": {
            str(scene): {f"{scene}-{copy}": 1 for copy in range(3)} for scene in range(len(scenes))
        },
    }


def _reranking() -> dict[str, Any]:
    """The data of retrieval; candidates are the three relevant documents and those of the next four
    scenes.
    """
    data = _retrieval()
    scenes = len(data["queries"])
    data["candidates"] = {
        str(scene): [f"{(scene + step) % scenes}-{copy}" for step in range(5) for copy in range(3)]
        for scene in range(scenes)
    }
    return data


TOY_STS_TASK = ToyTask("STS", _similarity)
TOY_CLASSIFICATION = ToyTask("Classification", _classification)
TOY_RETRIEVAL = ToyRetrieval("ToyRetrieval", 1000)
TOY_MTEB_RETRIEVAL = ToyTask("Retrieval", _retrieval)
TOY_RERANKING = ToyTask("Reranking", _reranking)
