"""Cosine and gold score of every pair, which DALR Figure 4 plots for STS-B."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.evaluation.embed import Embedded, EmbedFunction
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import SimilarityTask, sentences_of


def scatter(task: SimilarityTask, embed: EmbedFunction, root: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Return gold score and cosine of all n pairs of a task, in the order of its subsets and pairs: float64 (n,) each.

    Raises MissingData or UserError.
    """
    subsets = task.load(root)
    pairs = [pair for subset in subsets.values() for pair in subset]
    cosines, gold = cosines_and_gold(pairs, Embedded(embed, sentences_of(subsets)))
    return gold, cosines
