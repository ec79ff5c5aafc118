"""Numerical precision of models: autocast, TF32, and which processors and GPUs support bf16."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from harness.errors import UserError
from harness.processors import has_bf16

#: precisions below float32
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
#: the environment variable that allows a processor to emulate bf16
EMULATE = "HARNESS_EMULATE_BF16"


def autocast(precision: str, device: str) -> AbstractContextManager[object]:
    """Return a context in which layers compute in 'bf16' or 'fp16' on a device ('cpu', 'cuda');
    no-op otherwise.

    Weights, losses and everything outside the layers stay in float32.
    """
    if precision not in TYPES:
        return nullcontext()
    return torch.autocast(torch.device(device).type, TYPES[precision])


@contextmanager
def set_float32_products(precision: str, device: str) -> Iterator[None]:
    """Allow TF32 in float32 products and convolutions on a GPU in precision 'tf32', forbid it in
    any other.

    GPUs and processors without TF32 compute in float32. The backward pass needs the context too.
    """
    if torch.device(device).type != "cuda":
        yield
        return

    products: Any = torch.backends.cuda.matmul
    convolutions: Any = torch.backends.cudnn
    products_before = products.allow_tf32
    convolutions_before = convolutions.allow_tf32
    allowed = precision == "tf32"
    try:
        products.allow_tf32 = allowed
        convolutions.allow_tf32 = allowed  # cuDNN uses TF32 unless told otherwise
        yield
    finally:
        products.allow_tf32 = products_before
        convolutions.allow_tf32 = convolutions_before


def check_precision(precision: str, device: str) -> None:
    """Raise UserError for an autocast type that a device ('cpu', 'cuda') does not have or would
    emulate slowly.
    """
    if precision == "fp16" and device != "cuda":
        raise UserError(
            f"precision fp16 needs a CUDA device, this run is on {device}; give --set precision=fp32 or bf16"
        )
    if precision != "bf16" or os.environ.get(EMULATE):
        return

    if device == "cpu" and not has_bf16():
        raise UserError(
            "precision bf16 would be emulated slowly: this processor has no instructions for it; give --set "
            f"precision=fp32, or set {EMULATE}=1 to use it anyway"
        )

    # torch emulates bf16 on GPUs without it, more slowly than float32
    if device == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UserError(
            f"precision bf16 needs a GPU that supports it, but {torch.cuda.get_device_name()} does not; give --set "
            f"precision=fp32, or set {EMULATE}=1 to use it anyway"
        )
