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

from harness.evaluation.sts import SimilarityFile, STSSuite, compare_pairs, cosine, spearman
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
    list_pairs,
    score_tasks,
)
from harness.metrics import Metric
from harness.seeds import make_generator

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
        scored = super().score(subsets, vectors, trained_on)
        pairs = list_pairs(subsets)
        cosines, gold = compare_pairs(pairs, vectors)
        sampled = _score_samples(pairs, cosines, gold, self.samples)
        return replace(scored, scores=scored.scores | sampled)


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
        shared = embed.shared
        if shared is None:
            return SuiteScores({}, warnings=[f"{self.name}: the model has no image side"])

        def score(name: str, task: Any) -> TaskScores:
            return self._score_ratings(name, task.load(root), shared)

        return self.collect(score_tasks(embed, self._tasks, score))

    def _score_ratings(self, name: str, data: Any, shared: ImageTextSpace) -> TaskScores:
        images = shared.images(data.images, name)
        row_of = {image: row for row, image in enumerate(data.ids)}
        first, second, gold = zip(*data.pairs, strict=True)
        if row_of.keys() >= {*first}:
            first_vectors = images[[row_of[image] for image in first]]
        else:
            first_vectors = Embedded(shared.texts, first).rows(first)

        cosines = cosine(first_vectors, images[[row_of[image] for image in second]])
        ratings = np.array(gold, dtype=np.float64)
        values: Values = {"n": float(len(gold))}
        correlation = spearman(cosines, ratings)
        if correlation is not None:
            values["spearman"] = 100 * correlation
        return TaskScores(values | _score_samples(data.pairs, cosines, ratings, self.samples))


def _score_samples(
    pairs: Sequence[SentencePair], cosines: np.ndarray, gold: np.ndarray, samples: int
) -> Values:
    """The mean and the deviation over samples, x100; nothing where no sample has a correlation."""
    scores = 100 * compute_sampled_correlations(pairs, cosines, gold, samples=samples)
    if not len(scores):
        return {}
    return {"sampled": float(scores.mean()), "sampled_std": float(scores.std())}


def compute_sampled_correlations(
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
        # an item that is rated with itself has the pair once
        for item in dict.fromkeys((first, second)):
            pairs_with[item].append(number)

    # the pairs of all items in a row, and where those of each begin
    numbers = np.concatenate([*pairs_with.values()])
    counts = np.array([len(listed) for listed in pairs_with.values()])
    starts = np.cumsum(counts) - counts

    rng = make_generator(axis="Crisscrossed Captions")
    correlations = []
    for _ in range(samples):
        items = rng.permutation(len(counts))[: max(1, len(counts) // 2)]
        places = (rng.random(len(items)) * counts[items]).astype(int)
        drawn = numbers[starts[items] + places]
        correlation = spearman(cosines[drawn], gold[drawn])
        if correlation is not None:
            correlations.append(correlation)
    return np.array(correlations)
