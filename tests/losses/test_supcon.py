"""Supervised contrastive losses against the public code of NonLing (tests/golden/supcon.json) and as loops in float64.

Golden `supcon` and `simclr`: all 2N vectors are anchors; log-probabilities averaged over the positives, then over
anchors, times temperature / base_temperature. `nonling_simclr_cross_view`: InfoNCE of view 1 with view 2.
`nonling_supcon_cross_view`: the same logits, the target of a row being the rank of its class in the batch.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import assert_golden, cosine, drawn, entries, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.contrastive import class_rank_cross_entropy, cross_view_supcon, info_nce, supcon


@pytest.mark.parametrize("entry", [*entries("supcon", "supcon"), *entries("supcon", "simclr")])
def test_supcon_over_all_views(entry: dict[str, Any]) -> None:
    labels = torch.tensor(entry["inputs"]["labels"]) if "labels" in entry["inputs"] else None
    inputs = {"features": tensors(entry)["features"]}
    first, second = inputs["features"].unbind(1)
    loss = supcon(first, second, labels, entry["params"]["temperature"], entry["params"]["base_temperature"])
    assert_golden(entry, inputs, "loss", loss)


@pytest.mark.parametrize("entry", entries("supcon", "nonling_simclr_cross_view"))
def test_cross_view_simclr_is_infonce(entry: dict[str, Any]) -> None:
    inputs = tensors(entry)
    assert_golden(entry, inputs, "loss", info_nce(*inputs["features"].chunk(2), entry["params"]["temperature"]))


@pytest.mark.parametrize("entry", entries("supcon", "nonling_supcon_cross_view"))
def test_the_class_rank_is_the_public_codes(entry: dict[str, Any]) -> None:
    labels = torch.tensor(entry["inputs"]["labels"])
    inputs = {"features": tensors(entry)["features"]}
    loss = class_rank_cross_entropy(*inputs["features"].chunk(2), labels, entry["params"]["temperature"])
    assert_golden(entry, inputs, "loss", loss)


def views(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = drawn(2, 6, 5, seed=seed)
    return first, second


LABELS = st.lists(st.integers(0, 3), min_size=6, max_size=6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), labels=LABELS)
def test_eq_4_written_out(seed: int, labels: list[int]) -> None:
    first, second = views(seed)
    expected = 0.0
    for i in range(6):
        scores = [math.exp(cosine(first[i], second[j]) / 0.3) for j in range(6)]
        expected -= math.log(sum(s for s, y in zip(scores, labels, strict=True) if y == labels[i]) / sum(scores)) / 6
    found = float(cross_view_supcon(first, second, torch.tensor(labels), 0.3))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found >= -1e-12


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.permutations([3, 8, 11, 20, 21, 40]))
def test_with_classes_that_differ_supcon_is_simclr_and_eq_4_is_eq_5(seed: int, labels: list[int]) -> None:
    first, second = views(seed)
    torch.testing.assert_close(supcon(first, second, torch.tensor(labels), 0.1), supcon(first, second, None, 0.1))
    torch.testing.assert_close(
        cross_view_supcon(first, second, torch.tensor(labels), 0.1), info_nce(first, second, 0.1)
    )


def test_a_single_class_leaves_eq_4_nothing_to_tell_apart() -> None:
    first, second = views(0)
    assert float(cross_view_supcon(first, second, torch.zeros(6, dtype=torch.int64), 0.1)) == pytest.approx(
        0, abs=1e-12
    )
