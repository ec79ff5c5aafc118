"""Dropout by masks of 16-bit draws, and attention a few heads at a time, which drops weights by such masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from harness.encoders import kernels
from harness.encoders.kernels import Dropout, blocked_attention, dropped, quicken, seed_dropout


@pytest.mark.parametrize(("chance", "kind"), [(0.1, torch.float32), (0.5, torch.bfloat16), (1e-5, torch.float64)])
def test_elements_drop_with_their_probability_and_the_others_grow(chance: float, kind: torch.dtype) -> None:
    """Over 16 masks of a million elements, within five standard errors of p, for p no multiple of 1/65536 too."""
    torch.manual_seed(0)
    count, draws = 10**6 + 3, 16
    masks = [dropped(torch.ones(count, dtype=kind), chance) for _ in range(draws)]
    assert {value.dtype for value in masks} == {kind}
    assert set(torch.cat(masks).unique().tolist()) <= {0.0, torch.tensor(1 / (1 - chance), dtype=kind).item()}
    share = sum(int((mask == 0).sum()) for mask in masks) / (draws * count)
    # the number of values that drop is drawn once a mask: 65536 p rounded down or up
    error = (chance * (1 - chance) / (draws * count) + 0.25 / 65536**2 / draws) ** 0.5
    assert abs(share - chance) < 5 * error
    assert not torch.equal(masks[0], masks[1])


def test_the_gradient_passes_where_the_value_did_and_nothing_and_everything_drops() -> None:
    values = torch.randn(7, 5, 3, requires_grad=True)
    found = dropped(values, 0.4)
    (gradient,) = torch.autograd.grad(found.sum(), values)
    torch.testing.assert_close(found, values * gradient)
    assert 0 < int((gradient == 0).sum()) < values.numel()
    assert dropped(values, 0.0) is values
    assert not dropped(values, 1.0).any()


def test_every_dropout_of_a_model_is_replaced_and_rests_in_evaluation() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.5))).eval()
    quicken(model)
    values = torch.ones(64, 4)
    assert isinstance(model[1][0], Dropout)
    assert model[1][0].p == 0.5
    assert torch.equal(model[1](values), values)
    assert (model.train()[1](values) == 0).any()


def test_a_seed_gives_the_draws_of_torchs_own() -> None:
    drawn = []
    for seed in (torch.manual_seed, lambda seed: seed_dropout(seed, torch.device("cpu"))):
        seed(7)
        drawn.append((torch.rand(9), dropped(torch.ones(99), 0.5)))
    torch.testing.assert_close(*drawn, rtol=0, atol=0)


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
    monkeypatch.setattr(kernels, "_BYTES", 4 * LENGTH**2 * heads)
    given, results = drawn(), []
    for compute in (lambda: blocked_attention(*given, bias, CHANCE, SCALE), lambda: written_out(*given, bias)):
        torch.manual_seed(1)
        results.append(with_gradients(given, compute()))
    torch.testing.assert_close(*results, rtol=0, atol=1e-13)


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
