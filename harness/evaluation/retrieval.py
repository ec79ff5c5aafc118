"""Cross-modal retrieval of images by captions and of captions by images, in the model's own shared
space.

The papers state neither which trained head makes the shared space nor how many captions of an image
take part (MCSE Table 6, DALR Table 4). Here it is that of the method's own heads, and both numbers
are scored (`both_ways`).

Ranks are exact, by cosine. Ties, up to float32's rounding (`TIE`), count against the model: if all
vectors are equal, every rank is the worst.

Images that training read are left out, unless the suite keeps them: 944 of the 1,000 Flickr30k test
images of Karpathy and Fei-Fei are training images of MCSE's caption file. All models of a profile
rank one gallery: what a training in one of its settings reads is left out for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from harness.errors import UserError
from harness.evaluation.suites import (
    RETRIEVAL,
    Embedded,
    Embedder,
    ImageTextSpace,
    Suite,
    SuiteScores,
    TaskScores,
    TrainedOn,
    Values,
    leading,
    nested_name,
    row_blocks,
    scored,
    units,
)
from harness.metrics import AVERAGE, NO_SCORE, Metric, MetricWords
from harness.sources import Checkable, digest

#: The minimum number of images in a task after images of training are left out.
FEWEST = 100

#: Hexadecimal digits of a gallery's number, which a float holds exactly.
GALLERY_DIGITS = 12
#: Cosines that differ by less count as equal: four steps of float32 just below 1.
TIE = 2.0**-22
#: Ranks up to which a recall is counted.
TOP = (1, 5, 10)
#: The first part of a metric's name -> its direction in words.
DIRECTIONS = {"i2t": "image to text", "t2i": "text to image"}
#: Captions per image in the reading 'five'; further captions, as in COCO, are dropped as usual.
FIVE = 5


class ImagesWithCaptions(Protocol):
    """m images and their n captions, in any order; `ids`, if any, identify the images across data
    sets.
    """

    @property
    def texts(self) -> list[str]:
        """The captions."""

    @property
    def image_of(self) -> np.ndarray:
        """The row of each caption's image, (n,) int64; every image has a caption."""

    @property
    def images(self) -> Sized:
        """The images, loaded as in corpora: m pairs of an image and one of its captions."""


class RetrievalTask(Checkable, Protocol):
    """A task of the entry points `harness.retrieval`: images with captions."""

    name: str

    def load(self, root: Path | None) -> ImagesWithCaptions:
        """Read images and captions."""


