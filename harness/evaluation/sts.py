"""Semantic textual similarity: how well cosines order pairs as people do (SentEval's protocol).

The papers report, for the year sets, one Spearman correlation over the pairs of all subsets together
('all'), not a mean over the subsets; all three readings are kept. All correlations are x100.
A correlation of constant values is undefined: it is left out and a warning says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.evaluation.correlation import cosine, pearson, spearman
from harness.evaluation.embed import Embedded
from harness.evaluation.suites import PairSuite, Subsets


class STSSuite(PairSuite):
    """Spearman and Pearson correlations of cosine and gold similarity, x100.

    Metrics of a task: `spearman` and `pearson` over all its pairs, `spearman_mean` and `spearman_wmean` over its
    subsets (plainly, and weighted by their pairs), `n` pairs; where there are several subsets, also
    `spearman[SUBSET]`, `pearson[SUBSET]` and `n[SUBSET]`.
    """

    name = "sts"
    version = 1
    metric = "spearman"
    metrics = ("spearman", "pearson", "spearman_mean", "spearman_wmean")

    def score(self, subsets: Subsets, vectors: Embedded) -> tuple[dict[str, float], list[str]]:
        """See `PairSuite.score`."""
        return score(subsets, vectors)


def score(subsets: Subsets, vectors: Embedded) -> tuple[dict[str, float], list[str]]:
    """One task's scores by metric (see `STSSuite`), and a warning when some are undefined."""
    parts = {name: cosines_and_gold(pairs, vectors) for name, pairs in subsets.items()}
    cosines, gold = (np.concatenate(side) for side in zip(*parts.values(), strict=True))
    each = {name: spearman(*part) for name, part in parts.items()}
    sizes = [len(pairs) for pairs in subsets.values()]
    values: dict[str, float | None] = {
        "spearman": spearman(cosines, gold),
        "pearson": pearson(cosines, gold),
        "spearman_mean": _mean(list(each.values()), [1] * len(sizes)),
        "spearman_wmean": _mean(list(each.values()), sizes),
    }
    counts = {"n": len(gold)}
    if len(parts) > 1:
        for name, (subset_cosines, subset_gold) in parts.items():
            values[f"spearman[{name}]"] = each[name]
            values[f"pearson[{name}]"] = pearson(subset_cosines, subset_gold)
            counts[f"n[{name}]"] = len(subset_gold)
    undefined = [metric for metric, value in values.items() if value is None]
    warnings = [f"{', '.join(undefined)} left out, undefined: constant similarities or scores"] if undefined else []
    return {metric: 100 * value for metric, value in values.items() if value is not None} | counts, warnings


def cosines_and_gold(pairs: Sequence[tuple[str, str, float]], vectors: Embedded) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and gold score of n pairs, float64 (n,) each."""
    first, second, gold = zip(*pairs, strict=True)
    return cosine(vectors.rows(first), vectors.rows(second)), np.array(gold, dtype=np.float64)


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.average(defined, weights=weights)) if len(defined) == len(values) else None
