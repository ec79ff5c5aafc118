"""Semantic textual similarity: correlation of cosines with human scores (SentEval's protocol).

For the year sets the papers report one Spearman correlation over the pairs of all subsets together ('all'), not a
mean over the subsets; all three readings are kept. All correlations are x100. A correlation of constant values is
undefined: it is left out, with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.evaluation.cosines import cosine, pearson, spearman
from harness.evaluation.embed import Embedded, EmbedFunction
from harness.evaluation.suites import (
    PairSuite,
    SentencePair,
    SimilarityTask,
    Subsets,
    TaskScores,
    Values,
    pairs_of,
    sentences_of,
)
from harness.metrics import Metric

log = logging.getLogger(__name__)


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
        each = {name: _correlations(*side) for name, side in sides.items()}
        ranks, sizes = [part["spearman"] for part in each.values()], [len(pairs) for pairs in subsets.values()]
        means = {"spearman_mean": _mean(ranks, [1] * len(sizes)), "spearman_wmean": _mean(ranks, sizes)}
        whole = _correlations(*np.hstack(list(sides.values()))) | means
        parts = each if len(subsets) > 1 else {}
        undefined = [metric for metric, value in whole.items() if value is None]
        undefined += [f"{metric} of {name}" for name, part in parts.items() for metric in part if part[metric] is None]
        warnings = [f"{', '.join(undefined)} left out, undefined: constant similarities or scores"] if undefined else []
        counted = {name: _percent(part, len(subsets[name])) for name, part in parts.items()}
        return TaskScores(_percent(whole, sum(sizes)), counted, warnings)


class MultilingualSTSSuite(STSSuite):
    """The protocol of `sts`, averaged over languages."""

    name = "stsb-multi"


def dev_scorer(task: SimilarityTask, root: Path | None) -> Callable[[EmbedFunction], float]:
    """Read a similarity task once and return its scorer, which selects checkpoints: Spearman x100 over all its pairs.

    An undefined correlation (all similarities equal) counts as 0.0, as chance would, and is logged. Raises
    MissingData or UserError.
    """
    subsets = task.load(root)
    pairs, sentences = pairs_of(subsets), list(dict.fromkeys(sentences_of(subsets)))

    def score(embed: EmbedFunction) -> float:
        value = spearman(*cosines_and_gold(pairs, Embedded(embed, sentences)))
        if value is None:
            log.warning("the dev score on %s is undefined, all similarities are equal; it counts as 0", task.name)
        return 100 * (value or 0.0)

    return score


def cosines_and_gold(pairs: Sequence[SentencePair], vectors: Embedded) -> tuple[np.ndarray, np.ndarray]:
    """Return cosine and gold score of n pairs, float64 (n,) each."""
    first, second, gold = zip(*pairs, strict=True)
    return cosine(vectors.rows(first), vectors.rows(second)), np.array(gold, dtype=np.float64)


def _correlations(cosines: np.ndarray, gold: np.ndarray) -> dict[str, float | None]:
    return {"spearman": spearman(cosines, gold), "pearson": pearson(cosines, gold)}


def _percent(values: Mapping[str, float | None], pairs: int) -> Values:
    return {metric: 100 * value for metric, value in values.items() if value is not None} | {"n": pairs}


def _mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(np.average(defined, weights=weights)) if len(defined) == len(values) else None
