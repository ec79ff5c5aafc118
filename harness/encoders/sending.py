"""Sending inputs to the device."""

from __future__ import annotations

import torch
from torch import Tensor


def sent(value: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device.

    A copy to a card is queued behind the work it has, from pinned memory, so that the host goes on to the next batch.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)
