"""AdamW of the papers' public code: the one of transformers 3 and 4, which differs from torch's in two places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch
from torch import Tensor


class AdamW(torch.optim.Optimizer):
    """AdamW with epsilon added before the bias correction and the decay applied after the update.

    At a parameter's own step t = 1, 2, ..., with gradient g, rate r and decay w:

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p = p - r sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
        p = p - r w p

    (`transformers.AdamW`; all five papers' public code uses it.) torch's AdamW adds epsilon after the correction, which
    equals epsilon / sqrt(1 - beta2^t) here, and applies the decay first.

    A parameter is untouched until it has its first gradient, which is its step 1. With `moving`, a step without a
    gradient of it then counts as one with the gradient 0, so that its momentum moves it on; otherwise it rests.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        epsilon: float,
        moving: bool,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        """`groups` have `params` and `weight_decay`; `lr` is set before each step."""
        super().__init__(groups, {"lr": 0.0, "weight_decay": 0.0})
        self.epsilon, self.moving, self.beta1, self.beta2 = epsilon, moving, beta1, beta2
        self._cohorts: list[_Cohort] = []

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update together the parameters that have had the same steps."""
        parts = [part for cohort in self._cohorts or self._known() for part in cohort.split(moving=self.moving)]
        self._cohorts = [cohort for _, cohort in parts]
        for moved, cohort in parts:
            if moved:
                self._update(cohort)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore moments and numbers of steps."""
        super().load_state_dict(state_dict)
        self._cohorts = []

    def _known(self) -> list[_Cohort]:
        """The parameters by group and number of steps, of which those without any have no state."""
        alike: dict[tuple[int, int], _Cohort] = {}
        for place, group in enumerate(self.param_groups):
            for parameter in group["params"]:
                state = self.state.get(parameter, {})
                cohort = alike.setdefault((place, state.get("step", 0)), _Cohort(group, [], []))
                cohort.parameters.append(parameter)
                cohort.states.append(state)
        return list(alike.values())

    def _update(self, cohort: _Cohort) -> None:
        """Update parameters by torch's fused Adam: one pass over them, no tensors between.

        It adds its epsilon after the correction, so this one's is divided by the correction beforehand.
        """
        number, group, parameters = cohort.number + 1, cohort.group, cohort.parameters
        if number == 1:
            for parameter, state in zip(parameters, cohort.states, strict=True):
                state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
                self.state[parameter] = state
        for state in cohort.states:
            state["step"] = number
        count = torch.full((), number, dtype=torch.float32, device=parameters[0].device)
        torch._fused_adam_(
            parameters,
            [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters],
            [state["mean"] for state in cohort.states],
            [state["square"] for state in cohort.states],
            [],
            [count] * len(parameters),
            lr=group["lr"],
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.epsilon / math.sqrt(1 - self.beta2**number),
            amsgrad=False,
            maximize=False,
        )
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])


@dataclass(frozen=True)
class _Cohort:
    """Parameters of one group that have had the same steps, with their states."""

    group: dict[str, Any]
    parameters: list[Tensor]
    states: list[dict[str, Any]]

    @property
    def number(self) -> int:
        """Steps so far."""
        return int(self.states[0].get("step", 0))

    def split(self, *, moving: bool) -> Iterator[tuple[bool, _Cohort]]:
        """Yield the part that a step moves and the part that rests, where there are such."""
        if moving and self.number:
            yield True, self
            return
        moves = [parameter.grad is not None for parameter in self.parameters]
        if len(set(moves)) == 1:
            yield moves[0], self
            return
        for moved in (True, False):
            chosen = [each == moved for each in moves]
            yield moved, _Cohort(self.group, [*compress(self.parameters, chosen)], [*compress(self.states, chosen)])
