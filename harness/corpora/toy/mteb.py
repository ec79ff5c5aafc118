"""MTEB tasks of the toy world, one of each type, which need no hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpora.toy.grammar import describe
from harness.corpora.toy.scenes import ATTRIBUTES, LEXICON, draw_distinct_scenes, draw_scenes
from harness.corpora.toy.similarity import TOY_STS
from harness.seeds import generator
from harness.sources import Generated, digest


class ToyTask(Generated):
    """A generated MTEB task, with data in the form of `harness.evaluation.mteb_local.OfflineTask`."""

    language = "eng-Latn"
    settings: Mapping[str, Any] = {}

    def __init__(self, kind: str, generate: Callable[[], dict[str, Any]]) -> None:
        self.name, self.type, self._generate = f"ToyMTEB-{kind}", kind, generate

    def fingerprint(self, root: Path | None) -> str:
        """Hash of the data."""
        return digest(self.load(root))

    def load(self, root: Path | None) -> dict[str, Any]:
        """Generate the data."""
        return self._generate()


def _similarity() -> dict[str, Any]:
    """The pairs of ToySTS."""
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
        "relevant": {str(scene): {f"{scene}-{copy}": 1 for copy in range(3)} for scene in range(len(scenes))},
    }


def _reranking() -> dict[str, Any]:
    """The data of retrieval; candidates are the three relevant documents and those of the next four scenes."""
    data = _retrieval()
    scenes = len(data["queries"])
    data["candidates"] = {
        str(scene): [f"{(scene + step) % scenes}-{copy}" for step in range(5) for copy in range(3)]
        for scene in range(scenes)
    }
    return data


TOY_STS_TASK = ToyTask("STS", _similarity)
TOY_CLASSIFICATION = ToyTask("Classification", _classification)
TOY_RETRIEVAL = ToyTask("Retrieval", _retrieval)
TOY_RERANKING = ToyTask("Reranking", _reranking)
