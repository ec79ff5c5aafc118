"""The score that picks the best checkpoint, computed every so many training steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from harness.evaluation.correlation import spearman
from harness.evaluation.embed import Embedded, EmbedFunction
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import SimilarityTask

log = logging.getLogger(__name__)


def dev_scorer(task: SimilarityTask, root: Path | None) -> Callable[[EmbedFunction], float]:
    """Read a similarity task once and return its scorer: Spearman x100 over all its pairs.

    An undefined correlation (all similarities equal) scores 0.0, what chance would give, and is logged: the
    dev curve stays free of NaN, and training goes on. Raises MissingData or UserError.
    """
    pairs = [pair for subset in task.load(root).values() for pair in subset]
    sentences = list(dict.fromkeys(sentence for first, second, _ in pairs for sentence in (first, second)))

    def score(embed: EmbedFunction) -> float:
        value = spearman(*cosines_and_gold(pairs, Embedded(embed, sentences)))
        if value is None:
            log.warning("the dev score on %s is undefined, all similarities are equal; counted as 0", task.name)
        return 100 * (value or 0.0)

    return score
