"""The world's tasks for mteb: plain data of each type of task, so that the whole path is tested with no hub."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpora.toy.grammar import describe
from harness.corpora.toy.scenes import ATTRIBUTES, LEXICON, draw_distinct_scenes, draw_scenes
from harness.corpora.toy.similarity import TOY_STS
from harness.seeds import generator
from harness.sources import Missing, Source, digest


class ToyTask(Source):
    """A generated task for mteb."""

    language = "eng-Latn"
    settings: Mapping[str, Any] = {}
    name: str
    type: str

    def missing(self, root: Path | None) -> list[Missing]:
        """Nothing: the task is generated."""
        return []

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the data."""
        return digest(self.load(root))

    @abstractmethod
    def load(self, root: Path | None) -> dict[str, Any]:
        """The data, as `harness.evaluation.mteb_local.OfflineTask` says."""


class ToySimilarityTask(ToyTask):
    """The pairs of ToySTS."""

    name, type = "ToyMTEB-STS", "STS"

    def load(self, root: Path | None) -> dict[str, Any]:
        """`pairs` of all subsets."""
        return {"pairs": [pair for subset in TOY_STS.load(root).values() for pair in subset]}


class ToyClassification(ToyTask):
    """Descriptions labelled by the colour of their scene."""

    name, type = "ToyMTEB-Classification", "Classification"

    def load(self, root: Path | None) -> dict[str, Any]:
        """`train` and `test`, 400 texts each."""
        return {split: self._labelled(split) for split in ("train", "test")}

    def _labelled(self, split: str) -> list[tuple[str, str]]:
        rng = generator(world="toy", part="mteb classification", split=split)
        scenes = draw_scenes(rng, 400)
        colours = list(LEXICON["colour"])
        labels = [colours[number] for number in scenes[:, ATTRIBUTES.index("colour")]]
        return list(zip(labels, describe(scenes, rng), strict=True))


class ToyDocuments(ToyTask):
    """One description of a scene finds the other descriptions of it among those of other scenes."""

    name, type = "ToyMTEB-Retrieval", "Retrieval"

    def load(self, root: Path | None) -> dict[str, Any]:
        """`corpus`, three descriptions of 200 scenes, `queries`, one more of each, and `relevant`."""
        rng = generator(world="toy", part="mteb retrieval")
        scenes = draw_distinct_scenes(rng, 200)
        names = [f"{scene}-{copy}" for copy in range(3) for scene in range(len(scenes))]
        return {
            "corpus": dict(zip(names, describe(np.tile(scenes, (3, 1)), rng), strict=True)),
            "queries": {str(scene): text for scene, text in enumerate(describe(scenes, rng))},
            "relevant": {str(scene): {f"{scene}-{copy}": 1 for copy in range(3)} for scene in range(len(scenes))},
        }


class ToyCandidates(ToyDocuments):
    """The same with candidates: the three right descriptions and those of the next four scenes."""

    name, type = "ToyMTEB-Reranking", "Reranking"

    def load(self, root: Path | None) -> dict[str, Any]:
        """As retrieval, and `candidates`."""
        data = super().load(root)
        scenes = len(data["queries"])
        data["candidates"] = {
            str(scene): [f"{(scene + step) % scenes}-{copy}" for step in range(5) for copy in range(3)]
            for scene in range(scenes)
        }
        return data


TOY_STS_TASK = ToySimilarityTask()
TOY_CLASSIFICATION = ToyClassification()
TOY_RETRIEVAL = ToyDocuments()
TOY_RERANKING = ToyCandidates()
