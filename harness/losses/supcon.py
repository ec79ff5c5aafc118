"""Supervised contrastive losses over two views of N items with classes, in the forms that NonLing's sources have."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.contrastive import cosine_matrix
from harness.losses.precision import in_float32


@in_float32
def supcon(
    first: Tensor, second: Tensor, labels: Tensor | None, temperature: float, base_temperature: float | None = None
) -> Tensor:
    """SupCon over all 2N vectors: views (N, d) twice, labels (N,) -> scalar. Without labels it is SimCLR.

    The positives of a vector are its other view and both views of each item of its class; the log-probabilities are
    averaged over the positives, then over the vectors. `base_temperature` multiplies the loss by temperature /
    base_temperature. Khosla et al. 2020, the form with the mean outside the logarithm.
    """
    items = torch.arange(len(first), device=first.device) if labels is None else labels
    vectors, classes = torch.cat([first, second]), torch.cat([items, items])
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    logits = (cosine_matrix(vectors, vectors) / temperature).masked_fill(itself, -torch.inf)
    found = functional.log_softmax(logits, dim=1).masked_fill(itself, 0)
    positive = ((classes[:, None] == classes) & ~itself).to(found.dtype)
    loss = -((found * positive).sum(dim=1) / positive.sum(dim=1)).mean()
    return loss if base_temperature is None else loss * (temperature / base_temperature)


@in_float32
def cross_view_supcon(first: Tensor, second: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """One logarithm of a ratio: the second views of a first view's class against all: (N, d) twice, (N,) -> scalar.

    NonLing Eq. 4 and 6 with the positives in the denominator and first with second views throughout; with classes that
    differ it is Eq. 5, InfoNCE. The mean over the batch.
    """
    logits = cosine_matrix(first, second) / temperature
    own = logits.masked_fill(labels[:, None] != labels, -torch.inf)
    return (logits.logsumexp(dim=1) - own.logsumexp(dim=1)).mean()


@in_float32
def class_rank_cross_entropy(first: Tensor, second: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Cross-entropy whose target column is the rank of a row's class in the batch: (N, d) twice, (N,) -> scalar.

    What the public code of VisualCSE and AudioCSE computes for SupCon: row i is drawn towards the second view of
    whichever item stands at the place of that rank.
    """
    return functional.cross_entropy(cosine_matrix(first, second) / temperature, _ranks(labels))


def _ranks(labels: Tensor) -> Tensor:
    """How many classes of the batch are below each item's: (N,) -> (N,); unlike torch.unique, nothing is waited for."""
    ordered, places = labels.sort()
    return torch.empty_like(places).scatter_(0, places, functional.pad(ordered.diff() != 0, (1, 0)).cumsum(0))
