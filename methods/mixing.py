"""The papers' mixing rules: which steps of an epoch are paired. `harness.method.MixingRule` states their arguments."""

from __future__ import annotations

from collections.abc import Mapping

from harness.method import MixingRule, by_batches


def every_ceil(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """Make the first of every ceil(rows / pairs) steps paired (KDMCSE Algorithm 1)."""
    return -(-rows // pairs), 0


def after_text(rows: int, pairs: int, text_batches: int, pair_batches: int) -> tuple[int, int]:
    """Make one step paired after every rows // pairs text steps (DALR section 4.1)."""
    return rows // pairs + 1, rows // pairs


#: the values of the option `mixing`; 'floor' is the rule of MCSE's public code
MIXING: Mapping[str, MixingRule] = {"floor": by_batches, "ceil": every_ceil, "after": after_text}
