"""The optimum of l2-regularised logistic regression, which SentEval's classifier approximates.

The loss is mean cross-entropy plus l2 / 2 times the squared norm of weights and bias; its gradient
is that of SentEval's coupled weight decay. It is strictly convex, so the optimum depends on no
seed, batch or early stopping: dev rows only select the l2 weight, and a refit trains on all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.evaluation.probes import Fitted, Split, append_ones

log = logging.getLogger(__name__)

#: Largest excess of the loss over the optimum.
GAP = 1e-10
#: Logits in memory at a time: 64 MB in float64.
CELLS = 1 << 23

#: Points (M, p) and the indices (M,) of their problems -> values (M,) and gradients (M, p).
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
#: Steps remembered by each problem.
MEMORY = 10
#: Largest number of evaluations.
MOST = 3000
#: Share of the predicted decrease that a step must achieve.
_ARMIJO = 1e-4
#: Relative increase of a value that is attributed to rounding.
_ROUNDING = 1e-14


class LBFGSProbe:
    """Classifiers at their optimum, in float64."""

    def __init__(self, folds: int, device: torch.device) -> None:
        self.folds = folds
        self._device = device

    def split_for_refit(self, rows: np.ndarray) -> Split:
        return Split(rows, rows[:0])

    def fit(
        self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray
    ) -> Fitted:
        rows = append_ones(x.astype(np.float64))
        # in the basis of the features' second moments the curvature is nearly diagonal; rotation
        # keeps norms
        moments, basis = np.linalg.eigh(rows.T @ rows / len(rows))
        turned = torch.from_numpy(rows @ basis).to(self._device)
        classes = torch.from_numpy(labels).to(self._device)
        problem = _Regressions(turned, classes, torch.from_numpy(moments))

        size = max(1, CELLS // (len(rows) * problem.classes * l2.shape[1]))
        parts = []
        for start in range(0, len(splits), size):
            chunk = slice(start, start + size)
            parts.append(problem.fit(splits[chunk], l2[chunk]))
        weights = np.concatenate(parts) @ basis.T

        accuracies = np.empty(l2.shape)
        for number, split in enumerate(splits):
            dev = split.dev
            accuracies[number] = _compute_accuracy(weights[number], rows[dev], labels[dev])
        return Fitted(weights, accuracies)


def _compute_accuracy(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the accuracy of m classifiers (m, C, w) on rows (n, w): (m,), NaN for no rows."""
    if not len(rows):
        return np.full(len(weights), np.nan)
    logits = np.einsum("nw,mcw->mnc", rows, weights, optimize=True)
    return np.asarray((logits.argmax(axis=2) == labels).mean(axis=1))


