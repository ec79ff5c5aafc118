"""Adaptive angular margin and filter for the negatives of a batch (KDMCSE sections 3.2 and 3.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.losses.contrastive import cosine_matrix, cross_entropy_diagonal
from harness.losses.precision import in_float32

#: what happens to a negative nearer than its margin: its angle becomes 0, or it stays as it is
NEAR = ("clamp", "keep")


@in_float32
def angular_margin(cosines: Tensor, margin: float, soft: Tensor | None = None, near: str = "clamp") -> Tensor:
    """Make each negative look nearer by an angle: cosines (N, N) -> cosines (N, N), the diagonal untouched.

    The angle theta of a negative becomes theta - (1 - soft) * margin, in radians, or theta - margin without soft labels
    `soft` (N, N). Past 0 the cosine would fall again: with `near` 'clamp' the angle stops at 0, with 'keep' a negative
    with theta <= margin stays as it is. KDMCSE Eq. 12 and 13; 'keep' is its public code.
    """
    if margin == 0:
        return cosines
    shift = torch.full_like(cosines, margin) if soft is None else (1 - soft.to(cosines.dtype)) * margin
    within = cosines >= shift.cos() if near == "clamp" else cosines >= math.cos(margin)
    apart = cosines.clamp(-1, 1).masked_fill(within, 0)
    # cos(t - d) by the addition theorem: unlike the arc cosine, the guarded root has a finite slope at +-1
    sine = ((1 - apart) * (1 + apart)).clamp_min(1e-12).sqrt()
    moved = apart * shift.cos() + sine * shift.sin()
    moved = torch.where(within, torch.ones_like(moved) if near == "clamp" else cosines, moved)
    return torch.where(_diagonal(cosines), cosines, moved)


@in_float32
def too_alike(rows: Tensor, columns: Tensor, threshold: float, *, normalised: bool = True) -> Tensor:
    """Which negatives are none by a teacher's view: (N, f), (N, f) -> (N, N) bool, never on the diagonal.

    Those whose cosine, or inner product of the features as they are, exceeds the threshold. KDMCSE Eq. 8 with its two
    cases swapped, as its section 3.2 requires.
    """
    scores = cosine_matrix(rows, columns) if normalised else rows @ columns.T
    return (scores > threshold) & ~_diagonal(scores)


@in_float32
def margin_info_nce(
    cosines: Tensor,
    temperature: float,
    margin: float,
    soft: Tensor | None = None,
    *,
    near: str = "clamp",
    drop: Tensor | None = None,
) -> Tensor:
    """InfoNCE over a cosine matrix (N, N) with a margin on its negatives, those in `drop` (N, N) left out -> scalar.

    The positive on the diagonal is never left out. KDMCSE Eq. 13 for one dropout view, mean over the batch.
    """
    logits = angular_margin(cosines, margin, soft, near) / temperature
    if drop is not None:
        logits = logits.masked_fill(drop & ~_diagonal(logits), -torch.inf)
    return cross_entropy_diagonal(logits)


def _diagonal(matrix: Tensor) -> Tensor:
    return torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
