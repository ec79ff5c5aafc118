"""InfoNCE with hard negatives against the public code of SimCSE (tests/golden/supervised.json).

Golden `simcse_sup`: logits (N, 2N) are cos(z1_i, z2_j)/temp beside cos(z1_i, z3_j)/temp, `hard_negative_weight`
added on the diagonal of the right half; the loss is the cross-entropy whose target for row i is column i.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden_tools import assert_golden, entries, tensors

from harness.losses.contrastive import info_nce, info_nce_hard


@pytest.mark.parametrize("entry", entries("supervised", "simcse_sup"))
def test_hard_negatives_are_the_public_codes(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    loss = info_nce_hard(inputs["z1"], inputs["z2"], inputs["z3"], params["temp"], params["hard_negative_weight"])
    assert_golden(entry, inputs, "loss", loss)


def test_the_weight_moves_a_rows_own_negative_alone() -> None:
    torch.manual_seed(0)
    a = torch.randn(5, 8, dtype=torch.float64)
    p = a + 0.1 * torch.randn(5, 8, dtype=torch.float64)
    dropped, plain = info_nce_hard(a, p, p, 0.05, weight=-1e9), info_nce_hard(a, p, p, 0.05)
    assert float(info_nce(a, p, 0.05)) < float(dropped) < float(plain)
