"""The interface of mixing rules, and the default rule."""

from __future__ import annotations

from collections.abc import Callable

#: (rows of text, rows of pairs, text batches, paired batches) -> (cycle, place): step k of an epoch is paired
#: where k mod cycle equals place. There are never fewer text batches than paired ones.
MixingRule = Callable[[int, int, int, int], tuple[int, int]]


def by_batches(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """One paired batch every (text batches // pair batches) steps, starting with the first step of an epoch.

    MCSE's public code (src/train_mix.py); its appendix A says "in proportion to their sizes". An epoch reads
    the pairs slightly more than once.
    """
    return text_batches // pair_batches, 0
