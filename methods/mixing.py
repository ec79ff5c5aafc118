"""The papers' mixing rules: which steps of an epoch are paired (`harness.method.MixingRule`)."""

from __future__ import annotations

from collections.abc import Mapping

from harness.method import MixingRule, by_batches


def ceil(rows: int, pairs: int, batches: int, paired: int) -> tuple[int, int]:
    """KDMCSE Algorithm 1: one paired batch every ceil(rows / pairs) steps, starting with the first."""
    return -(-rows // pairs), 0


def after(rows: int, pairs: int, batches: int, paired: int) -> tuple[int, int]:
    """DALR section 4.1: rows // pairs text batches, then one paired batch."""
    return rows // pairs + 1, rows // pairs


#: the values of the option `mixing`; 'floor' is the rule of MCSE's public code
RULES: Mapping[str, MixingRule] = {"floor": by_batches, "ceil": ceil, "after": after}
