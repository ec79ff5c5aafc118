"""MTEB tasks of the toy world, one of each type, which need no hub."""

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
from harness.sources import Generated, digest


class ToyTask(Generated):
    """A generated MTEB task."""

    language = "eng-Latn"
    settings: Mapping[str, Any] = {}
    name: str
    type: str

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the data."""
        return digest(self.load(root))

    @abstractmethod
    def load(self, root: Path | None) -> dict[str, Any]:
        """Generate the data in the form of `harness.evaluation.mteb_local.OfflineTask`."""


class ToySimilarityTask(ToyTask):
    """The pairs of ToySTS."""

    name, type = "ToyMTEB-STS", "STS"

    def load(self, root: Path | None) -> dict[str, Any]:
        """Return the `pairs` of all subsets."""
        return {"pairs": [pair for subset in TOY_STS.load(root).values() for pair in subset]}


class ToyClassification(ToyTask):
    """Descriptions labelled with the colour of their scene."""

    name, type = "ToyMTEB-Classification", "Classification"

    def load(self, root: Path | None) -> dict[str, Any]:
        """Return `train` and `test`, 400 texts each."""
        return {split: self._labelled(split) for split in ("train", "test")}

    def _labelled(self, split: str) -> list[tuple[str, str]]:
        rng = generator(world="toy", part="mteb classification", split=split)
        scenes = draw_scenes(rng, 400)
        colours = list(LEXICON["colour"])
        labels = [colours[number] for number in scenes[:, ATTRIBUTES.index("colour")]]
        return list(zip(labels, describe(scenes, rng), strict=True))


class ToyDocuments(ToyTask):
    """Retrieval of the other descriptions of a scene among those of 200 scenes."""

    name, type = "ToyMTEB-Retrieval", "Retrieval"

    def load(self, root: Path | None) -> dict[str, Any]:
        """Return `corpus`, three descriptions of each scene, `queries`, a fourth one, and `relevant`."""
        rng = generator(world="toy", part="mteb retrieval")
        scenes = draw_distinct_scenes(rng, 200)
        names = [f"{scene}-{copy}" for copy in range(3) for scene in range(len(scenes))]
        return {
            "corpus": dict(zip(names, describe(np.tile(scenes, (3, 1)), rng), strict=True)),
            "queries": {str(scene): text for scene, text in enumerate(describe(scenes, rng))},
            "relevant": {str(scene): {f"{scene}-{copy}": 1 for copy in range(3)} for scene in range(len(scenes))},
        }


class ToyCandidates(ToyDocuments):
    """Reranking of the three correct descriptions and those of the next four scenes."""

    name, type = "ToyMTEB-Reranking", "Reranking"

    def load(self, root: Path | None) -> dict[str, Any]:
        """Return the data of retrieval, and `candidates`."""
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
