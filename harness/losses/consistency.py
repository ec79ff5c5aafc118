"""Consistency of matched and mismatched text-image pairs (DALR section 3.2)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.precision import in_float32


@in_float32
def pair_consistency(texts: Tensor, matched: Tensor, mismatched: Tensor | None, margin: float) -> Tensor:
    """Cosine embedding loss over pairs, (N, d) each -> scalar, the mean over all pairs.

    A text with its own image costs 1 - cos, with a wrong one max(0, cos - margin); without mismatched images only the
    first kind counts. DALR Eq. 5.
    """
    losses = 1 - _cosines(texts, matched)
    if mismatched is not None:
        losses = torch.cat([losses, (_cosines(texts, mismatched) - margin).clamp_min(0)])
    return losses.mean()


def rolled(images: Tensor, shift: int) -> Tensor | None:
    """A wrong image for each text: row i gets row i - shift, (N, d) -> (N, d); None where that is its own."""
    return images.roll(shift, 0) if shift % len(images) else None


def _cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of each row with its partner, (N,); 0 for a zero vector."""
    return (functional.normalize(first, dim=-1, eps=1e-8) * functional.normalize(second, dim=-1, eps=1e-8)).sum(-1)
