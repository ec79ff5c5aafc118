"""AdamW of the papers' public code: the one of transformers 3 and 4, which differs from torch's in two places."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
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

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update together the parameters of equal step number."""
        for group in self.param_groups:
            alike: dict[int, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None or (self.moving and parameter in self.state):
                    alike[self._count(parameter)].append(parameter)
            for number, parameters in alike.items():
                self._update(parameters, number, group["lr"], group["weight_decay"])

    def _count(self, parameter: Tensor) -> int:
        """Return the number of this step of a parameter, from 1."""
        state = self.state[parameter]
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["step"] += 1
        return int(state["step"])

    def _update(self, parameters: list[Tensor], number: int, rate: float, decay: float) -> None:
        """Update parameters of one step number by torch's fused Adam: one pass over them, no tensors between.

        It adds its epsilon after the correction, so this one's is divided by the correction beforehand.
        """
        means, squares = ([self.state[each][name] for each in parameters] for name in ("mean", "square"))
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        count = torch.full((), number, dtype=torch.float32, device=parameters[0].device)
        torch._fused_adam_(
            parameters,
            gradients,
            means,
            squares,
            [],
            [count] * len(parameters),
            lr=rate,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.epsilon / math.sqrt(1 - self.beta2**number),
            amsgrad=False,
            maximize=False,
        )
        if decay:
            torch._foreach_mul_(parameters, 1 - rate * decay)
