"""Cross-modal retrieval: captions find their images and images their captions, in the model's own shared space.

The papers report R@1 and R@5 in both directions on the Flickr30k test images (1,000) and COCO (5,000); they state
neither which trained head makes the shared space nor how many captions of an image take part (MCSE Table 6, DALR
Table 4). Here the shared space is that of the method's own projection heads, and both numbers of captions are scored
(see `both_ways`).
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from harness.errors import UserError
from harness.evaluation.embed import Embedded, Embedder, HasSpaces, ImageTextSpace
from harness.evaluation.ranking import TOP, both_ways
from harness.evaluation.suites import Suite, SuiteScores, Task, TaskScores
from harness.metrics import AVERAGE, Metric


class ImagesWithCaptions(Protocol):
    """m images and their n captions, in any order."""

    @property
    def texts(self) -> list[str]:
        """The captions."""

    @property
    def image_of(self) -> np.ndarray:
        """The row of each caption's image, (n,) int64; every image has a caption."""

    @property
    def images(self) -> Sized:
        """The images as the corpora load them: m pairs, each of an image and one of its captions."""


class RetrievalTask(Task, Protocol):
    """A task of the entry points `harness.retrieval`: images with captions."""

    name: str

    def load(self, root: Path | None) -> ImagesWithCaptions:
        """Read images and captions."""


class RetrievalSuite(Suite):
    """Recalls (x100) and median ranks in both directions.

    Metrics of a task: `t2i_R@1`, `t2i_R@5`, `t2i_R@10`, `t2i_median_rank` and the same of `i2t`, `n_texts` and
    `n_images`. Where images have several captions the parts 'one' and 'five' hold both readings (see `both_ways`).
    A model without a shared space (`HasSpaces.shared`) gets no scores, only a warning.
    """

    name = "retrieval"
    version = 1
    metrics = (
        *(Metric(f"{way}_R@{k}") for way in ("i2t", "t2i") for k in TOP),
        *(Metric(f"{way}_median_rank", larger_is_better=False, shown=False) for way in ("i2t", "t2i")),
    )
    kind = "retrieval task"

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        """Rank every task in the shared space. Raises MissingData or UserError."""
        shared = embed.shared if isinstance(embed, HasSpaces) else None
        if shared is None:
            return SuiteScores({}, warnings=[f"{self.name}: the model has no image side"])
        found = {name: _ranked(name, task.load(root), shared) for name, task in self._tasks.items()}
        scored = self.collect(found)
        if not all(each.parts for each in found.values()):
            return scored
        readings = {name: each.parts for name, each in found.items()}
        averages = {
            part: self.average({name: parts[part] for name, parts in readings.items()})
            for part in readings[self.tasks[0]]
        }
        return replace(scored, parts=readings | {AVERAGE: averages})


def _ranked(name: str, data: ImagesWithCaptions, shared: ImageTextSpace) -> TaskScores:
    if not np.array_equal(np.unique(data.image_of), np.arange(len(data.images))):
        raise UserError(f"the retrieval task '{name}' has an image without a caption; fix its data or leave it out")
    texts, images = Embedded(shared.texts, data.texts), shared.images(data.images, name)
    if images.ndim != 2 or len(images) != len(data.images):
        raise ValueError(f"the shared space returned shape {images.shape} for {len(data.images)} images")
    scores, parts = both_ways(texts.rows(data.texts), images, data.image_of)
    not_finite = texts.not_finite + int(np.count_nonzero(~np.isfinite(images).all(axis=1)))
    return TaskScores(scores, parts, [f"{not_finite} vectors are not finite; NaN counted as 0"] if not_finite else [])
