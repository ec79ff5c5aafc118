"""SimCSE against the public implementation (tests/golden/contrastive.json)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from golden_tools import CLOSE, assert_golden, entries, tensors

from harness.losses.contrastive import cosine_matrix, info_nce


@pytest.mark.parametrize("entry", entries("contrastive", "simcse_unsup"))
def test_info_nce_is_simcse(entry: dict[str, Any]) -> None:
    inputs, temperature = tensors(entry), entry["params"]["temp"]
    loss = info_nce(inputs["z1"], inputs["z2"], temperature)
    logits = cosine_matrix(inputs["z1"], inputs["z2"]) / temperature
    torch.testing.assert_close(
        logits, torch.tensor(entry["outputs"]["logits"], dtype=torch.float64), rtol=CLOSE, atol=1e-12
    )
    assert_golden(entry, inputs, "loss", loss)
