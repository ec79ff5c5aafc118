"""Cross-modal retrieval of images by captions and of captions by images, in the model's own shared
space.

The papers state neither which trained head makes the shared space nor how many captions of an image
take part (MCSE Table 6, DALR Table 4). Here it is that of the method's own heads, and both numbers
are scored (`score_both_ways`).

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
    make_nested_name,
    require_unit_rows,
    score_tasks,
    split_rows,
    take_leading,
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
    both readings (see `score_both_ways`). A model without a shared space (`Embedder.shared`) gets no
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
        self.set_dims(dims)
        if seen_images not in ("refuse", "keep"):
            raise UserError(
                f"the suite 'retrieval' has seen_images = '{seen_images}'; write 'refuse' or 'keep'"
            )

        self.seen_images = seen_images
        #: the rows of a task's images that are left out for every model, by the task's name
        self.left_out: Callable[[str], Sequence[int]] = exclude_none

    def fingerprint(self, root: Path | None) -> str:
        plain = digest(super().fingerprint(root), self.seen_images)
        left_out = {}
        for name in self.tasks:
            rows = list(self._list_left_out(name))
            if rows:
                left_out[name] = rows
        return digest("without images", plain, left_out) if left_out else plain

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        shared = embed.shared
        if shared is None:
            return SuiteScores({}, warnings=[f"{self.name}: the model has no image side"])

        def score(name: str, task: RetrievalTask) -> TaskScores:
            data = task.load(root)
            check_captions(name, data)
            seen = self._find_seen(name, data, embed.trained_on)
            return self._rank(name, data, shared, seen)

        return self.collect(score_tasks(embed, self._tasks, score))

    def _list_left_out(self, task: str) -> Sequence[int]:
        return self.left_out(task) if self.seen_images == "refuse" else ()

    def _find_seen(
        self, task: str, data: ImagesWithCaptions, trained_on: TrainedOn | None
    ) -> np.ndarray:
        """Whether each of the m images of a task is left out: (m,) bool."""
        seen = np.zeros(len(data.images), dtype=bool)
        seen[list(self._list_left_out(task))] = True
        if trained_on is not None and self.seen_images == "refuse":
            seen |= find_seen_images(data, trained_on)
        return seen

    def _rank(
        self, name: str, data: ImagesWithCaptions, shared: ImageTextSpace, seen: np.ndarray
    ) -> TaskScores:
        count = len(data.images)
        is_ranked = ~seen
        ranked = int(is_ranked.sum())
        counts: Values = {"n_seen": count - ranked, "n_images": ranked}
        warnings = []
        if ranked < count:
            gallery = digest(np.flatnonzero(is_ranked).tolist())
            counts["gallery"] = int(gallery[:GALLERY_DIGITS], 16)
            why = f"{count - ranked:,} of {count:,} images are training images and are left out"
            if ranked < FEWEST:
                why = f"{why}; the other {ranked} are too few"
                return TaskScores(counts, warnings=[f"{NO_SCORE}: {why}"])
            chances = ", ".join(f"R@{k} {100 * k / ranked:.2f}" for k in TOP)
            warnings.append(f"{why}; by chance, text to image, the other {ranked} give {chances}")

        images = shared.images(data.images, name)
        if images.ndim != 2 or len(images) != count:
            raise ValueError(f"the shared space returned shape {images.shape} for {count} images")

        images = images[is_ranked]
        rows = np.flatnonzero(is_ranked[data.image_of])
        captions = [data.texts[row] for row in rows]
        texts = Embedded(shared.texts, captions)
        # images are numbered without those that are left out
        image_of = (np.cumsum(is_ranked) - 1)[data.image_of[rows]]
        scores, parts = score_both_ways(texts.rows(captions), images, image_of)

        for number in self.dims:
            nested_scores, nested_parts = score_both_ways(
                texts.take_leading(number).rows(captions), take_leading(images, number), image_of
            )
            self._add_nested(number, scores, nested_scores)
            for part, values in nested_parts.items():
                self._add_nested(number, parts[part], values)
        return TaskScores(scores | counts, parts, warnings)

    def _add_nested(self, number: int, scores: Values, nested_scores: Values) -> None:
        """Add the scores of so many leading dimensions to those of whole vectors."""
        for metric in self.nested:
            scores[make_nested_name(metric, number)] = nested_scores[metric]

    def collect(self, scores: Mapping[str, TaskScores]) -> SuiteScores:
        joined = super().collect(scores)
        parts_of_tasks = [task.parts for task in scores.values()]
        if not all(parts_of_tasks):
            return joined

        averages = {}
        for reading in parts_of_tasks[0]:
            rows = {name: parts[reading] for name, parts in joined.parts.items()}
            averages[reading] = self.average(rows)
        return replace(joined, parts=joined.parts | {AVERAGE: averages})


def check_captions(name: str, data: ImagesWithCaptions) -> None:
    """Raise UserError for an image without a caption."""
    if not np.array_equal(np.unique(data.image_of), np.arange(len(data.images))):
        raise UserError(
            f"the retrieval task '{name}' has an image without a caption; fix its data or "
            "remove the task from the suite"
        )


def exclude_none(task: str) -> tuple[int, ...]:
    """What `RetrievalSuite.left_out` is for a model that is compared with no others."""
    return ()


def find_seen_images(data: ImagesWithCaptions, trained_on: TrainedOn) -> np.ndarray:
    """Whether training read each of the m images of a task: (m,) bool."""
    ids = getattr(data, "ids", None)
    contents = getattr(data, "contents", None)
    return trained_on.images(data.texts, data.image_of, ids, contents)


def compute_ranks(
    queries: np.ndarray, gallery: np.ndarray, query_of: np.ndarray, gallery_of: np.ndarray
) -> np.ndarray:
    """Rank the best true row of each query, from 1: (n, p) and (m, p) -> (n,) int64.

    Row j is true for query i where `gallery_of[j] == query_of[i]`, (m,) and (n,) int. The rank is 1
    plus the number of other rows that are at least as similar as the best true one. Raises
    ValueError for a query without a true row.
    """
    queries = require_unit_rows(queries)
    gallery = require_unit_rows(gallery)
    # the true rows of a query are adjacent in this order
    order = np.argsort(gallery_of, kind="stable")
    first = np.searchsorted(gallery_of[order], query_of, side="left")
    counts = np.searchsorted(gallery_of[order], query_of, side="right") - first
    if not counts.all():
        raise ValueError("a query has no true row in the gallery")

    ranks = np.empty(len(queries), dtype=np.int64)
    for block in split_rows(len(queries), len(gallery)):
        cosines = queries[block] @ gallery.T
        ranks[block] = _rank_block(cosines, order, first[block], counts[block])
    return ranks


def compute_recalls(ranks: np.ndarray) -> Values:
    """Compute `R@1`, `R@5`, `R@10` (x100) and `median_rank` of the ranks (n,) of n > 0 queries."""
    values = {f"R@{k}": 100 * float((ranks <= k).mean()) for k in TOP}
    return values | {"median_rank": float(np.median(ranks))}


def score_both_ways(
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
    is_read = turn < FIVE
    scores = _score_reading(texts, images, image_of, is_read)
    parts = {}
    if turn.any():
        parts["one"] = _score_reading(texts, images, image_of, turn < 1)
        parts["five"] = scores
    return scores | {"n_texts": int(is_read.sum()), "n_images": len(images)}, parts


def _score_reading(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray, is_read: np.ndarray
) -> Values:
    """Score the captions that a reading takes, (n,) bool."""
    texts = texts[is_read]
    image_of = image_of[is_read]
    numbers = np.arange(len(images))
    ranks = {
        "t2i": compute_ranks(texts, images, image_of, numbers),
        "i2t": compute_ranks(images, texts, numbers, image_of),
    }

    scores = {}
    for way, ranks_of_way in ranks.items():
        for name, value in compute_recalls(ranks_of_way).items():
            scores[f"{way}_{name}"] = value
    return scores


def _rank_block(
    cosines: np.ndarray, order: np.ndarray, first: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Rank a block of queries, (b, m) -> (b,); `order[first : first + counts]` are a query's true
    rows.
    """
    # the true rows of all queries in a row, those of a query from `starts` on
    starts = np.cumsum(counts) - counts
    queries = np.repeat(np.arange(len(cosines)), counts)
    places = np.repeat(first - starts, counts) + np.arange(len(queries))
    true_cosines = cosines[queries, order[places]]

    bounds = np.maximum.reduceat(true_cosines, starts) - np.float32(TIE)
    similar = np.count_nonzero(cosines >= bounds[:, None], axis=1)
    similar_true = np.add.reduceat(true_cosines >= bounds[queries], starts)
    return np.asarray(1 + similar - similar_true)
