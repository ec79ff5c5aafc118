"""Crisscrossed Captions' semantic textual similarity (Parekh et al., EACL 2021): captions of COCO, rated in pairs.

The ratings are dense around some captions, so the paper does not correlate all pairs at once. A sample takes half of
the captions, and for each of them one of the captions that it was rated with; the score is the mean of Spearman's
correlation over 1,000 such samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from harness.evaluation.sts import SimilarityFile, STSSuite, cosines_and_gold, spearman
from harness.evaluation.suites import Embedded, SentencePair, Subsets, TaskScores, TrainedOn, pairs_of
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

    `sampled` is the mean over the paper's samples and `sampled_std` their standard deviation; `spearman` and `pearson`
    are over all pairs, with the parts of `STSSuite`. A task whose samples have no correlation has neither.
    """

    name = "cxc"
    version = 1
    metrics = (
        Metric("sampled", unit="points of Spearman"),
        Metric("sampled_std", larger_is_better=False, shown=False, judged=False),
        *(replace(metric, shown=False) for metric in STSSuite.metrics),
    )
    #: the paper's number of samples
    samples: ClassVar[int] = 1000

    def score(self, subsets: Subsets, vectors: Embedded, trained_on: TrainedOn | None = None) -> TaskScores:
        scores = super().score(subsets, vectors, trained_on)
        pairs = pairs_of(subsets)
        sampled = sampled_correlations(pairs, *cosines_and_gold(pairs, vectors), samples=self.samples)
        spread = {"sampled": sampled.mean(), "sampled_std": sampled.std()} if len(sampled) else {}
        return replace(scores, scores=scores.scores | {name: 100 * float(value) for name, value in spread.items()})


def sampled_correlations(
    pairs: Sequence[SentencePair], cosines: np.ndarray, gold: np.ndarray, *, samples: int
) -> np.ndarray:
    """Spearman's correlation in each sample of n rated pairs (Section 5 of the paper): at most (samples,) float64.

    A sample draws half of the captions without replacement, and one pair of each, evenly. Either caption of a pair can
    be drawn. Samples whose similarities or ratings are all equal have no correlation and are left out.
    """
    pairs_with: dict[str, list[int]] = defaultdict(list)
    for number, (first, second, _) in enumerate(pairs):
        for caption in dict.fromkeys((first, second)):
            pairs_with[caption].append(number)
    counts = np.array([len(numbers) for numbers in pairs_with.values()])
    flat, starts = np.concatenate([*pairs_with.values()]), np.cumsum(counts) - counts
    rng, found = generator(axis="Crisscrossed Captions"), []
    for _ in range(samples):
        drawn = rng.permutation(len(counts))[: max(1, len(counts) // 2)]
        chosen = flat[starts[drawn] + (rng.random(len(drawn)) * counts[drawn]).astype(int)]
        found.append(spearman(cosines[chosen], gold[chosen]))
    return np.array([value for value in found if value is not None])