class RetrievalSuite(Suite):
    """Recalls (x100) and median ranks in both directions.

    Metrics of a task: `t2i_R@1`, `t2i_R@5`, `t2i_R@10`, `t2i_median_rank` and the same of `i2t`,
    `n_texts` and `n_images`. Where images have several captions the parts 'one' and 'five' hold
    both readings (see `both_ways`). A model without a shared space (`Embedder.shared`) gets no
    scores, only a warning.

    Images that training read, that of the model (`Embedder.trained_on`) or those that it is compared
    with (`left_out`), are left out of texts and images, with a warning, and counted by `n_seen`;
    `gallery` is then a number that only runs with the same other images share. If fewer than
    `FEWEST` remain, the task has no recalls. With `seen_images = "keep"` they are ranked too. With
    `dims`, there are recalls such as `t2i_R@1@64` of the first dimensions in the shared space.
    """

    name = "retrieval"
    title = "Image-text retrieval"
    # 2 leaves out images that training read; the scores of other images are as in 1
    version = 2
    metrics = (
        *(Metric(f"{way}_R@{k}") for way in DIRECTIONS for k in TOP),
        *(Metric(f"{way}_median_rank", larger_is_better=False, shown=False) for way in DIRECTIONS),
    )
    words: ClassVar[Mapping[str, MetricWords]] = {
        f"{way}_{name}": MetricWords(group=direction, heading=name.replace("_", " "))
        for way, direction in DIRECTIONS.items()
        for name in (*(f"R@{k}" for k in TOP), "median_rank")
    }
    kind = RETRIEVAL
    needs_images = True
    nested = tuple(f"{way}_R@{k}" for way in DIRECTIONS for k in TOP)

    def __init__(
        self, tasks: Sequence[str], seen_images: str = "refuse", dims: Sequence[int] = ()
    ) -> None:
        super().__init__(tasks)
        self.nest(dims)
        if seen_images not in ("refuse", "keep"):
            raise UserError(
                f"the suite 'retrieval' has seen_images = '{seen_images}'; write 'refuse' or 'keep'"
            )
        self.seen_images = seen_images
        #: the rows of a task's images that are left out for every model, by the task's name
        self.left_out: Callable[[str], Sequence[int]] = leave_none_out

    def fingerprint(self, root: Path | None) -> str:
        plain = digest(super().fingerprint(root), self.seen_images)
        left_out = {name: rows for name in self.tasks if (rows := [*self._left_out(name)])}
        return digest("without images", plain, left_out) if left_out else plain

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        if embed.shared is None:
            return SuiteScores({}, warnings=[f"{self.name}: the model has no image side"])
        shared = embed.shared

        def score(name: str, task: RetrievalTask) -> TaskScores:
            data = task.load(root)
            check_captions(name, data)
            seen = self._seen(name, data, embed.trained_on)
            return self._rank(name, data, shared, seen)

        return self.collect(scored(embed, self._tasks, score))

    def _left_out(self, task: str) -> Sequence[int]:
        return self.left_out(task) if self.seen_images == "refuse" else ()

    def _seen(
        self, task: str, data: ImagesWithCaptions, trained_on: TrainedOn | None
    ) -> np.ndarray:
        """Whether each of the m images of a task is left out: (m,) bool."""
        seen = np.zeros(len(data.images), dtype=bool)
        seen[list(self._left_out(task))] = True
        if trained_on is not None and self.seen_images == "refuse":
            seen |= seen_images(data, trained_on)
        return seen

    def _rank(
        self, name: str, data: ImagesWithCaptions, shared: ImageTextSpace, seen: np.ndarray
    ) -> TaskScores:
        count = len(data.images)
        ranked = int(count - seen.sum())
        counts: Values = {"n_seen": int(seen.sum()), "n_images": ranked}
        warnings = []
        if seen.any():
            counts["gallery"] = int(digest(np.flatnonzero(~seen).tolist())[:GALLERY_DIGITS], 16)
            why = f"{seen.sum():,} of {count:,} images are training images and are left out"
            if ranked < FEWEST:
                why = f"{why}; the other {ranked} are too few"
                return TaskScores(counts, warnings=[f"{NO_SCORE}: {why}"])
            chances = ", ".join(f"R@{k} {100 * k / ranked:.2f}" for k in TOP)
            warnings.append(f"{why}; by chance, text to image, the other {ranked} give {chances}")
        images = shared.images(data.images, name)
        if images.ndim != 2 or len(images) != count:
            raise ValueError(f"the shared space returned shape {images.shape} for {count} images")
        kept = ~seen[data.image_of]
        captions = [text for text, keep in zip(data.texts, kept, strict=True) if keep]
        texts = Embedded(shared.texts, captions)
        images = images[~seen]
        image_of = (np.cumsum(~seen) - 1)[data.image_of[kept]]
        scores, parts = both_ways(texts.rows(captions), images, image_of)
        for number in self.dims:
            shorter_texts = texts.leading(number).rows(captions)
            nested_scores, nested_parts = both_ways(
                shorter_texts, leading(images, number), image_of
            )
            for metric in self.nested:
                own_name = nested_name(metric, number)
                scores[own_name] = nested_scores[metric]
                for part, values in nested_parts.items():
                    parts[part][own_name] = values[metric]
        return TaskScores(scores | counts, parts, warnings)

    def collect(self, scores: Mapping[str, TaskScores]) -> SuiteScores:
        joined = super().collect(scores)
        readings = [each.parts for each in scores.values()]
        if not all(readings):
            return joined
        averages = {
            part: self.average({name: parts[part] for name, parts in joined.parts.items()})
            for part in readings[0]
        }
        return replace(joined, parts=joined.parts | {AVERAGE: averages})


