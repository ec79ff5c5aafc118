"""Precisions: which devices have them, and a line about those that have not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import tf32
from torch.utils._python_dispatch import TorchDispatchMode

from harness import processors
from harness.encoders.precision import EMULATE, autocast, check_precision, set_float32_products
from harness.encoders.student import Student
from harness.errors import UserError
from harness.toy import student_folder


@pytest.fixture(autouse=True)
def _not_forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(EMULATE, raising=False)
    yield
    processors.has_bf16.cache_clear()


@pytest.mark.parametrize(
    ("account", "has"),
    [
        ("flags : fpu avx512f avx512_bf16 amx_tile", True),
        ("flags : sse amx_bf16", True),
        ("Features : fp asimd bf16", True),
        (None, True),  # a system whose processors give no account of themselves
        ("flags : fpu avx2 avx512f", False),
        ("Features : fp asimd", False),
    ],
)
def test_bf16_is_refused_on_a_processor_that_would_emulate_it(
    account: str | None, has: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if account is not None:
        (tmp_path / "cpuinfo").write_text(
            f"processor : 0\nmodel name : Some Processor\n{account}\n\nprocessor : 1\n"
        )
    monkeypatch.setattr(processors, "INFO", tmp_path / "cpuinfo")
    processors.has_bf16.cache_clear()
    with (
        nullcontext()
        if has
        else pytest.raises(
            UserError, match=f"bf16 would be emulated slowly.*precision=fp32, or set {EMULATE}=1"
        )
    ):
        check_precision("bf16", "cpu")
    check_precision("fp32", "cpu")
    monkeypatch.setenv(EMULATE, "1")
    check_precision("bf16", "cpu")


def test_bf16_is_refused_on_a_card_that_would_emulate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    with pytest.raises(
        UserError, match=r"bf16.*Tesla V100 does not; give --set precision=fp32, or set"
    ):
        check_precision("bf16", "cuda")
    for precision in ("fp16", "fp32"):
        check_precision(precision, "cuda")


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_products_on_a_card_use_tf32_in_that_precision_alone(precision: str) -> None:
    before = tf32()
    with set_float32_products(precision, "cuda"):
        assert tf32() == (precision == "tf32",) * 2
    assert tf32() == before
    with set_float32_products(precision, "cpu"):
        assert tf32() == before


class _Casts(TorchDispatchMode):
    """The addresses of the tensors that are cast in this context."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.addresses.append(args[0].data_ptr())
        return func(*args, **(kwargs or {}))


def test_two_passes_of_a_step_share_the_cast_of_each_weight() -> None:
    student = Student.load(student_folder()).train()
    tokens = student.tokenize(["a red circle", "a dog"], 8)
    weights = [
        module.weight for module in student.model.modules() if isinstance(module, torch.nn.Linear)
    ]
    with _Casts() as casts, autocast("bf16", "cpu"):
        first, second = student.encode(tokens, 2), student.encode(tokens, 1)
    assert [casts.addresses.count(weight.data_ptr()) for weight in weights] == [1] * len(weights)

    (first.sum() + second.sum()).backward()
    assert {weight.grad.dtype for weight in weights if weight.grad is not None} == {torch.float32}
