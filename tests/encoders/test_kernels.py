"""Kernels of attention: found by their signatures, tried on the device, and replaced where they fail."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fake_device import CUDA, fake_cuda
from torch import Tensor

from harness.encoders import kernels
from harness.encoders.kernels import attention_on, scattered
from harness.encoders.precision import autocast
from harness.encoders.rows import Packed, TokenRows
from harness.encoders.student import Student
from harness.toy import student_folder

HEADS, SIZE = 4, 16
SENTENCES = ["a red circle", "a", "two blue squares below a ring"]


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    """Trials of one test say nothing to the next."""
    attention_on.cache_clear()
    yield
    attention_on.cache_clear()


def raises(packed: Packed, query: Tensor, *rest: Any) -> Tensor:
    raise RuntimeError("no kernel image\nis available")


def forgets_the_gradient(packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
    return scattered(packed, query.detach(), key, value, *rest)


def mixes_rows(packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
    whole = TokenRows.listed([[0] * len(packed.ids)], 0).packed
    return scattered(whole, query, key, value, *rest)


def gives_nan(packed: Packed, *given: Any) -> Tensor:
    return scattered(packed, *given) * torch.nan


def one_slope_is_wrong(packed: Packed, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
    return scattered(packed, query, key, value, *rest) + (value - value.detach())


def chosen(monkeypatch: pytest.MonkeyPatch, *candidates: Any) -> Any:
    """Which of several kinds of attention is taken."""
    monkeypatch.setattr(kernels, "_candidates", lambda device, dtype: iter(candidates))
    return attention_on(torch.device("cpu"), torch.float32, HEADS, SIZE)


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
            assert chosen(monkeypatch, broken, scattered) is scattered
    (message,) = caplog.messages
    assert broken.__name__ in message
    assert reason in message
    assert "float32" in message


def test_where_every_attention_fails_the_encoder_is_padded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = Student.load(student_folder()).embed(SENTENCES)
    attention_on.cache_clear()
    student = Student.load(student_folder())
    assert chosen(monkeypatch, raises, gives_nan) is None
    monkeypatch.setattr("harness.encoders.student.first_tokens", raises)
    found = torch.from_numpy(student.embed(SENTENCES))
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=0, atol=1e-5)


def test_this_torch_has_the_kernels_with_the_expected_signatures() -> None:
    assert [name for name in kernels._ARGUMENTS if not kernels._as_expected(name)] == []
    assert not kernels._as_expected("no_such_kernel")


@pytest.mark.parametrize(
    "change",
    [lambda given: given.replace("max_q", "max_seqlen_q"), lambda given: given.rpartition(", ")[0], lambda given: ""],
)
def test_a_kernel_with_another_signature_is_not_called(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {name: change(given).replace("max_seqlen_q", "longest_q") for name, given in kernels._ARGUMENTS.items()}
    monkeypatch.setattr(kernels, "_ARGUMENTS", changed)
    with fake_cuda():
        for dtype in (torch.bfloat16, torch.float32):
            assert attention_on(CUDA, dtype, HEADS, SIZE) is scattered


def test_double_precision_has_no_kernel() -> None:
    with fake_cuda():
        assert attention_on(CUDA, torch.float64, HEADS, SIZE) is scattered


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
    packed = TokenRows.listed([[5], [6, 7, 8], [9, 9]], 0).packed
    with fake_cuda():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        attention = attention_on(CUDA, dtype, HEADS, SIZE)
        given = [torch.zeros(12, HEADS, SIZE, dtype=dtype, device=CUDA, requires_grad=True) for _ in range(3)]
        found = attention(packed.to(CUDA).repeated(2), *given, 0.1, 0.25)
        assert (found.shape, found.dtype, found.is_cuda) == ((12, HEADS, SIZE), dtype, True)
        node: Any = found.grad_fn
        while not node.name().endswith(f"{kernel}Backward0"):
            (node, _), *_ = node.next_functions


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_student_takes_the_attention_of_its_precision(precision: str) -> None:
    with fake_cuda():
        student = Student.load(student_folder()).to(CUDA).train()
        with autocast(precision, "cuda"):
            packing = student.packing and student.packing.on_device(student.model)
            assert packing.attention.__name__ == {"fp32": "_efficient", "bf16": "_flash"}[precision]
            tokens = student.tokenize(SENTENCES, 9).to(CUDA)
            assert student.encode(tokens, 2).shape == (3, 2, student.width)