class _Regressions:
    """Regressions on one table of rows (n, w) float64 with diagonal second moments, (w,)."""

    def __init__(self, rows: Tensor, labels: Tensor, moments: Tensor) -> None:
        self._rows = rows
        self._labels = labels
        self._places = torch.arange(len(labels), device=labels.device)
        self._targets = torch.nn.functional.one_hot(labels).to(rows).T.contiguous()
        self._moments = moments.to(rows).clamp(min=0)
        self.classes = len(self._targets)

    def fit(self, splits: Sequence[Split], l2: np.ndarray) -> np.ndarray:
        """Compute optimal weights (F, m, C, w) for each split and each of its l2 weights (F, m)."""
        device = self._rows.device
        shares = self._rows.new_zeros(len(splits), len(self._rows))
        for share, split in zip(shares, splits, strict=True):
            share[torch.from_numpy(split.train).to(device)] = 1 / len(split.train)
        penalties = torch.from_numpy(l2).to(shares).flatten()
        split_of = torch.arange(len(splits), device=device).repeat_interleave(l2.shape[1])

        def compute_loss(points: Tensor, problems: Tensor) -> tuple[Tensor, Tensor]:
            return self._compute_loss(points, shares[split_of[problems]], penalties[problems])

        # Boehning (1992): the softmax's curvature is at most half the second moments.
        curvature = (self._moments / 2 + penalties.unsqueeze(1)).repeat(1, self.classes)
        bounds = torch.sqrt(2 * penalties * GAP)
        points, unfinished = minimise(compute_loss, torch.zeros_like(curvature), curvature, bounds)
        if unfinished:
            log.warning(
                "%d of %d regressions did not reach their optimum", unfinished, len(penalties)
            )
        return points.view(*l2.shape, self.classes, -1).cpu().numpy()

    def _compute_loss(
        self, points: Tensor, shares: Tensor, penalties: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute losses (M,) and gradients (M, C w) at points (M, C w); `shares` (M, n) are the
        rows' weights.
        """
        weights = points.view(-1, self._rows.shape[1])
        logits = (weights @ self._rows.T).view(len(points), -1, len(self._rows))
        totals = torch.logsumexp(logits, dim=1)
        entropies = totals - logits[:, self._labels, self._places]
        losses = (entropies * shares).sum(dim=1) + penalties / 2 * points.square().sum(dim=1)

        probabilities = torch.exp(logits - totals.unsqueeze(1))
        slopes = (probabilities - self._targets) * shares.unsqueeze(1)
        gradients = (slopes.flatten(0, 1) @ self._rows).view(len(points), -1)
        return losses, gradients + penalties.unsqueeze(1) * points


def minimise(
    objective: Objective, start: Tensor, curvature: Tensor, bounds: Tensor
) -> tuple[Tensor, int]:
    """Minimise M problems of p numbers each until every gradient's norm is at most its bound (M,).

    Returns points (M, p), and how many kept a gradient above its bound. `curvature` (M, p) is a
    rough positive diagonal of the second derivatives. A step that does not decrease its problem's
    value enough is halved while the other problems continue; finished problems are not evaluated
    again.
    """
    points = start.clone()
    problems = torch.arange(len(start), device=start.device)
    values, gradients = objective(start, problems)
    state = _State.start(start, values, gradients, curvature)

    for _ in range(MOST):
        is_open = state.gradients.norm(dim=1) > bounds[problems]
        if not is_open.all():
            points[problems[~is_open]] = state.points[~is_open]
            # finished problems are left out of what is still computed
            problems = problems[is_open]
            state = state.select(is_open)
        if not len(problems):
            return points, 0

        trial = state.points + state.lengths.unsqueeze(1) * state.directions
        values, gradients = objective(trial, problems)
        state.move(trial, values, gradients)
    points[problems] = state.points
    return points, len(problems)


@dataclass
class _State:
    """The state of M problems, one row each.

    `steps` and `changes` (M, MEMORY, p) are the last steps and the changes of the gradient, newest
    last, zero where there were fewer.
    """

    points: Tensor
    values: Tensor
    gradients: Tensor
    curvature: Tensor
    directions: Tensor
    lengths: Tensor
    steps: Tensor
    changes: Tensor

    @classmethod
    def start(cls, points: Tensor, values: Tensor, gradients: Tensor, curvature: Tensor) -> _State:
        """Start with an empty memory and the gradient direction."""
        steps = points.new_zeros(len(points), MEMORY, points.shape[1])
        directions = -gradients / curvature
        lengths = torch.ones_like(values)
        return cls(points, values, gradients, curvature, directions, lengths, steps, steps.clone())

    def select(self, problems: Tensor) -> _State:
        """The state of the marked problems alone."""
        return _State(**{name: value[problems] for name, value in vars(self).items()})

    def move(self, points: Tensor, values: Tensor, gradients: Tensor) -> None:
        """Accept points that are low enough and compute their next direction; halve the other
        steps.
        """
        promised = self.lengths * (self.gradients * self.directions).sum(dim=1)
        is_low = values <= self.values + _ARMIJO * promised + _ROUNDING * self.values.abs()
        self.lengths = torch.where(is_low, 1.0, self.lengths / 2)
        _remember(self.steps, points - self.points, is_low)
        _remember(self.changes, gradients - self.gradients, is_low)

        self.points[is_low] = points[is_low]
        self.values[is_low] = values[is_low]
        self.gradients[is_low] = gradients[is_low]
        self.directions[is_low] = self.select(is_low)._compute_direction()

    def _compute_direction(self) -> Tensor:
        """Compute minus the approximate inverse Hessian times the gradient, by the two-loop
        recursion.
        """
        products = (self.steps * self.changes).sum(dim=2, keepdim=True)
        scales = torch.where(products > 0, 1 / products, 0.0)
        q = self.gradients.clone()
        weights = []
        for age in reversed(range(MEMORY)):
            weight = scales[:, age] * (self.steps[:, age] * q).sum(dim=1, keepdim=True)
            q -= weight * self.changes[:, age]
            weights.append(weight)

        squares = self.changes[:, -1].square() / self.curvature
        q *= products[:, -1] / squares.sum(dim=1, keepdim=True) / self.curvature
        for age in range(MEMORY):
            back = scales[:, age] * (self.changes[:, age] * q).sum(dim=1, keepdim=True)
            q += (weights.pop() - back) * self.steps[:, age]
        return -q


def _remember(memory: Tensor, newest: Tensor, problems: Tensor) -> None:
    """Replace the oldest of the last steps or changes of the marked problems by the newest."""
    others = memory[problems, 1:]
    memory[problems] = torch.cat([others, newest[problems].unsqueeze(1)], dim=1)
