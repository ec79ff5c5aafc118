"""Cross-modal retrieval: captions find their images and images their captions, in the model's own shared space.

The papers give R@1 and R@5 in both directions on the Flickr30k test images (1,000) and COCO (5,000), and say
neither which trained head makes the shared space nor how many captions an image takes part with (MCSE Table 6,
DALR Table 4). Here the shared space is that of the method's own projection heads, and both numbers of captions are
kept apart (see `both_ways`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.errors import UserError
from harness.evaluation.embed import Embedded, Embedder
from harness.evaluation.ranking import TOP, both_ways
from harness.evaluation.suites import Evaluation, Suite
from harness.metrics import AVERAGE
from harness.sources import Missing

_NAMES = tuple(f"{way}_{name}" for way in ("t2i", "i2t") for name in (*(f"R@{k}" for k in TOP), "median_rank"))


class CaptionedImages(Protocol):
    """m images and their n captions, in any order."""

    @property
    def texts(self) -> Sequence[str]:
        """The captions."""

    @property
    def image_of(self) -> np.ndarray:
        """The row of each caption's image, (n,) int64; every image has a caption."""

    @property
    def images(self) -> Any:
        """The images as the corpora give them: m pairs, each of an image and one of its captions."""


class RetrievalTask(Protocol):
    """What the entry points of `harness.retrieval` give: a Source of images with captions."""

    name: str

    def missing(self, root: Path | None) -> list[Missing]:
        """What is absent below the data root."""

    def fingerprint(self, root: Path | None) -> str:
        """A hash of the content (hex)."""

    def load(self, root: Path | None) -> CaptionedImages:
        """Images and captions."""


class SharedSpace(Protocol):
    """A space that a method projects captions and images into with its own heads."""

    def texts(self, sentences: Sequence[str]) -> np.ndarray:
        """n sentences -> (n, p) float32."""

    def images(self, pairs: Any, name: str) -> np.ndarray:
        """The images of m pairs -> (m, p) float32; `name` tells the task whose they are."""


class RetrievalSuite(Suite):
    """Recalls (x100) and median ranks in both directions.

    Metrics of a task: `t2i_R@1`, `t2i_R@5`, `t2i_R@10`, `t2i_median_rank` and the same of `i2t`, with `[one]` and
    `[five]` beside them where images have several captions; `n_texts` and `n_images` (see `both_ways`).
    The embedder may carry an attribute `shared`, a SharedSpace or None; without one there are no scores, but a
    warning.
    """

    name = "retrieval"
    version = 1
    metric = "t2i_R@1"
    metrics = (*_NAMES, *(f"{name}[{protocol}]" for protocol in ("one", "five") for name in _NAMES))
    kind = "retrieval task"

    def evaluate(self, embed: Embedder, root: Path | None) -> Evaluation:
        """See `Suite.evaluate`."""
        shared: SharedSpace | None = getattr(embed, "shared", None)
        if shared is None:
            return Evaluation({}, [f"{self.name}: the model has no image side"])
        scores, warnings = {}, []
        for name, task in self._tasks.items():
            data: CaptionedImages = task.load(root)
            if not np.array_equal(np.unique(data.image_of), np.arange(len(data.images))):
                raise UserError(
                    f"the retrieval task '{name}' has an image without a caption; mend its data or leave it out"
                )
            texts, images = Embedded(shared.texts, data.texts), shared.images(data.images, name)
            if images.ndim != 2 or len(images) != len(data.images):
                raise ValueError(f"the shared space gave shape {images.shape} for {len(data.images)} images")
            scores[name] = both_ways(texts.rows(data.texts), images, data.image_of)
            not_finite = texts.not_finite + int(np.count_nonzero(~np.isfinite(images).all(axis=1)))
            if not_finite:
                warnings.append(f"{self.name}: {name}: {not_finite} vectors are not finite; NaN counted as 0")
        return Evaluation({**scores, AVERAGE: self.average(scores)}, warnings)
