"""The dev score, which selects the best checkpoint during training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from harness.evaluation.correlation import spearman
from harness.evaluation.embed import Embedded, EmbedFunction
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import SimilarityTask, sentences_of

log = logging.getLogger(__name__)


def dev_scorer(task: SimilarityTask, root: Path | None) -> Callable[[EmbedFunction], float]:
    """Read a similarity task once and return its scorer: Spearman x100 over all its pairs.

    An undefined correlation (all similarities equal) counts as 0.0, as chance would, and is logged. Raises
    MissingData or UserError.
    """
    subsets = task.load(root)
    pairs = [pair for subset in subsets.values() for pair in subset]
    sentences = list(dict.fromkeys(sentences_of(subsets)))

    def score(embed: EmbedFunction) -> float:
        value = spearman(*cosines_and_gold(pairs, Embedded(embed, sentences)))
        if value is None:
            log.warning("the dev score on %s is undefined, all similarities are equal; it counts as 0", task.name)
        return 100 * (value or 0.0)

    return score
