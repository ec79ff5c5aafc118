"""Projection heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TanhHead(nn.Sequential):
    """One linear layer and a tanh: (..., d_in) -> (..., d_out).

    The single-layer MLP of MCSE section 4.1. With `std` the weights are drawn from a normal distribution of that
    deviation and the bias is 0, as in BERT (the text head of SimCSE and MCSE); otherwise PyTorch's default is kept
    (MCSE's multimodal heads).
    """

    def __init__(self, width_in: int, width_out: int, std: float | None = None) -> None:
        linear = nn.Linear(width_in, width_out)
        if std is not None:
            nn.init.normal_(linear.weight, std=std)
            nn.init.zeros_(linear.bias)
        super().__init__(linear, nn.Tanh())


def by_view(head: nn.Module, vectors: Tensor) -> tuple[Tensor, ...]:
    """Apply a head to (B, views, d) and return one (B, d_out) tensor per view."""
    return torch.unbind(head(vectors), dim=1)
