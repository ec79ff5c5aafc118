"""Attention a few heads at a time: that of the formula with the same weights dropped, and its gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.encoders import dropout
from harness.encoders.dropout import blocked_attention, dropped

HEADS, ROWS, LENGTH, WIDTH = 3, 4, 7, 5
CHANCE, SCALE = 0.3, 0.4


def drawn(kind: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(HEADS * ROWS, LENGTH, WIDTH, dtype=kind).requires_grad_() for _ in range(3)]


def masked() -> Tensor:
    """The bias of rows of 7, 3, 1 and 6 tokens."""
    lengths = torch.tensor([7, 3, 1, 6]).unsqueeze(1)
    return torch.zeros(ROWS, 1, LENGTH, dtype=torch.float64).masked_fill_(
        (torch.arange(LENGTH) >= lengths).unsqueeze(1), -torch.inf
    )


def written_out(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(q k / scale + bias), dropped, times v, with all scores in memory."""
    scores = SCALE * query @ key.transpose(1, 2)
    if bias is not None:
        scores = scores + bias.repeat(HEADS, 1, 1)
    return dropped(scores.softmax(-1), CHANCE) @ value


def with_gradients(given: list[Tensor], found: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, found.numel(), dtype=torch.float64).view(found.shape)
    return [found.detach(), *torch.autograd.grad((found * weights).sum(), given)]


@pytest.mark.parametrize("heads", [1, 5, 12, 100])
@pytest.mark.parametrize("bias", [None, masked()], ids=["all tokens", "rows of different lengths"])
def test_values_and_gradients_are_those_of_the_formula(
    heads: int, bias: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of heads at a time; the same random state drops the same weights."""
    monkeypatch.setattr(dropout, "_BYTES", 4 * LENGTH**2 * heads)
    given, results = drawn(), []
    for compute in (
        lambda: blocked_attention(*given, bias, CHANCE, SCALE),
        lambda: written_out(*given, bias),
    ):
        torch.manual_seed(1)
        results.append(with_gradients(given, compute()))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)


def test_weights_are_float32_where_products_are_in_bf16() -> None:
    """As with autocast, whose softmax is in float32; what is left is the rounding of the products."""
    given = drawn()
    half = [each.detach().bfloat16().requires_grad_() for each in given]
    torch.manual_seed(1)
    expected = with_gradients(given, written_out(*given, None))
    torch.manual_seed(1)
    found = blocked_attention(*half, None, CHANCE, SCALE)
    assert found.dtype == torch.bfloat16
    for ours, theirs in zip(with_gradients(half, found), expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=0.02 * float(theirs.abs().max()))
