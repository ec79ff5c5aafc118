"""AdamW of the papers' public code: the one of transformers 3 and 4, which differs from torch's in two places."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw


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

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update together the parameters of equal step number, those with a gradient and those without."""
        for group in self.param_groups:
            alike: dict[tuple[int, bool], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                reached = parameter.grad is not None
                if reached or (self.moving and parameter in self.state):
                    alike[self._count(parameter), reached].append(parameter)
            for (number, _), parameters in alike.items():
                self._update(parameters, number, group["lr"], group["weight_decay"])

    def _count(self, parameter: Tensor) -> int:
        """Return the number of this step of a parameter, from 1."""
        state = self.state[parameter]
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["step"] += 1
        return int(state["step"])

    def _update(self, parameters: list[Tensor], number: int, rate: float, decay: float) -> None:
        """Update parameters of one step number, either all with a gradient or all without."""
        means, squares = ([self.state[each][name] for each in parameters] for name in ("mean", "square"))
        gradients = [each.grad for each in parameters if each.grad is not None]
        kept, correction = 1 - rate * decay, math.sqrt(1 - self.beta2**number)
        if gradients:
            # one pass over all; torch decays first and adds epsilon last, which these values make up for
            counts = torch.full((len(parameters),), number - 1.0, device=parameters[0].device)
            adamw(
                parameters,
                gradients,
                means,
                squares,
                max_exp_avg_sqs=[],
                state_steps=list(counts.unbind()),
                fused=True,
                amsgrad=False,
                maximize=False,
                beta1=self.beta1,
                beta2=self.beta2,
                lr=rate * kept,
                weight_decay=decay / kept,
                eps=self.epsilon / correction,
            )
            return
        torch._foreach_mul_(means, self.beta1)
        torch._foreach_mul_(squares, self.beta2)
        sizes = torch._foreach_sqrt(squares)
        torch._foreach_add_(sizes, self.epsilon)
        torch._foreach_addcdiv_(parameters, means, sizes, value=-rate * correction / (1 - self.beta1**number))
        if decay:
            torch._foreach_mul_(parameters, kept)
