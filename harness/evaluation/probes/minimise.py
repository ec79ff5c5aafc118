"""L-BFGS on many smooth, strictly convex problems at once (Liu and Nocedal, 1989)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: Points (M, p) and the indices (M,) of their problems -> values (M,) and gradients (M, p).
Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

#: Steps remembered by each problem.
MEMORY = 10
#: Largest number of evaluations.
MOST = 3000
#: Share of the predicted decrease that a step must achieve.
_ARMIJO = 1e-4
#: Relative increase of a value that counts as rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Minimum:
    """Points (M, p), and how many of them kept a gradient above its bound."""

    points: Tensor
    unfinished: int


def minimise(objective: Objective, start: Tensor, curvature: Tensor, bounds: Tensor) -> Minimum:
    """Minimise M problems of p numbers each until every gradient's norm is at most its bound (M,).

    `curvature` (M, p) is a rough positive diagonal of the second derivatives. A step that does not decrease its
    problem's value enough is halved while the other problems continue; finished problems are not evaluated again.
    """
    points = start.clone()
    places = torch.arange(len(start), device=start.device)
    state = _State.at(start, *objective(start, places), curvature)
    for _ in range(MOST):
        going = state.gradients.norm(dim=1) > bounds[places]
        if not going.all():
            points[places[~going]] = state.points[~going]
            places, state = places[going], state.rows(going)
        if not len(places):
            return Minimum(points, 0)
        trial = state.points + state.lengths.unsqueeze(1) * state.directions
        state.move(trial, *objective(trial, places))
    points[places] = state.points
    return Minimum(points, len(places))


@dataclass
class _State:
    """The state of M problems, one row each.

    `steps` and `changes` (M, MEMORY, p) are the last steps and the changes of the gradient, newest last, zero where
    there were fewer.
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
        return cls(points, values, gradients, curvature, -gradients / curvature, lengths, memory, memory.clone())

    def rows(self, which: Tensor) -> _State:
        """Select some of the problems."""
        return _State(**{name: value[which] for name, value in vars(self).items()})

    def move(self, points: Tensor, values: Tensor, gradients: Tensor) -> None:
        """Accept points that are low enough and compute their next direction; halve the other steps."""
        promised = self.lengths * (self.gradients * self.directions).sum(dim=1)
        low = values <= self.values + _ARMIJO * promised + _ROUNDING * self.values.abs()
        self.lengths = torch.where(low, 1.0, self.lengths / 2)
        for name, new in (("steps", points - self.points), ("changes", gradients - self.gradients)):
            memory = getattr(self, name)
            memory[low] = torch.cat([memory[low, 1:], new[low].unsqueeze(1)], dim=1)
        self.points[low], self.values[low], self.gradients[low] = points[low], values[low], gradients[low]
        self.directions[low] = self.rows(low)._direction()

    def _direction(self) -> Tensor:
        """Compute minus the approximate inverse Hessian times the gradient, by the two-loop recursion."""
        products = (self.steps * self.changes).sum(dim=2, keepdim=True)
        scales = torch.where(products > 0, 1 / products, 0.0)
        q = self.gradients.clone()
        weights = []
        for age in reversed(range(MEMORY)):
            weights.append(scales[:, age] * (self.steps[:, age] * q).sum(dim=1, keepdim=True))
            q -= weights[-1] * self.changes[:, age]
        newest = self.changes[:, -1]
        q *= products[:, -1] / (newest.square() / self.curvature).sum(dim=1, keepdim=True) / self.curvature
        for age in range(MEMORY):
            back = scales[:, age] * (self.changes[:, age] * q).sum(dim=1, keepdim=True)
            q += (weights[MEMORY - 1 - age] - back) * self.steps[:, age]
        return -q
