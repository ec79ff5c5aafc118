"""The angular margin against the public code of KDMCSE (tests/golden/kdmcse.json), and as it is in closed form.

Golden `kdmcse_margin_similarity`: theta = arccos(cos(x_i, y_j)); off the diagonal, where theta > margin, it becomes
theta - margin, or theta - (1 - soft) * margin with soft labels; logits are the cosines of these angles over temp.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import CLOSE, assert_golden, entries, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.contrastive import NEAR, angular_margin, cosine_matrix, info_nce, margin_info_nce, too_alike


@pytest.mark.parametrize("entry", entries("kdmcse", "kdmcse_margin_similarity"))
def test_the_public_codes_margin(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    cosines = cosine_matrix(inputs["x"], inputs["y"])
    soft = inputs["soft"].detach() if "soft" in inputs else None
    found = angular_margin(cosines, params["margin"], soft, "keep") / params["temp"]
    expected = torch.tensor(entry["outputs"]["logits"], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=CLOSE, atol=1e-12)
    loss = margin_info_nce(cosines, params["temp"], params["margin"], soft, near="keep")
    assert_golden(entry, inputs, "cross_entropy", loss)


def matrix(seed: int, size: int = 5) -> torch.Tensor:
    return torch.rand(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), margin=st.floats(0.01, 1.5), near=st.sampled_from(NEAR), labelled=st.booleans())
def test_the_margin_by_arc_cosines(seed: int, margin: float, near: str, labelled: bool) -> None:
    cosines, soft = matrix(seed), matrix(seed + 1)
    found = angular_margin(cosines, margin, soft if labelled else None, near)
    for i in range(5):
        for j in range(5):
            theta = math.acos(float(cosines[i, j]))
            delta = margin * (1 - float(soft[i, j])) if labelled else margin
            if i == j or (near == "keep" and theta <= margin):
                expected = float(cosines[i, j])
            else:
                expected = math.cos(max(theta - delta, 0) if near == "clamp" else theta - delta)
            assert float(found[i, j]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("near", NEAR)
def test_without_margin_and_filter_it_is_infonce(near: str) -> None:
    a, b = matrix(1), matrix(2)
    nothing = too_alike(a, b, 1.01)
    assert not nothing.any()
    found = margin_info_nce(cosine_matrix(a, b), 0.05, 0.0, matrix(3), near=near, drop=nothing)
    torch.testing.assert_close(found, info_nce(a, b, 0.05), rtol=1e-14, atol=0)


@pytest.mark.parametrize("near", NEAR)
def test_gradients_at_cosines_of_one_are_finite(near: str) -> None:
    """The arc cosine has an infinite slope there; the angle of equal rows is 0, of opposite ones pi."""
    cosines = torch.tensor([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0 + 1e-7], [0.3, -1.0 - 1e-7, -1.0]], requires_grad=True)
    margin_info_nce(cosines, 0.05, 0.2, near=near).backward()
    assert bool(cosines.grad.isfinite().all())
    assert bool((cosines.grad != 0).any())


def test_filtered_negatives_leave_the_denominator_and_the_positive_stays() -> None:
    a, b = matrix(1), matrix(2)
    cosines = cosine_matrix(a, b)
    drop = torch.tensor([[True, True, False, False, True]] * 5)
    found = margin_info_nce(cosines, 0.2, 0.0, drop=drop)
    expected = 0.0
    for i in range(5):
        kept = [j for j in range(5) if j == i or not drop[i, j]]
        scores = {j: math.exp(float(cosines[i, j]) / 0.2) for j in kept}
        expected -= math.log(scores[i] / sum(scores.values())) / 5
    assert float(found) == pytest.approx(expected, rel=1e-12)
    everything = torch.ones(5, 5, dtype=torch.bool)
    assert float(margin_info_nce(cosines, 0.2, 0.1, drop=everything)) == 0


def test_negatives_are_too_alike_by_cosine_or_inner_product() -> None:
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    by_cosine, by_product = too_alike(rows, rows, 0.7), too_alike(rows, rows, 0.99, normalised=False)
    assert by_cosine.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert by_product.tolist() == [[False, False, True], [False, False, True], [True, True, False]]
    assert not too_alike(rows, rows, 2.0, normalised=False)[1].any()
