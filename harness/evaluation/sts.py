"""Semantic textual similarity: correlation of cosines with human scores (SentEval's protocol).

For the year sets the papers report one Spearman correlation over the pairs of all subsets together ('all'), not a
mean over the subsets; all three readings are kept. All correlations are x100. A correlation of constant values is
undefined: it is left out, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.evaluation.correlation import cosine, pearson, spearman
from harness.evaluation.embed import Embedded
from harness.evaluation.suites import PairSuite, SentencePair, Subsets, TaskScores, Values
from harness.metrics import Metric


class STSSuite(PairSuite):
    """Spearman and Pearson correlations of cosine and gold similarity, x100.

    Metrics of a task: `spearman` and `pearson` over all its pairs, `spearman_mean` and `spearman_wmean` over its
    subsets (plain, and weighted by their pairs), `n` pairs. The parts of a task with several subsets are its subsets,
    each with `spearman`, `pearson` and `n`.
    """

    name = "sts"
    hub_task = "sentence-similarity"
    version = 1
    metrics = (
        Metric("spearman", unit="points of Spearman"),
        Metric("pearson", unit="points of Pearson", shown=False),
        Metric("spearman_mean", shown=False),
        Metric("spearman_wmean", shown=False),
    )

    def score(self, subsets: Subsets, vectors: Embedded) -> TaskScores:
        """Score one task, with one warning where correlations are undefined."""
        sides = {name: cosines_and_gold(pairs, vectors) for name, pairs in subsets.items()}
        cosines, gold = (np.concatenate(side) for side in zip(*sides.values(), strict=True))
        each = {name: {"spearman": spearman(*side), "pearson": pearson(*side)} for name, side in sides.items()}
        ranks, sizes = [part["spearman"] for part in each.values()], [len(pairs) for pairs in subsets.values()]
        whole = {
            "spearman": spearman(cosines, gold),
            "pearson": pearson(cosines, gold),
            "spearman_mean": _mean(ranks, [1] * len(sizes)),
            "spearman_wmean": _mean(ranks, sizes),
        }
        parts = each if len(subsets) > 1 else {}
        undefined = [metric for metric, value in whole.items() if value is None]
        undefined += [
            f"{metric} of {name}" for name, part in parts.items() for metric, value in part.items() if value is None
        ]
        warnings = [f"{', '.join(undefined)} left out, undefined: constant similarities or scores"] if undefined else []
        return TaskScores(
            _percent(whole, len(gold)),
            {name: _percent(part, len(subsets[name])) for name, part in parts.items()},
            warnings,
        )


def _percent(values: Mapping[str, float | None], pairs: int) -> Values:
    return {metric: 100 * value for metric, value in values.items() if value is not None} | {"n": pairs}


def cosines_and_gold(pairs: Sequence[SentencePair], vectors: Embedded) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and gold score of n pairs, float64 (n,) each."""
    first, second, gold = zip(*pairs, strict=True)
    return cosine(vectors.rows(first), vectors.rows(second)), np.array(gold, dtype=np.float64)


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.average(defined, weights=weights)) if len(defined) == len(values) else None
