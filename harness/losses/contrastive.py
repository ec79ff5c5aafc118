"""Contrastive losses over a batch: InfoNCE, also with an angular margin on its negatives, and with
classes (SupCon).

Each computes in float32 at least, whatever the precision of the model.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional

Loss = TypeVar("Loss", bound=Callable[..., Any])
HALVES = (torch.float16, torch.bfloat16)
#: treatment of a negative with an angle below its margin: the angle becomes 0, or stays as it is
NEAR = ("clamp", "keep")


def in_float32(function: Loss) -> Loss:
    """Let a function of tensors compute in float32 at least: half-precision inputs are promoted,
    autocast is off.

    float64 inputs stay as they are. A cosine in bfloat16 has a step of 0.004 near 1, which a
    temperature of 0.05 would make a step of 0.08 in the logit.
    """

    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        promoted_args = [_promote(value) for value in args]
        promoted_kwargs = {name: _promote(value) for name, value in kwargs.items()}
        with torch.autocast(tensors[0].device.type, enabled=False):
            return function(*promoted_args, **promoted_kwargs)

    return cast(Loss, compute)


def _promote(value: Any) -> Any:
    """A tensor of half precision in float32; anything else as it is."""
    if isinstance(value, Tensor) and value.dtype in HALVES:
        return value.float()
    return value


@in_float32
def cosine_matrix(rows: Tensor, columns: Tensor) -> Tensor:
    """Cosine similarity of every row with every column: (N, d), (M, d) -> (N, M).

    A zero vector has cosine 0 with everything; norms below 1e-8 are taken as 1e-8.
    """
    unit_rows = functional.normalize(rows, dim=-1, eps=1e-8)
    unit_columns = functional.normalize(columns, dim=-1, eps=1e-8)
    return unit_rows @ unit_columns.T


@in_float32
def cross_entropy_diagonal(logits: Tensor) -> Tensor:
    """Mean over rows of the cross-entropy whose target for row i is column i: (N, M >= N) ->
    scalar.
    """
    targets = torch.arange(len(logits), device=logits.device)
    return functional.cross_entropy(logits, targets)


def info_nce(anchors: Tensor, positives: Tensor, temperature: float) -> Tensor:
    """InfoNCE in one direction: row i of `anchors` must find row i of `positives` among all N of
    them.

    Shapes (N, d), (N, d) -> scalar; the mean over the batch. SimCSE Eq. 1 and MCSE Eq. 1 with the
    two dropout views; MCSE Eq. 3 (one view) with sentence and image vectors.
    """
    logits = cosine_matrix(anchors, positives) / temperature
    return cross_entropy_diagonal(logits)


def info_nce_hard(
    anchors: Tensor, positives: Tensor, negatives: Tensor, temperature: float, weight: float = 0.0
) -> Tensor:
    """InfoNCE with a hard negative for each row: row i must find its positive among N positives and
    N negatives.

    Shapes (N, d) each -> scalar; the mean over the batch. `weight` is added to the logit of a row's
    own negative, after the temperature. SimCSE Eq. 5 and appendix B; NonLing Eq. 3.
    """
    positive_logits = cosine_matrix(anchors, positives) / temperature
    negative_logits = cosine_matrix(anchors, negatives) / temperature
    own_negatives = _diagonal(negative_logits).to(negative_logits.dtype)
    negative_logits = negative_logits + weight * own_negatives
    return cross_entropy_diagonal(torch.cat([positive_logits, negative_logits], dim=1))


@in_float32
def angular_margin(
    cosines: Tensor, margin: float, soft: Tensor | None = None, near: str = "clamp"
) -> Tensor:
    """Make each negative look nearer by an angle: cosines (N, N) -> cosines (N, N), the diagonal
    untouched.

    The angle theta of a negative becomes theta - (1 - soft) * margin, in radians, or theta - margin
    without soft labels `soft` (N, N). Past 0 the cosine would fall again: with `near` 'clamp' the
    angle stops at 0, with 'keep' a negative with theta <= margin stays as it is. KDMCSE Eq. 12 and
    13; 'keep' is its public code.
    """
    if margin == 0:
        return cosines

    shift = torch.full_like(cosines, margin)
    if soft is not None:
        shift = (1 - soft.to(cosines.dtype)) * margin

    # negatives nearer than their margin: the angle stops at 0, or the cosine stays
    if near == "clamp":
        is_near = cosines >= shift.cos()
        near_values = torch.ones_like(cosines)
    else:
        # within the whole margin, also with soft labels, as in the public code
        is_near = cosines >= math.cos(margin)
        near_values = cosines

    # cos(theta - shift) by the addition theorem: unlike the arc cosine, the guarded root has a
    # finite slope at +-1
    cosine = cosines.clamp(-1, 1).masked_fill(is_near, 0)
    sine = ((1 - cosine) * (1 + cosine)).clamp_min(1e-12).sqrt()
    moved = cosine * shift.cos() + sine * shift.sin()

    moved = torch.where(is_near, near_values, moved)
    return torch.where(_diagonal(cosines), cosines, moved)


@in_float32
def too_alike(
    rows: Tensor, columns: Tensor, threshold: float, *, normalised: bool = True
) -> Tensor:
    """Mark negatives that a teacher finds too similar: (N, f), (N, f) -> (N, N) bool, never on the
    diagonal.

    Marks cosines, or inner products of the features as they are, above the threshold. KDMCSE Eq. 8
    with its two cases swapped, as its section 3.2 requires.
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
    """InfoNCE over a cosine matrix (N, N) with a margin on its negatives, except those in `drop`
    (N, N) -> scalar.

    The positive on the diagonal is never left out. KDMCSE Eq. 13 for one dropout view, mean over
    the batch.
    """
    logits = angular_margin(cosines, margin, soft, near) / temperature
    if drop is not None:
        logits = logits.masked_fill(drop & ~_diagonal(logits), -torch.inf)
    return cross_entropy_diagonal(logits)


