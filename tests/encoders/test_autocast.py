"""Precisions: which devices have them, and a line about those that have not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fake_device import tf32

from harness import processors
from harness.encoders.precision import EMULATE, autocast, check_precision, float32_products
from harness.errors import UserError


@pytest.fixture(autouse=True)
def _not_forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(EMULATE, raising=False)
    yield
    processors.has_bf16.cache_clear()


def described(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str | None) -> None:
    """Let the processor have an account of its own; None for a system without one."""
    file = folder / "cpuinfo"
    if text is not None:
        file.write_text(f"processor : 0\nmodel name : Some Processor\n{text}\n\nprocessor : 1\n{text}\n")
    monkeypatch.setattr(processors, "INFO", file)
    processors.has_bf16.cache_clear()


@pytest.mark.parametrize(
    "account", ["flags : fpu avx512f avx512_bf16 amx_tile", "flags : sse amx_bf16", "Features : fp asimd bf16", None]
)
def test_bf16_is_allowed_on_a_processor_that_has_it(
    account: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described(monkeypatch, tmp_path, account)
    check_precision("bf16", "cpu")


@pytest.mark.parametrize("account", ["flags : fpu avx2 avx512f", "Features : fp asimd"])
def test_bf16_is_refused_on_a_processor_that_would_emulate_it(
    account: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described(monkeypatch, tmp_path, account)
    check_precision("fp32", "cpu")
    with pytest.raises(UserError, match=f"bf16 would be emulated slowly.*--set precision=fp32, or set {EMULATE}=1"):
        check_precision("bf16", "cpu")
    monkeypatch.setenv(EMULATE, "1")
    check_precision("bf16", "cpu")


def test_fp16_needs_a_card() -> None:
    with pytest.raises(UserError, match=r"fp16 needs a CUDA device.*--set precision=fp32"):
        check_precision("fp16", "cpu")
    check_precision("fp16", "cuda")


def test_bf16_is_refused_on_a_card_that_would_emulate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla V100")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    with pytest.raises(UserError, match=r"bf16.*Tesla V100 does not; give --set precision=fp32, or set"):
        check_precision("bf16", "cuda")
    check_precision("fp32", "cuda")


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_products_on_a_card_use_tf32_in_that_precision_alone(precision: str) -> None:
    before = tf32()
    with float32_products(precision, "cuda"):
        assert tf32() == (precision == "tf32",) * 2
    assert tf32() == before
    with float32_products(precision, "cpu"):
        assert tf32() == before


@pytest.mark.parametrize(("precision", "kind"), [("bf16", "bfloat16"), ("fp32", "float32"), ("tf32", "float32")])
def test_layers_compute_in_the_precision_and_weights_do_not_change(precision: str, kind: str) -> None:
    """TF32 is float32 where there is no card."""
    layer = torch.nn.Linear(2, 2)
    with autocast(precision, "cpu"):
        assert layer(torch.zeros(1, 2)).dtype == getattr(torch, kind)
    assert layer.weight.dtype == torch.float32
