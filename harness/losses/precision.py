"""The numerical precision of losses, independent of that of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Loss = TypeVar("Loss", bound=Callable[..., Any])
HALVES = (torch.float16, torch.bfloat16)


def in_float32(function: Loss) -> Loss:
    """Let a function of tensors compute in float32 at least: half-precision inputs are promoted, autocast is off.

    float64 inputs stay as they are. A cosine in bfloat16 has a step of 0.004 near 1, which a temperature of 0.05 would
    make a step of 0.08 in the logit.
    """

    @functools.wraps(function)
    def promoted(*values: Any, **named: Any) -> Any:
        device = next(value.device.type for value in values if isinstance(value, Tensor))
        with torch.autocast(device, enabled=False):
            return function(*map(_promoted, values), **{name: _promoted(value) for name, value in named.items()})

    return cast(Loss, promoted)


def _promoted(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in HALVES else value
