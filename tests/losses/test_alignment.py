"""Alignment, consistency, ranking and the token term against the public code of DALR (tests/golden/dalr.json).

Golden `dalr_soft_alignment`: KL(softmax(soft_logits/soft_tau) || softmax(logits/tau)), mean over rows.
`dalr_consistency_pairs`: mean over 2n pairs of 1 - cos(text, matched) and max(0, cos(text, unmatched) - margin).
`dalr_in_batch_g2l`: cross-entropy of local_ik . global_i against the tokens of all other sentences, over temp,
mean over real tokens, then over sentences. `dalr_listmle`: each row in the teacher's order, less its maximum: gamma
times the mean over rows of the sum over places of log(sum of exp from there on + 1e-7) - score. `dalr_listnet`:
cross-entropy of the rows' softmaxes, both without the diagonal, times gamma.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import assert_golden, drawn, entries, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.alignment import (
    FLOOR,
    in_batch_g2l,
    list_mle,
    list_net,
    over_tokens,
    pair_consistency,
    soft_alignment,
)


@pytest.mark.parametrize("entry", entries("dalr", "dalr_soft_alignment"))
def test_soft_alignment_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    loss = soft_alignment(inputs["logits"], inputs["soft_logits"], params["tau"], params["soft_tau"])
    assert_golden(entry, inputs, "loss", loss)


@pytest.mark.parametrize("entry", entries("dalr", "dalr_consistency_pairs"))
def test_consistency_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs = tensors(entry)
    loss = pair_consistency(inputs["text"], inputs["matched"], inputs["unmatched"], entry["params"]["margin"])
    assert_golden(entry, inputs, "loss", loss)


@pytest.mark.parametrize("entry", entries("dalr", "dalr_in_batch_g2l"))
def test_the_token_term_is_the_public_codes(entry: dict[str, Any]) -> None:
    inputs = tensors(entry)
    mask = inputs["mask"].detach() if "mask" in inputs else None
    loss = in_batch_g2l(inputs["local"], inputs["global"], entry["params"]["temp"], mask)
    assert_golden(entry, inputs, "loss", loss)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), tau=st.floats(0.05, 2))
def test_alignment_is_zero_at_equality_and_positive_elsewhere(seed: int, tau: float) -> None:
    scores = drawn(5, 5, seed=seed).requires_grad_()
    equal = soft_alignment(scores, scores.detach(), tau, tau)
    equal.backward()
    assert float(equal.detach()) == pytest.approx(0, abs=1e-12)
    assert float(scores.grad.norm()) == pytest.approx(0, abs=1e-12)
    assert float(soft_alignment(scores, drawn(5, 5, seed=seed + 1), tau, tau).detach()) > 0


def test_alignment_of_very_sharp_targets_is_finite() -> None:
    scores = drawn(4, 4).requires_grad_()
    loss = soft_alignment(scores, drawn(4, 4, seed=1), 1e-3, 1e-4)
    loss.backward()
    assert loss.isfinite()
    assert bool(scores.grad.isfinite().all())


def test_consistency_at_its_ends() -> None:
    texts = torch.eye(3, 4, dtype=torch.float64)
    assert float(pair_consistency(texts, 5 * texts, texts.roll(1, 0), 0.2)) == pytest.approx(0, abs=1e-12)
    assert float(pair_consistency(texts, -texts, texts, 0.2)) == pytest.approx((2 + 0.8) / 2)
    assert float(pair_consistency(texts, -texts, None, 0.2)) == pytest.approx(2)


def test_what_stands_at_padded_places_does_not_matter() -> None:
    local, sentences = drawn(4, 3, 6), drawn(4, 6, seed=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    changed = torch.where(mask[..., None] == 1, local, 1e3 * drawn(4, 3, 6, seed=2))
    torch.testing.assert_close(in_batch_g2l(local, sentences, 0.5, mask), in_batch_g2l(changed, sentences, 0.5, mask))


def test_logits_of_any_size_stay_finite() -> None:
    """Vectors that are not normalised give logits of many thousands, larger than any constant for padding."""
    local, sentences = 300 * drawn(4, 3, 6), (300 * drawn(4, 6, seed=1)).requires_grad_()
    loss = in_batch_g2l(local, sentences, 0.05, torch.tensor([[1, 1, 0]] * 4))
    loss.backward()
    assert loss.isfinite()
    assert bool(sentences.grad.isfinite().all())


def test_padding_stays_out_where_all_logits_lie_far_below_nought() -> None:
    """Moving all logits by one constant changes nothing, even below the -10000 that the public code puts at padding."""
    local, sentences = drawn(4, 3, 6), drawn(4, 6, seed=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    ones = torch.ones(4, 1, dtype=torch.float64)
    lower = torch.cat([local, -5e4 * ones[:, None].expand(4, 3, 1)], dim=-1)
    found = in_batch_g2l(lower, torch.cat([sentences, ones], dim=-1), 0.5, mask)
    torch.testing.assert_close(found, in_batch_g2l(local, sentences, 0.5, mask), rtol=1e-8, atol=1e-8)


def test_one_sentence_or_no_token_costs_nothing() -> None:
    local, sentences = drawn(3, 2, 6), drawn(3, 6, seed=1).requires_grad_()
    alone = in_batch_g2l(local[:1], sentences[:1], 0.05)
    empty = in_batch_g2l(local, sentences, 0.05, torch.zeros(3, 2))
    (alone + empty).backward()
    assert float(alone.detach()) == float(empty.detach()) == 0
    assert bool(sentences.grad.isfinite().all())


def test_dead_features_stay_near_nought() -> None:
    """A feature of about 1e-32 in every token would become one of norm 1, or NaN where its square is 0."""
    tokens = drawn(2, 3, 4).float()
    tokens[..., 1] *= 1e-32
    tokens[..., 2] = 0
    found = over_tokens(tokens)
    assert bool(found.isfinite().all())
    assert float(found[..., 1].abs().max()) < 1e-18
    assert float(found[..., 2].abs().max()) == 0
    torch.testing.assert_close(found[..., 0].norm(dim=1), torch.ones(2))
    assert FLOOR < 1e-6


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
@given(seed=st.integers(0, 10**6), floor=st.sampled_from([0.0, 1e-7, 0.1]), spread=st.floats(0.1, 20))
def test_list_mle_written_out_without_a_floor_and_with_the_public_codes(seed: int, floor: float, spread: float) -> None:
    student, teacher = scores(seed, spread=spread), scores(seed + 1)
    expected = 0.0
    for row, wanted in zip(student.tolist(), teacher.tolist(), strict=True):
        order = sorted(range(6), key=lambda j: -wanted[j])
        shifted = [row[j] - max(row) for j in order]
        expected += sum(math.log(sum(map(math.exp, shifted[k:])) + floor) - shifted[k] for k in range(6)) / 6
    assert float(list_mle(student, teacher, floor)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


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