def _diagonal(matrix: Tensor) -> Tensor:
    """A mask of the diagonal of a square matrix: (N, N) -> (N, N) bool."""
    return torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)


@in_float32
def supcon(
    first: Tensor,
    second: Tensor,
    labels: Tensor | None,
    temperature: float,
    base_temperature: float | None = None,
) -> Tensor:
    """SupCon over all 2N vectors: views (N, d) twice, labels (N,) -> scalar. Without labels it is
    SimCLR.

    The positives of a vector are its other view and both views of each item of its class; the
    log-probabilities are averaged over the positives, then over the vectors. `base_temperature`
    multiplies the loss by temperature / base_temperature. Khosla et al. 2020, the form with the
    mean outside the logarithm.
    """
    if labels is None:
        labels = torch.arange(len(first), device=first.device)
    vectors = torch.cat([first, second])
    classes = torch.cat([labels, labels])
    is_itself = _diagonal(vectors)
    is_positive = (classes[:, None] == classes) & ~is_itself

    logits = cosine_matrix(vectors, vectors) / temperature
    logits = logits.masked_fill(is_itself, -torch.inf)
    log_probabilities = functional.log_softmax(logits, dim=1).masked_fill(is_itself, 0)

    positives = is_positive.to(log_probabilities.dtype)
    means = (log_probabilities * positives).sum(dim=1) / positives.sum(dim=1)
    loss = -means.mean()
    if base_temperature is None:
        return loss
    return loss * (temperature / base_temperature)


@in_float32
def cross_view_supcon(first: Tensor, second: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Log ratio of the second views of a first view's class to all second views: (N, d) twice, (N,)
    -> scalar.

    NonLing Eq. 4 and 6 with the positives in the denominator and first with second views
    throughout; with classes that differ it is Eq. 5, InfoNCE. The mean over the batch.
    """
    logits = cosine_matrix(first, second) / temperature
    own_class = logits.masked_fill(labels[:, None] != labels, -torch.inf)
    return (logits.logsumexp(dim=1) - own_class.logsumexp(dim=1)).mean()


@in_float32
def class_rank_cross_entropy(
    first: Tensor, second: Tensor, labels: Tensor, temperature: float
) -> Tensor:
    """Cross-entropy whose target column is the number of the batch's classes below a row's: (N, d)
    twice, (N,) -> scalar.

    The public code of VisualCSE and AudioCSE computes this as SupCon: row i is pulled towards the
    second view of the item whose place in the batch is that rank.
    """
    logits = cosine_matrix(first, second) / temperature
    return functional.cross_entropy(logits, _rank_classes(labels))


def _rank_classes(labels: Tensor) -> Tensor:
    """How many classes of the batch are below each item's: (N,) -> (N,); never blocks, unlike
    torch.unique.
    """
    sorted_labels, places = labels.sort()
    starts_class = functional.pad(sorted_labels.diff() != 0, (1, 0))
    sorted_ranks = starts_class.cumsum(0)
    return torch.empty_like(places).scatter_(0, places, sorted_ranks)
