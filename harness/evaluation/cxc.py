"""Crisscrossed Captions (Parekh et al., EACL 2021): captions and images of COCO, rated in pairs.

The ratings are dense around some items, so the paper does not correlate all pairs at once. A sample
takes half of the items, and for each of them one of the items that it was rated with; the score is
the mean of Spearman's correlation over 1,000 such samples. Of captions rated with images, both are
items: the paper does not say which side it draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.evaluation.sts import SimilarityFile, STSSuite, cosine, cosines_and_gold, spearman
from harness.evaluation.suites import (
    RETRIEVAL,
    Embedded,
    Embedder,
    ImageTextSpace,
    OwnTask,
    SentencePair,
    Subsets,
    Suite,
    SuiteScores,
    TaskScores,
    TrainedOn,
    Values,
    pairs_of,
    scored,
)
from harness.metrics import Metric
from harness.seeds import generator

_HOW = "put Crisscrossed Captions' STS pairs there with their texts: split, score, sentence1 and sentence2"
CXC = SimilarityFile("CxC", "cxc/cxc_sts.tsv.gz", split="test", how=_HOW)
CXC_DEV = SimilarityFile("CxC-dev", "cxc/cxc_sts.tsv.gz", split="val", how=_HOW)
#: the pairs whose captions are both of COCO's 5,000 validation images of 2017
CXC_2017 = SimilarityFile("CxC-2017", "cxc/cxc_sts_subset.tsv.gz", split="test", how=_HOW)
CXC_2017_DEV = SimilarityFile("CxC-2017-dev", "cxc/cxc_sts_subset.tsv.gz", split="val", how=_HOW)


class CxCSuite(STSSuite):
    """Correlations of cosines with CxC's ratings, x100.

    `sampled` is the mean over the paper's samples and `sampled_std` their standard deviation;
    `spearman` and `pearson` are over all pairs, with the parts of `STSSuite`. A task whose samples
    have no correlation has neither.
    """

    name = "cxc"
    title = "Crisscrossed Captions"
    version = 1
    metrics = (
        Metric("sampled", unit="points of Spearman"),
        Metric("sampled_std", larger_is_better=False, shown=False, judged=False),
        *(replace(metric, shown=False) for metric in STSSuite.metrics),
    )
    #: the paper's number of samples
    samples: ClassVar[int] = 1000

    def __init__(self, tasks: Sequence[str | OwnTask]) -> None:
        """As `Suite`: its main metric is that of samples, which are of whole vectors."""
        super().__init__(tasks)

    def score(
        self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None
    ) -> TaskScores:
        scores = super().score(subsets, vectors, trained_on)
        pairs = pairs_of(subsets)
        return replace(
            scores,
            scores=scores.scores | _sampled(pairs, *cosines_and_gold(pairs, vectors), self.samples),
        )


class CxCImagesSuite(Suite):
    """Correlations of cosines in the space of a method's heads with CxC's ratings of images, x100,
    as in `CxCSuite`.

    A task loads as m `images` with their `ids`, and rated `pairs`: a caption or an image's id, an
    image's id, and their score. `spearman` is over all `n` pairs. A model without a shared space
    (`Embedder.shared`) gets no scores, only a warning.
    """

    name = "cxc-images"
    title = "Crisscrossed Captions, images"
    version = 1
    metrics = (*CxCSuite.metrics[:2], Metric("spearman", shown=False))
    kind = RETRIEVAL
    needs_images = True
    samples: ClassVar[int] = CxCSuite.samples

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        if embed.shared is None:
            return SuiteScores({}, warnings=[f"{self.name}: the model has no image side"])
        shared = embed.shared
        return self.collect(
            scored(
                embed, self._tasks, lambda name, task: self._score(name, task.load(root), shared)
            )
        )

    def _score(self, name: str, data: Any, shared: ImageTextSpace) -> TaskScores:
        images = shared.images(data.images, name)
        row_of = {image: row for row, image in enumerate(data.ids)}
        first, second, gold = zip(*data.pairs, strict=True)
        captions = [text for text in first if text not in row_of]
        left = (
            Embedded(shared.texts, captions).rows(first)
            if captions
            else images[[row_of[one] for one in first]]
        )
        cosines = cosine(left, images[[row_of[one] for one in second]])
        ratings = np.array(gold, dtype=np.float64)
        whole = spearman(cosines, ratings)
        values = {"n": float(len(gold))} | ({} if whole is None else {"spearman": 100 * whole})
        return TaskScores(values | _sampled(data.pairs, cosines, ratings, self.samples))


def _sampled(
    pairs: Sequence[SentencePair], cosines: np.ndarray, gold: np.ndarray, samples: int
) -> Values:
    """The mean and the deviation over samples, x100; nothing where no sample has a correlation."""
    found = 100 * sampled_correlations(pairs, cosines, gold, samples=samples)
    return {"sampled": float(found.mean()), "sampled_std": float(found.std())} if len(found) else {}


def sampled_correlations(
    pairs: Sequence[SentencePair], cosines: np.ndarray, gold: np.ndarray, *, samples: int
) -> np.ndarray:
    """Spearman's correlation in each sample of n rated pairs (Section 5 of the paper): at most
    (samples,) float64.

    A sample draws half of the items without replacement, and one pair of each, evenly. Either item
    of a pair can be drawn. Samples whose similarities or ratings are all equal have no correlation
    and are left out.
    """
    pairs_with: dict[str, list[int]] = defaultdict(list)
    for number, (first, second, _) in enumerate(pairs):
        for caption in dict.fromkeys((first, second)):
            pairs_with[caption].append(number)
    counts = np.array([len(numbers) for numbers in pairs_with.values()])
    flat = np.concatenate([*pairs_with.values()])
    starts = np.cumsum(counts) - counts
    rng = generator(axis="Crisscrossed Captions")
    found = []
    for _ in range(samples):
        drawn = rng.permutation(len(counts))[: max(1, len(counts) // 2)]
        chosen = flat[starts[drawn] + (rng.random(len(drawn)) * counts[drawn]).astype(int)]
        found.append(spearman(cosines[chosen], gold[chosen]))
    return np.array([value for value in found if value is not None])
