"""Ranking distillation: the student's similarities should have the teacher's order (DALR section 3.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from harness.losses.precision import in_float32


@in_float32
def list_mle(student: Tensor, teacher: Tensor, floor: float = 0.0) -> Tensor:
    """Negative log-likelihood of the teacher's order under the student's scores: (N, M), (N, M) -> scalar.

    Scores come divided by their temperatures; of the teacher's only the order counts, equal ones keep that of their
    columns. The loss of a row is the sum over its places of log(sum of exp(score) from there on + floor) - score, each
    row's scores less their maximum; the mean over rows. DALR Eq. 10, where the list holds all sentences of the batch;
    the public code has floor 1e-7.
    """
    order = teacher.argsort(dim=1, descending=True, stable=True)
    scores = student.gather(1, order)
    scores = scores - scores.amax(dim=1, keepdim=True)
    rest = scores.flip(1).logcumsumexp(1).flip(1)
    if floor:
        rest = torch.logaddexp(rest, torch.full_like(rest, math.log(floor)))
    return (rest - scores).sum(dim=1).mean()


@in_float32
def list_net(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross-entropy of the student's top-one probabilities under the teacher's: (N, N), (N, N) -> scalar.

    The diagonal is no part of the lists, so that a batch of one has none and a loss of 0; the mean over rows. The
    alternative of the public code of DALR.
    """
    wanted = functional.softmax(_off_diagonal(teacher), dim=1)
    return -(wanted * functional.log_softmax(_off_diagonal(student), dim=1)).sum(dim=1).mean()


def _off_diagonal(matrix: Tensor) -> Tensor:
    """The matrix without its diagonal: (N, N) -> (N, N - 1)."""
    size = len(matrix)
    return matrix.flatten()[1:].view(size - 1, size + 1)[:, :-1].reshape(size, size - 1)
