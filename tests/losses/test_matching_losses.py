"""Alignment, ranking and the token term where values are extreme, and the ranking loss as loops in
float64.
"""

from __future__ import annotations

import math

import pytest
import torch
from golden_tools import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.matching import in_batch_g2l, list_mle, list_net, over_tokens


def test_padding_stays_out_where_all_logits_lie_far_below_nought() -> None:
    """Moving all logits by one constant changes nothing, even below the -10000 that the public code
    puts at padding.
    """
    local, sentences = drawn(4, 3, 6), drawn(4, 6, seed=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    ones = torch.ones(4, 1, dtype=torch.float64)
    lower = torch.cat([local, -5e4 * ones[:, None].expand(4, 3, 1)], dim=-1)
    lowered = in_batch_g2l(lower, torch.cat([sentences, ones], dim=-1), 0.5, mask)
    torch.testing.assert_close(
        lowered, in_batch_g2l(local, sentences, 0.5, mask), rtol=1e-8, atol=1e-8
    )


def test_one_sentence_no_token_and_a_list_of_one_cost_nothing() -> None:
    local, sentences = drawn(3, 2, 6), drawn(3, 6, seed=1).requires_grad_()
    single = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    alone, empty = (
        in_batch_g2l(local[:1], sentences[:1], 0.05),
        in_batch_g2l(local, sentences, 0.05, torch.zeros(3, 2)),
    )
    losses = torch.stack(
        [alone, empty, list_mle(single, single.detach()), list_net(single, single)]
    )
    losses.sum().backward()
    assert losses.tolist() == [0.0] * 4
    assert bool(sentences.grad.isfinite().all())
    assert float(single.grad) == 0


def test_dead_features_stay_near_nought() -> None:
    """A feature of about 1e-32 in every token would become one of norm 1, or NaN where its square
    is 0.
    """
    tokens = drawn(2, 3, 4).float()
    tokens[..., 1] *= 1e-32
    tokens[..., 2] = 0
    normalised = over_tokens(tokens)
    assert float(normalised[..., 1].abs().max()) < 1e-18
    assert float(normalised[..., 2].abs().max()) == 0
    torch.testing.assert_close(normalised[..., 0].norm(dim=1), torch.ones(2))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), floor=st.sampled_from([0.0, 1e-7, 0.1]), spread=st.floats(0.1, 20)
)
def test_list_mle_written_out_without_a_floor_and_with_the_public_codes(
    seed: int, floor: float, spread: float
) -> None:
    student, teacher = spread * drawn(6, 6, seed=seed), drawn(6, 6, seed=seed + 1)
    expected = 0.0
    for row, wanted in zip(student.tolist(), teacher.tolist(), strict=True):
        order = sorted(range(6), key=lambda j: -wanted[j])
        shifted = [row[j] - max(row) for j in order]
        expected += (
            sum(math.log(sum(map(math.exp, shifted[k:])) + floor) - shifted[k] for k in range(6))
            / 6
        )
    assert float(list_mle(student, teacher, floor)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_list_far_apart_keeps_its_gradient_in_float32() -> None:
    """exp(-110) is 0 in float32; without a floor the loss still pushes what lies that far down."""
    student = torch.tensor([[0.0, -110.0, -111.0]], requires_grad=True)
    list_mle(student, torch.tensor([[3.0, 1.0, 2.0]])).backward()
    nearer = 1 / (1 + math.exp(-1))
    assert student.grad[0].tolist() == pytest.approx([0, nearer, -nearer], abs=1e-5)


def test_equal_scores_of_the_teacher_keep_the_columns_order() -> None:
    student = drawn(6, 6, seed=3)
    falling = -torch.arange(6.0, dtype=torch.float64).expand(6, 6)
    torch.testing.assert_close(
        list_mle(student, torch.zeros_like(student)), list_mle(student, falling)
    )
