"""The angular margin, the filter of negatives and the classes of contrastive losses, as loops in
float64.
"""

from __future__ import annotations

import math

import pytest
import torch
from golden_tools import cosine, drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.contrastive import (
    NEAR,
    angular_margin,
    cosine_matrix,
    cross_view_supcon,
    margin_info_nce,
    too_alike,
)


def matrix(seed: int) -> torch.Tensor:
    return (
        torch.rand(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    margin=st.floats(0.01, 1.5),
    near=st.sampled_from(NEAR),
    labelled=st.booleans(),
)
def test_the_margin_by_arc_cosines(seed: int, margin: float, near: str, labelled: bool) -> None:
    cosines, soft = matrix(seed), matrix(seed + 1)
    moved = angular_margin(cosines, margin, soft if labelled else None, near)
    for i in range(5):
        for j in range(5):
            theta = math.acos(float(cosines[i, j]))
            delta = margin * (1 - float(soft[i, j])) if labelled else margin
            if i == j or (near == "keep" and theta <= margin):
                expected = float(cosines[i, j])
            else:
                expected = math.cos(max(theta - delta, 0) if near == "clamp" else theta - delta)
            assert float(moved[i, j]) == pytest.approx(expected, abs=1e-9)


def test_an_angle_of_exactly_the_margin_stays_as_it_is_with_keep() -> None:
    cosines = torch.full((2, 2), math.cos(0.3), dtype=torch.float64)
    assert angular_margin(cosines, 0.3, near="keep").tolist() == cosines.tolist()
    assert angular_margin(cosines, 0.3, near="clamp")[0, 1] == pytest.approx(1)


def test_norms_below_a_bound_count_as_the_bound() -> None:
    rows = torch.tensor([[1e-9, 0.0], [0.0, 0.0], [3.0, 4.0]])
    expected = torch.tensor([[0.01, 0.0, 0.06], [0.0, 0.0, 0.0], [0.06, 0.0, 1.0]])
    torch.testing.assert_close(cosine_matrix(rows, rows), expected)


@pytest.mark.parametrize("near", NEAR)
def test_gradients_at_cosines_of_one_are_finite(near: str) -> None:
    """The arc cosine has an infinite slope there; the angle of equal rows is 0, of opposite ones
    pi.
    """
    cosines = torch.tensor(
        [[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0 + 1e-7], [0.3, -1.0 - 1e-7, -1.0]], requires_grad=True
    )
    margin_info_nce(cosines, 0.05, 0.2, near=near).backward()
    assert bool(cosines.grad.isfinite().all())
    assert bool((cosines.grad != 0).any())


def test_filtered_negatives_leave_the_denominator_and_the_positive_stays() -> None:
    cosines = cosine_matrix(matrix(1), matrix(2))
    drop = torch.tensor([[True, True, False, False, True]] * 5)
    loss = margin_info_nce(cosines, 0.2, 0.0, drop=drop)
    expected = 0.0
    for i in range(5):
        scores = {
            j: math.exp(float(cosines[i, j]) / 0.2) for j in range(5) if j == i or not drop[i, j]
        }
        expected -= math.log(scores[i] / sum(scores.values())) / 5
    assert float(loss) == pytest.approx(expected, rel=1e-12)
    assert float(margin_info_nce(cosines, 0.2, 0.1, drop=torch.ones(5, 5, dtype=torch.bool))) == 0


def test_negatives_are_too_alike_by_cosine_or_inner_product() -> None:
    rows = torch.tensor([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    alike = [[False, False, True], [False, False, True], [True, True, False]]
    assert (
        too_alike(rows, rows, 0.7).tolist()
        == too_alike(rows, rows, 0.99, normalised=False).tolist()
        == alike
    )
    assert not too_alike(rows, rows, 2.0, normalised=False)[1].any()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), labels=st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_nonling_eq_4_written_out(seed: int, labels: list[int]) -> None:
    first, second = drawn(2, 6, 5, seed=seed)
    expected = 0.0
    for i in range(6):
        scores = [math.exp(cosine(first[i], second[j]) / 0.3) for j in range(6)]
        expected -= (
            math.log(
                sum(s for s, y in zip(scores, labels, strict=True) if y == labels[i]) / sum(scores)
            )
            / 6
        )
    loss = float(cross_view_supcon(first, second, torch.tensor(labels), 0.3))
    assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)
