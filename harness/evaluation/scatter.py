"""Cosine against gold score, pair by pair (DALR Figure 4 plots them for STS-B)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.evaluation.embed import Embedded, EmbedFunction
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import SimilarityTask


def scatter(task: SimilarityTask, embed: EmbedFunction, root: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Gold score and cosine of all n pairs of a task, in the order of its subsets and pairs: float64 (n,) each.

    Raises MissingData or UserError.
    """
    pairs = [pair for subset in task.load(root).values() for pair in subset]
    vectors = Embedded(embed, (sentence for first, second, _ in pairs for sentence in (first, second)))
    cosines, gold = cosines_and_gold(pairs, vectors)
    return gold, cosines
