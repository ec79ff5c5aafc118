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

from harness.evaluation.probes import Fitted, Split, with_ones

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

    def refit_split(self, rows: np.ndarray) -> Split:
        return Split(rows, rows[:0])

    def fit(
        self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray
    ) -> Fitted:
        rows = with_ones(x.astype(np.float64))
        classes = int(labels.max()) + 1
        # in the basis of the features' second moments the curvature is nearly diagonal; rotation
        # keeps norms
        moments, basis = np.linalg.eigh(rows.T @ rows / len(rows))
        turned = torch.from_numpy(rows @ basis).to(self._device)
        problem = _Regressions(
            turned, torch.from_numpy(labels).to(self._device), torch.from_numpy(moments)
        )
        size = max(1, CELLS // (len(rows) * classes * l2.shape[1]))
        parts = [slice(start, start + size) for start in range(0, len(splits), size)]
        weights = (
            np.concatenate([problem.solve(splits[part], l2[part]) for part in parts]) @ basis.T
        )
        pairs = zip(weights, splits, strict=True)
        return Fitted(
            weights, np.stack([_accuracy(each, rows[s.dev], labels[s.dev]) for each, s in pairs])
        )


def _accuracy(weights: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the accuracy of m classifiers (m, C, w) on rows (n, w): (m,), NaN for no rows."""
    if not len(rows):
        return np.full(len(weights), np.nan)
    chosen = np.einsum("nw,mcw->mnc", rows, weights, optimize=True).argmax(axis=2)
    return np.asarray((chosen == labels).mean(axis=1))


class _Regressions:
    """Regressions on one table of rows (n, w) float64 with diagonal second moments, (w,)."""

    def __init__(self, rows: Tensor, labels: Tensor, moments: Tensor) -> None:
        self._rows = rows
        self._labels = labels
        self._targets = torch.nn.functional.one_hot(labels).to(rows).T.contiguous()
        self._moments = moments.to(rows).clamp(min=0)

    def solve(self, splits: Sequence[Split], l2: np.ndarray) -> np.ndarray:
        """Compute optimal weights (F, m, C, w) for each split and each of its l2 weights (F, m)."""
        classes = len(self._targets)
        width = self._rows.shape[1]
        shares = self._rows.new_zeros(len(splits), len(self._rows))
        for share, split in zip(shares, splits, strict=True):
            share[torch.from_numpy(split.train).to(share.device)] = 1 / len(split.train)
        penalties = torch.from_numpy(l2).to(shares).flatten()
        split_of = torch.arange(len(splits), device=shares.device).repeat_interleave(l2.shape[1])

        def objective(points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            return self._loss(points, shares[split_of[which]], penalties[which])

        # Boehning (1992): the softmax's curvature is at most half the second moments.
        curvature = (self._moments / 2 + penalties.unsqueeze(1)).repeat(1, classes)
        points, unfinished = minimise(
            objective, torch.zeros_like(curvature), curvature, torch.sqrt(2 * penalties * GAP)
        )
        if unfinished:
            log.warning(
                "%d of %d regressions did not reach their optimum", unfinished, len(penalties)
            )
        return points.view(*l2.shape, classes, width).cpu().numpy()

    def _loss(self, points: Tensor, shares: Tensor, penalties: Tensor) -> tuple[Tensor, Tensor]:
        """Compute losses (M,) and gradients (M, C w) at points (M, C w); `shares` (M, n) are the
        rows' weights.
        """
        count = len(points)
        logits = (points.view(-1, self._rows.shape[1]) @ self._rows.T).view(
            count, -1, len(self._labels)
        )
        totals = torch.logsumexp(logits, dim=1)
        own = logits[:, self._labels, torch.arange(len(self._labels), device=logits.device)]
        losses = ((totals - own) * shares).sum(dim=1) + penalties / 2 * points.square().sum(dim=1)
        slopes = (torch.exp(logits - totals.unsqueeze(1)) - self._targets) * shares.unsqueeze(1)
        gradients = (slopes.flatten(0, 1) @ self._rows).view(count, -1) + penalties.unsqueeze(
            1
        ) * points
        return losses, gradients


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
    places = torch.arange(len(start), device=start.device)
    state = _State.at(start, *objective(start, places), curvature)
    for _ in range(MOST):
        going = state.gradients.norm(dim=1) > bounds[places]
        if not going.all():
            points[places[~going]] = state.points[~going]
            places = places[going]
            state = state.rows(going)
        if not len(places):
            return points, 0
        trial = state.points + state.lengths.unsqueeze(1) * state.directions
        state.move(trial, *objective(trial, places))
    points[places] = state.points
    return points, len(places)


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
    def at(cls, points: Tensor, values: Tensor, gradients: Tensor, curvature: Tensor) -> _State:
        """Start with an empty memory and the gradient direction."""
        memory = points.new_zeros(len(points), MEMORY, points.shape[1])
        lengths = torch.ones_like(values)
        return cls(
            points,
            values,
            gradients,
            curvature,
            -gradients / curvature,
            lengths,
            memory,
            memory.clone(),
        )

    def rows(self, which: Tensor) -> _State:
        return _State(**{name: value[which] for name, value in vars(self).items()})

    def move(self, points: Tensor, values: Tensor, gradients: Tensor) -> None:
        """Accept points that are low enough and compute their next direction; halve the other
        steps.
        """
        promised = self.lengths * (self.gradients * self.directions).sum(dim=1)
        low = values <= self.values + _ARMIJO * promised + _ROUNDING * self.values.abs()
        self.lengths = torch.where(low, 1.0, self.lengths / 2)
        for name, new in (("steps", points - self.points), ("changes", gradients - self.gradients)):
            memory = getattr(self, name)
            memory[low] = torch.cat([memory[low, 1:], new[low].unsqueeze(1)], dim=1)
        self.points[low], self.values[low], self.gradients[low] = (
            points[low],
            values[low],
            gradients[low],
        )
        self.directions[low] = self.rows(low)._direction()

    def _direction(self) -> Tensor:
        """Compute minus the approximate inverse Hessian times the gradient, by the two-loop
        recursion.
        """
        products = (self.steps * self.changes).sum(dim=2, keepdim=True)
        scales = torch.where(products > 0, 1 / products, 0.0)
        q = self.gradients.clone()
        weights = []
        for age in reversed(range(MEMORY)):
            weights.append(scales[:, age] * (self.steps[:, age] * q).sum(dim=1, keepdim=True))
            q -= weights[-1] * self.changes[:, age]
        newest = self.changes[:, -1]
        q *= (
            products[:, -1]
            / (newest.square() / self.curvature).sum(dim=1, keepdim=True)
            / self.curvature
        )
        for age in range(MEMORY):
            back = scales[:, age] * (self.changes[:, age] * q).sum(dim=1, keepdim=True)
            q += (weights[MEMORY - 1 - age] - back) * self.steps[:, age]
        return -q
