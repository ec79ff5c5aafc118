"""Contrastive losses over a batch: InfoNCE and its similarities."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.precision import in_float32


@in_float32
def cosine_matrix(rows: Tensor, columns: Tensor) -> Tensor:
    """Cosine similarity of every row with every column: (N, d), (M, d) -> (N, M).

    A zero vector has cosine 0 with everything; norms below 1e-8 are taken as 1e-8.
    """
    return functional.normalize(rows, dim=-1, eps=1e-8) @ functional.normalize(columns, dim=-1, eps=1e-8).T


@in_float32
def cross_entropy_diagonal(logits: Tensor) -> Tensor:
    """Mean over rows of the cross-entropy whose target for row i is column i: (N, M >= N) -> scalar."""
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def info_nce(anchors: Tensor, positives: Tensor, temperature: float) -> Tensor:
    """InfoNCE in one direction: row i of `anchors` must find row i of `positives` among all N of them.

    Shapes (N, d), (N, d) -> scalar; the mean over the batch. SimCSE Eq. 1 and MCSE Eq. 1 with the two dropout views;
    MCSE Eq. 3 (one view) with sentence and image vectors.
    """
    return cross_entropy_diagonal(cosine_matrix(anchors, positives) / temperature)


def info_nce_hard(
    anchors: Tensor, positives: Tensor, negatives: Tensor, temperature: float, weight: float = 0.0
) -> Tensor:
    """InfoNCE with a hard negative for each row: row i must find its positive among N positives and N negatives.

    Shapes (N, d) each -> scalar; the mean over the batch. `weight` is added to the logit of a row's own negative, after
    the temperature. SimCSE Eq. 5 and appendix B; NonLing Eq. 3.
    """
    near = cosine_matrix(anchors, positives) / temperature
    far = cosine_matrix(anchors, negatives) / temperature
    own = weight * torch.eye(len(far), dtype=far.dtype, device=far.device)
    return cross_entropy_diagonal(torch.cat([near, far + own], dim=1))
