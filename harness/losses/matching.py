"""Losses that match texts with images, and a student with its teachers (DALR sections 3.2 and 3.3).

The alignment of Wang and Isola, a score of vectors, is in `harness.evaluation.geometry`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.contrastive import in_float32

#: lower bound of norms: an unused feature of a model, about 1e-32 everywhere, stays near 0 instead
#: of becoming noise of norm 1
FLOOR = 1e-12


@in_float32
def pair_consistency(
    texts: Tensor, matched: Tensor, mismatched: Tensor | None, margin: float
) -> Tensor:
    """Cosine embedding loss over pairs, (N, d) each -> scalar, the mean over all pairs.

    A text with its own image costs 1 - cos, with a wrong one max(0, cos - margin); without
    mismatched images only the first kind counts. DALR Eq. 5.
    """
    losses = 1 - _row_cosines(texts, matched)
    if mismatched is not None:
        excess = (_row_cosines(texts, mismatched) - margin).clamp_min(0)
        losses = torch.cat([losses, excess])
    return losses.mean()


def rolled(images: Tensor, shift: int) -> Tensor | None:
    """A wrong image for each text: row i gets row i - shift, (N, d) -> (N, d); None where that is
    its own.
    """
    if shift % len(images) == 0:
        return None
    return images.roll(shift, 0)


@in_float32
def soft_alignment(
    logits: Tensor, targets: Tensor, temperature: float = 1.0, target_temperature: float = 1.0
) -> Tensor:
    """KL(softmax(targets) || softmax(logits)) by rows, each over its temperature: (N, M), (N, M) ->
    scalar.

    The mean over rows; 0 where both distributions are equal. DALR Eq. 12, which prints a sum.
    """
    log_probabilities = functional.log_softmax(logits / temperature, dim=1)
    log_target = functional.log_softmax(targets / target_temperature, dim=1)
    return functional.kl_div(log_probabilities, log_target, reduction="batchmean", log_target=True)


def cross_alignment(
    scores: Tensor,
    texts: Tensor,
    images: Tensor,
    temperature: float = 1.0,
    target_temperature: float = 1.0,
) -> Tensor:
    """Align both directions of text-image scores (N, N) with texts' and images' own similarities
    (N, N) -> scalar.

    Each row of `scores` is a text: its distribution over the images follows its similarity to the
    other texts, and each column's distribution over the texts, normalised by itself, the image's
    similarity to the other images. DALR Eq. 8: half the sum of both directions.
    """
    to_images = soft_alignment(scores, texts, temperature, target_temperature)
    to_texts = soft_alignment(scores.T, images, temperature, target_temperature)
    return (to_images + to_texts) / 2


@in_float32
def list_mle(student: Tensor, teacher: Tensor, floor: float = 0.0) -> Tensor:
    """Negative log-likelihood of the teacher's order under the student's scores: (N, M), (N, M) ->
    scalar.

    Scores are already divided by their temperatures. Only the order of the teacher's counts; ties
    keep the order of their columns. The loss of a row is the sum over its places of log(sum of
    exp(score) from there on + floor) - score, with each row's scores less their maximum; the mean
    over rows. DALR Eq. 10, where the list holds all sentences of the batch; the public code has
    floor 1e-7.
    """
    order = teacher.argsort(dim=1, descending=True, stable=True)
    scores = student.gather(1, order)
    scores = scores - scores.amax(dim=1, keepdim=True)

    # the log of the sum over a place and all places after it
    rest = scores.flip(1).logcumsumexp(1).flip(1)
    if floor:
        rest = torch.logaddexp(rest, torch.full_like(rest, math.log(floor)))
    return (rest - scores).sum(dim=1).mean()


@in_float32
def list_net(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross-entropy of the student's top-one probabilities under the teacher's: (N, N), (N, N) ->
    scalar.

    The lists exclude the diagonal, so a batch of one has the loss 0; the mean over rows. The
    alternative of the public code of DALR.
    """
    target = functional.softmax(_off_diagonal(teacher), dim=1)
    log_probabilities = functional.log_softmax(_off_diagonal(student), dim=1)
    return -(target * log_probabilities).sum(dim=1).mean()


@in_float32
def over_tokens(tokens: Tensor) -> Tensor:
    """Divide each feature of each sentence by its norm over the tokens, padding included: (N, L, d)
    -> (N, L, d).

    The public code divides along this axis, not along the features.
    """
    norms: Tensor = tokens.norm(dim=1, keepdim=True)
    return tokens / norms.clamp_min(FLOOR)


@in_float32
def in_batch_g2l(
    local: Tensor, sentences: Tensor, temperature: float, mask: Tensor | None = None
) -> Tensor:
    """InfoNCE of each token with its sentence: (N, L, d), (N, d), mask (N, L) of 1 for tokens ->
    scalar.

    Nothing is normalised. The negatives of a token of sentence i are the inner products of sentence
    i with the tokens of all other sentences. The mean over a sentence's tokens, then over
    sentences; a batch of one has no negatives and a loss of 0.
    """
    count, length, _ = local.shape
    weights = torch.ones_like(local[..., 0])  # (N, L)
    if mask is not None:
        weights = mask.to(local.dtype)
    # (i, j, n): sentence i with token n of sentence j
    scores = torch.einsum("jnd,id->ijn", local, sentences) / temperature

    is_own = torch.eye(count, dtype=torch.bool, device=local.device)[:, :, None]
    is_padding = (weights == 0)[None]
    # a finite floor, since a row may have no negatives
    lowest = torch.finfo(scores.dtype).min / 2
    negative_scores = scores.masked_fill(is_own | is_padding, lowest)
    negatives = negative_scores.flatten(1).logsumexp(dim=1)  # (N,)
    positives = scores.diagonal(dim1=0, dim2=1).T  # (N, L)

    denominators = torch.logaddexp(positives, negatives[:, None].expand(count, length))
    losses = denominators - positives
    sentence_losses = (losses * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)
    return sentence_losses.mean()


def _row_cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of each row with its partner: (N, d), (N, d) -> (N,); 0 for a zero vector."""
    unit_first = functional.normalize(first, dim=-1, eps=1e-8)
    unit_second = functional.normalize(second, dim=-1, eps=1e-8)
    return (unit_first * unit_second).sum(-1)


def _off_diagonal(matrix: Tensor) -> Tensor:
    """The matrix without its diagonal: (N, N) -> (N, N - 1)."""
    size = len(matrix)
    # after the first number, each row of N + 1 ends with a number of the diagonal
    rows = matrix.flatten()[1:].view(size - 1, size + 1)
    return rows[:, :-1].reshape(size, size - 1)