def check_captions(name: str, data: ImagesWithCaptions) -> None:
    """Raise UserError for an image without a caption."""
    if not np.array_equal(np.unique(data.image_of), np.arange(len(data.images))):
        raise UserError(
            f"the retrieval task '{name}' has an image without a caption; fix its data or "
            "remove the task from the suite"
        )


def leave_none_out(task: str) -> tuple[int, ...]:
    """What `RetrievalSuite.left_out` is for a model that is compared with no others."""
    return ()


def seen_images(data: ImagesWithCaptions, trained_on: TrainedOn) -> np.ndarray:
    """Whether training read each of the m images of a task: (m,) bool."""
    ids = getattr(data, "ids", None)
    contents = getattr(data, "contents", None)
    return trained_on.images(data.texts, data.image_of, ids, contents)


def ranks(
    queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray
) -> np.ndarray:
    """Rank the best true row of each query, from 1: (n, p) and (m, p) -> (n,) int64.

    Row j is true for query i where `gallery_of[j] == query_of[i]`, (m,) and (n,) int. The rank is 1
    plus the number of other rows that are at least as similar as the best true one. Raises
    ValueError for a query without a true row.
    """
    queries = units(queries)
    gallery = units(gallery)
    order = np.argsort(gallery_of, kind="stable")
    first, last = (
        np.searchsorted(gallery_of[order], query_of, side=side) for side in ("left", "right")
    )
    if not (first < last).all():
        raise ValueError("a query has no true row in the gallery")
    positions = np.empty(len(queries), dtype=np.int64)
    for block in row_blocks(len(queries), len(gallery)):
        positions[block] = _ranks(
            queries[block] @ gallery.T, order, first[block], (last - first)[block]
        )
    return positions


def recalls(positions: np.ndarray) -> Values:
    """Compute `R@1`, `R@5`, `R@10` (x100) and `median_rank` of the ranks (n,) of n > 0 queries."""
    return {f"R@{k}": 100 * float((positions <= k).mean()) for k in TOP} | {
        "median_rank": float(np.median(positions))
    }


def both_ways(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray
) -> tuple[Values, dict[str, Values]]:
    """Score text to image (`t2i_`) and image to text (`i2t_`): captions (n, p), images (m, p),
    caption's image (n,).

    Each caption is a query of t2i; a query of i2t is an image, which finds its best caption. Where
    an image has several captions there are two readings, returned as parts: 'one' takes each
    image's first caption, 'five' its first five; the scores are then those of 'five'. `n_texts`
    captions and `n_images` take part. Raises ValueError for an image without a caption.
    """
    import pandas

    turn = pandas.Series(image_of).groupby(image_of).cumcount().to_numpy()
    scores = _both_ways(texts, images, image_of, turn < FIVE)
    parts = (
        {"one": _both_ways(texts, images, image_of, turn < 1), "five": scores} if turn.any() else {}
    )
    return scores | {"n_texts": int((turn < FIVE).sum()), "n_images": len(images)}, parts


def _both_ways(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray, taken: np.ndarray
) -> Values:
    texts = texts[taken]
    image_of = image_of[taken]
    every = np.arange(len(images))
    positions = {
        "t2i": ranks(texts, images, image_of, every),
        "i2t": ranks(images, texts, every, image_of),
    }
    return {
        f"{way}_{name}": value
        for way, each in positions.items()
        for name, value in recalls(each).items()
    }


def _ranks(
    cosines: np.ndarray, order: np.ndarray, first: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Rank a block of queries, (b, m) -> (b,); `order[first : first + counts]` are a query's true
    rows.
    """
    starts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(cosines)), counts)
    true = cosines[rows, order[np.repeat(first - starts, counts) + np.arange(counts.sum())]]
    least = np.maximum.reduceat(true, starts) - np.float32(TIE)
    similar = np.count_nonzero(cosines >= least[:, None], axis=1)
    return np.asarray(1 + similar - np.add.reduceat(true >= least[rows], starts))
