"""ListMLE and ListNet against the public code of DALR (tests/golden/dalr.json) and as loops in float64.

Golden `dalr_listmle`: each row in the teacher's order, less its maximum: gamma times the mean over rows of the sum
over places of log(sum of exp from there on + 1e-7) - score. `dalr_listnet`: cross-entropy of the rows' softmaxes, both
without the diagonal, times gamma.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from golden_tools import assert_golden, drawn, entries, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.alignment import list_mle, list_net


@pytest.mark.parametrize("entry", entries("dalr", "dalr_listmle"))
def test_list_mle_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs = tensors(entry)
    loss = list_mle(inputs["student"], inputs["teacher"].detach(), floor=1e-7)
    assert_golden(entry, inputs, "loss", entry["params"]["gamma"] * loss)


@pytest.mark.parametrize("entry", entries("dalr", "dalr_listnet"))
def test_list_net_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs = tensors(entry)
    loss = list_net(inputs["student"], inputs["teacher"])
    assert_golden(entry, inputs, "loss", entry["params"]["gamma"] * loss)


def scores(seed: int, size: int = 6, spread: float = 4.0) -> torch.Tensor:
    return spread * drawn(size, size, seed=seed)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), floor=st.sampled_from([1e-7, 0.1]), spread=st.floats(0.1, 20))
def test_the_public_codes_floor_written_out(seed: int, floor: float, spread: float) -> None:
    student, teacher = scores(seed, spread=spread), scores(seed + 1)
    expected = 0.0
    for row, wanted in zip(student.tolist(), teacher.tolist(), strict=True):
        order = sorted(range(6), key=lambda j: -wanted[j])
        shifted = [row[j] - max(row) for j in order]
        expected += sum(math.log(sum(map(math.exp, shifted[k:])) + floor) - shifted[k] for k in range(6)) / 6
    assert float(list_mle(student, teacher, floor)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_list_net_written_out(seed: int) -> None:
    student, teacher = scores(seed), scores(seed + 1)
    expected = 0.0
    for i in range(6):
        others = [j for j in range(6) if j != i]
        q, p = (
            {j: math.exp(float(m[i, j])) / sum(math.exp(float(m[i, k])) for k in others) for j in others}
            for m in (teacher, student)
        )
        expected -= sum(q[j] * math.log(p[j]) for j in others) / 6
    assert float(list_net(student, teacher)) == pytest.approx(expected, rel=1e-10)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(6)))
def test_no_order_is_likelier_than_the_students_own(seed: int, order: list[int]) -> None:
    student = scores(seed)
    own = float(list_mle(student, student))
    assert own <= float(list_mle(student, student[:, order])) + 1e-12
    assert own == pytest.approx(float(list_mle(student, 3 * student + 1)), rel=1e-12)


def test_probabilities_of_all_orders_add_to_one() -> None:
    """ListMLE is the logarithm of a distribution over permutations."""
    row = torch.tensor([[0.3, -1.2, 2.0, 0.5]], dtype=torch.float64)
    total = 0.0
    for places in itertools.permutations(range(4)):
        teacher = torch.tensor([[float(place) for place in places]], dtype=torch.float64)
        total += math.exp(-float(list_mle(row, teacher)))
    assert total == pytest.approx(1, rel=1e-12)


def test_a_list_far_apart_keeps_its_gradient_in_float32() -> None:
    """exp(-110) is 0 in float32; without a floor the loss still pushes what lies that far down."""
    student = torch.tensor([[0.0, -110.0, -111.0]], requires_grad=True)
    list_mle(student, torch.tensor([[3.0, 1.0, 2.0]])).backward()
    nearer = 1 / (1 + math.exp(-1))
    assert student.grad[0].tolist() == pytest.approx([0, nearer, -nearer], abs=1e-5)


def test_equal_scores_of_the_teacher_keep_the_columns_order() -> None:
    student = scores(3)
    level = torch.zeros_like(student)
    falling = -torch.arange(6.0, dtype=torch.float64).expand(6, 6)
    torch.testing.assert_close(list_mle(student, level), list_mle(student, falling))


def test_a_list_of_one_costs_nothing() -> None:
    one = torch.zeros(1, 1, requires_grad=True)
    assert float(list_mle(one, one).detach()) == 0
    loss = list_net(one, one)
    assert float(loss.detach()) == 0
    loss.backward()
    assert float(one.grad) == 0
