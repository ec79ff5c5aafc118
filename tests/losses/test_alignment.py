"""Soft alignment, consistency and the token term against the public code of DALR (tests/golden/dalr.json) and as loops.

Golden `dalr_soft_alignment`: KL(softmax(soft_logits/soft_tau) || softmax(logits/tau)), mean over rows.
`dalr_consistency_pairs`: mean over 2n pairs of 1 - cos(text, matched) and max(0, cos(text, unmatched) - margin).
`dalr_in_batch_g2l`: cross-entropy of local_ik . global_i against the tokens of all other sentences, over temp,
mean over real tokens, then over sentences.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import assert_golden, drawn, entries, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.losses.alignment import FLOOR, in_batch_g2l, over_tokens, pair_consistency, soft_alignment


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


@pytest.mark.parametrize("masked", [False, True])
def test_the_token_term_written_out(masked: bool) -> None:
    local, sentences = drawn(4, 3, 6), drawn(4, 6, seed=1)
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]) if masked else None
    real = [[k for k in range(3) if mask is None or mask[i, k]] for i in range(4)]
    expected = 0.0
    for i in range(4):
        others = sum(math.exp(float(local[j, n] @ sentences[i]) / 0.5) for j in range(4) if j != i for n in real[j])
        for k in real[i]:
            own = math.exp(float(local[i, k] @ sentences[i]) / 0.5)
            expected -= math.log(own / (own + others)) / len(real[i]) / 4
    assert float(in_batch_g2l(local, sentences, 0.5, mask)) == pytest.approx(expected, rel=1e-10)


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
