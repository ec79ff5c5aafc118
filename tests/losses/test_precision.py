"""Every loss computes in float32 at least and is finite, with its gradients, on batches that
degenerate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.losses.contrastive import (
    class_rank_cross_entropy,
    cosine_matrix,
    cross_view_supcon,
    info_nce,
    info_nce_hard,
    margin_info_nce,
    supcon,
    too_alike,
)
from harness.losses.matching import (
    cross_alignment,
    in_batch_g2l,
    list_mle,
    list_net,
    over_tokens,
    pair_consistency,
    rolled,
    soft_alignment,
)

#: vectors a, b (N, d) and labels (N,) -> a loss
LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "info_nce": lambda a, b, y: info_nce(a, b, 0.05),
    "info_nce_hard": lambda a, b, y: info_nce_hard(a, b, b.flip(0), 0.05, 1.0),
    "margin clamp": lambda a, b, y: margin_info_nce(
        cosine_matrix(a, b), 0.05, 0.2, cosine_matrix(b, b).detach(), drop=too_alike(b, b, 0.8)
    ),
    "margin keep": lambda a, b, y: margin_info_nce(cosine_matrix(a, b), 0.05, 0.2, near="keep"),
    "list_mle": lambda a, b, y: list_mle(cosine_matrix(a, b) / 0.05, cosine_matrix(b, b) / 0.05),
    "list_mle with floor": lambda a, b, y: list_mle(
        cosine_matrix(a, b) / 0.05, cosine_matrix(b, b) / 0.05, 1e-7
    ),
    "list_net": lambda a, b, y: list_net(cosine_matrix(a, b) / 0.05, cosine_matrix(b, b) / 0.05),
    "soft_alignment": lambda a, b, y: soft_alignment(
        cosine_matrix(a, b), cosine_matrix(b, b), 0.02, 0.5
    ),
    "soft_alignment, sharp": lambda a, b, y: soft_alignment(
        cosine_matrix(a, b), cosine_matrix(b, b), 1e-3, 1e-4
    ),
    "cross_alignment": lambda a, b, y: cross_alignment(
        cosine_matrix(a, b), cosine_matrix(a, a), cosine_matrix(b, b)
    ),
    "pair_consistency": lambda a, b, y: pair_consistency(a, b, rolled(b, 1), 0.2),
    "in_batch_g2l": lambda a, b, y: in_batch_g2l(
        over_tokens(torch.stack([b, b.flip(1), 0 * b], 1)), a, 0.05
    ),
    "supcon": lambda a, b, y: supcon(a, b, y, 0.07),
    "simclr": lambda a, b, y: supcon(a, b, None, 0.07),
    "cross_view_supcon": lambda a, b, y: cross_view_supcon(a, b, y, 0.07),
    "class_rank": lambda a, b, y: class_rank_cross_entropy(a, b, y, 0.07),
}
DEGENERATE = {
    "one row": lambda x: x[:1],
    "two rows": lambda x: x[:2],
    "equal rows": lambda x: x[:1].expand(len(x), -1),
    "duplicates": lambda x: torch.cat([x[:3], x[:3]]),
    "a zero vector": lambda x: x * (torch.arange(len(x)) > 0)[:, None],
    "zero vectors": torch.zeros_like,
    "dead": lambda x: x * 1e-32,
    "large": lambda x: x * 1e4,
}


def rows(dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(6, 16, generator=generator)
    return first.to(dtype), (first + 0.7 * torch.randn(6, 16, generator=generator)).to(dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str
)
@pytest.mark.parametrize("name", LOSSES)
def test_degenerate_batches_are_finite(name: str, dtype: torch.dtype) -> None:
    for case, same in itertools.product(DEGENERATE, (False, True)):
        first, second = (DEGENERATE[case](x) for x in rows(dtype))
        a = first.detach().clone().requires_grad_()
        b = (first if same else second).detach().clone().requires_grad_()
        for labels in (torch.zeros(len(a), dtype=torch.int64), torch.arange(len(a)) // 2):
            loss = LOSSES[name](a, b, labels)
            assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
            assert loss.isfinite(), (case, same)
            gradients = torch.autograd.grad(loss, (a, b), allow_unused=True)
            if dtype == torch.float16 and case in ("a zero vector", "zero vectors", "dead"):
                continue  # a zero vector's gradient, up to 1e8, leaves the range of float16
            assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)


def test_a_loss_takes_its_tensors_by_name() -> None:
    a, b = rows(torch.bfloat16)
    named = cosine_matrix(rows=a, columns=b)
    torch.testing.assert_close(named, cosine_matrix(a, b), rtol=0, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_autocast_and_half_inputs_change_no_digit(name: str) -> None:
    """Half-precision inputs give what the same numbers give in float32, within autocast and
    without.
    """
    a, b = rows(torch.bfloat16)
    labels = torch.arange(6) // 2
    expected = LOSSES[name](a.float(), b.float(), labels)
    torch.testing.assert_close(LOSSES[name](a, b, labels), expected, rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(LOSSES[name](a, b, labels), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            LOSSES[name](a.float(), b.float(), labels), expected, rtol=1e-5, atol=1e-6
        )
