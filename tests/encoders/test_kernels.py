"""Kernels of attention: found by signature, tried on the device, replaced where they fail; and
dropout on a CPU.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fake_device import CUDA, fake_cuda
from torch import Tensor, nn

from harness.encoders import kernels
from harness.encoders.kernels import (
    Dropout,
    apply_dropout,
    compute_blocked_attention,
    compute_scattered_attention,
    find_attention,
    replace_dropout,
    seed_dropout,
)
from harness.encoders.precision import autocast
from harness.encoders.rows import Packed, TokenRows
from harness.encoders.student import Student
from harness.toy import student_folder

HEADS, SIZE = 4, 16
SENTENCES = ["a red circle", "a", "two blue squares below a ring"]


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    """Trials of one test say nothing to the next."""
    find_attention.cache_clear()
    yield
    find_attention.cache_clear()


def raises(packed: Packed, query: Tensor, *rest: Any) -> Tensor:
    raise RuntimeError("no kernel image\nis available")


def forgets_the_gradient(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any
) -> Tensor:
    return compute_scattered_attention(packed, query.detach(), key, value, *rest)


def mixes_rows(packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
    whole = TokenRows.from_lists([[0] * len(packed.ids)], 0).packed
    return compute_scattered_attention(whole, query, key, value, *rest)


def gives_nan(packed: Packed, *given: Any) -> Tensor:
    return compute_scattered_attention(packed, *given) * torch.nan


def one_slope_is_wrong(
    packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any
) -> Tensor:
    return compute_scattered_attention(packed, query, key, value, *rest) + (value - value.detach())


def chosen(monkeypatch: pytest.MonkeyPatch, *candidates: Any) -> Any:
    """Which of several kinds of attention is taken."""

    def list_candidates(device: torch.device, dtype: torch.dtype) -> list[tuple[Any, str]]:
        return [(candidate, candidate.__name__) for candidate in candidates]

    monkeypatch.setattr(kernels, "_list_attentions", list_candidates)
    return find_attention(torch.device("cpu"), torch.float32, HEADS, SIZE)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (raises, "no kernel image"),
        (forgets_the_gradient, "grad"),
        (mixes_rows, "differ"),
        (gives_nan, "differ"),
        (one_slope_is_wrong, "differ"),
    ],
)
def test_a_kernel_that_fails_is_named_once_and_the_next_is_taken(
    broken: Any, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), torch.inference_mode():
        for _ in range(2):
            assert (
                chosen(monkeypatch, broken, compute_scattered_attention)
                is compute_scattered_attention
            )
    (message,) = caplog.messages
    assert broken.__name__ in message
    assert reason in message
    assert "float32" in message


def test_where_every_attention_fails_the_encoder_is_padded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = Student.load(student_folder()).embed(SENTENCES)
    find_attention.cache_clear()
    student = Student.load(student_folder())
    assert chosen(monkeypatch, raises, gives_nan) is None
    monkeypatch.setattr("harness.encoders.student.run_to_first_tokens", raises)
    padded = torch.from_numpy(student.embed(SENTENCES))
    torch.testing.assert_close(padded, torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_this_torch_has_the_kernels_with_the_expected_signatures() -> None:
    assert [name for name in kernels._ARGUMENTS if not kernels._has_expected_arguments(name)] == []
    assert not kernels._has_expected_arguments("no_such_kernel")


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given.replace("max_q", "max_seqlen_q"),
        lambda given: given.rpartition(", ")[0],
        lambda given: "",
    ],
)
def test_a_kernel_with_another_signature_is_not_called(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {
        name: change(given).replace("max_seqlen_q", "longest_q")
        for name, given in kernels._ARGUMENTS.items()
    }
    with fake_cuda():
        assert find_attention(CUDA, torch.float64, HEADS, SIZE) is compute_scattered_attention, (
            "there is none for double precision"
        )
        monkeypatch.setattr(kernels, "_ARGUMENTS", changed)
        for dtype in (torch.bfloat16, torch.float32):
            assert find_attention(CUDA, dtype, HEADS, SIZE) is compute_scattered_attention


@pytest.mark.parametrize(
    ("dtype", "capability", "kernel"),
    [
        (torch.bfloat16, (8, 0), "FlashAttention"),
        (torch.float16, (9, 0), "FlashAttention"),
        (torch.float16, (7, 5), "EfficientAttention"),
        (torch.float32, (8, 0), "EfficientAttention"),
    ],
)
def test_a_card_computes_without_padding_with_dropout_and_gradient(
    dtype: torch.dtype, capability: tuple[int, int], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = TokenRows.from_lists([[5], [6, 7, 8], [9, 9]], 0).packed
    with fake_cuda():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        attention = find_attention(CUDA, dtype, HEADS, SIZE)
        given = [
            torch.zeros(12, HEADS, SIZE, dtype=dtype, device=CUDA, requires_grad=True)
            for _ in range(3)
        ]
        output = attention(packed.to(CUDA).repeat(2), *given, 0.1, 0.25)
        assert (output.shape, output.dtype, output.is_cuda) == ((12, HEADS, SIZE), dtype, True)
        node: Any = output.grad_fn
        while not node.name().endswith(f"{kernel}Backward0"):
            (node, _), *_ = node.next_functions


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_student_takes_the_attention_of_its_precision(precision: str) -> None:
    kinds = {"fp32": "efficient", "bf16": "flash"}
    with fake_cuda():
        student = Student.load(student_folder()).to(CUDA).train()
        with autocast(precision, "cuda"):
            packing = student.packing and student.packing.select_attention(student.model)
            assert packing.attention.__name__ == f"_compute_{kinds[precision]}_attention"
            tokens = student.tokenize(SENTENCES, 9).to(CUDA)
            assert student.encode(tokens, 2).shape == (3, 2, student.width)


@pytest.mark.parametrize(
    ("chance", "kind"),
    [
        (0.1, torch.float32),
        pytest.param(0.5, torch.bfloat16, marks=pytest.mark.long),
        pytest.param(1e-5, torch.float64, marks=pytest.mark.long),
    ],
)
def test_elements_drop_with_their_probability_and_the_others_grow(
    chance: float, kind: torch.dtype
) -> None:
    """Over 16 masks of a million elements, within five standard errors of p, for p no multiple of
    1/65536 too.
    """
    torch.manual_seed(0)
    count, draws = 10**6 + 3, 16
    masks = [apply_dropout(torch.ones(count, dtype=kind), chance) for _ in range(draws)]
    assert {value.dtype for value in masks} == {kind}
    assert set(torch.cat(masks).unique().tolist()) <= {
        0.0,
        torch.tensor(1 / (1 - chance), dtype=kind).item(),
    }
    share = sum(int((mask == 0).sum()) for mask in masks) / (draws * count)
    # the number of values that drop is drawn once a mask: 65536 p rounded down or up
    error = (chance * (1 - chance) / (draws * count) + 0.25 / 65536**2 / draws) ** 0.5
    assert abs(share - chance) < 5 * error
    assert not torch.equal(masks[0], masks[1])


def test_the_gradient_passes_where_the_value_did_and_nothing_and_everything_drops() -> None:
    values = torch.randn(7, 5, 3, requires_grad=True)
    kept = apply_dropout(values, 0.4)
    (gradient,) = torch.autograd.grad(kept.sum(), values)
    torch.testing.assert_close(kept, values * gradient)
    assert 0 < int((gradient == 0).sum()) < values.numel()
    assert apply_dropout(values, 0.0) is values
    assert not apply_dropout(values, 1.0).any()


def test_every_dropout_of_a_model_is_replaced_and_rests_in_evaluation() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.5))).eval()
    replace_dropout(model)
    values = torch.ones(64, 4)
    assert isinstance(model[1][0], Dropout)
    assert model[1][0].p == 0.5
    assert torch.equal(model[1](values), values)
    assert (model.train()[1](values) == 0).any()


def test_a_seed_gives_the_draws_of_torchs_own() -> None:
    drawn = []
    for seed in (torch.manual_seed, lambda seed: seed_dropout(seed, torch.device("cpu"))):
        seed(7)
        drawn.append((torch.rand(9), apply_dropout(torch.ones(99), 0.5)))
    torch.testing.assert_close(*drawn, rtol=0, atol=0)


SETS, ROWS, LENGTH, WIDTH = 3, 4, 7, 5
CHANCE, SCALE = 0.3, 0.4


def drawn(kind: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(SETS * ROWS, LENGTH, WIDTH, dtype=kind).requires_grad_() for _ in range(3)]


def masked() -> Tensor:
    """The bias of rows of 7, 3, 1 and 6 tokens."""
    lengths = torch.tensor([7, 3, 1, 6]).unsqueeze(1)
    return torch.zeros(ROWS, 1, LENGTH, dtype=torch.float64).masked_fill_(
        (torch.arange(LENGTH) >= lengths).unsqueeze(1), -torch.inf
    )


def written_out(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, chance: float = CHANCE
) -> Tensor:
    """softmax(q k / scale + bias), dropped, times v, with all scores in memory."""
    scores = SCALE * query @ key.transpose(1, 2)
    if bias is not None:
        scores = scores + bias.repeat(SETS, 1, 1)
    return apply_dropout(scores.softmax(-1), chance) @ value


def with_gradients(given: list[Tensor], output: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view(output.shape)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), given)]


@pytest.mark.parametrize("heads", [1, 5, 12, 100])
@pytest.mark.parametrize("bias", [None, masked()], ids=["all tokens", "rows of different lengths"])
@pytest.mark.parametrize("chance", [0, CHANCE])
def test_values_and_gradients_are_those_of_the_formula(
    heads: int, bias: Tensor | None, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of heads at a time; the same random state drops the same weights."""
    monkeypatch.setattr(kernels, "_BYTES", 4 * LENGTH**2 * heads)
    given, results = drawn(), []
    for compute in (
        lambda: compute_blocked_attention(*given, bias, chance, SCALE),
        lambda: written_out(*given, bias, chance),
    ):
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
    output = compute_blocked_attention(*half, None, CHANCE, SCALE)
    assert output.dtype == torch.bfloat16
    for ours, theirs in zip(with_gradients(half, output), expected, strict=True):
        torch.testing.assert_close(
            ours.double(), theirs, rtol=0, atol=0.02 * float(theirs.abs().max())
        )
