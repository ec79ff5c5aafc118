"""One optimizer with its schedule, its gradient scaler and clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from harness.method import OwnSteps
from harness.profiles import Training
from harness.training.adamw import AdamW


class Stepper:
    """AdamW over all trainable parameters; one that its losses never reached is not changed.

    The main stepper follows the profile's training table. The stepper of a stream with its own steps (`own`) has
    that stream's rate, decay and schedule, and the rest of the table. Each stepper has its own moments, so neither
    moves what only the other's losses reach.
    """

    def __init__(
        self, modules: Sequence[nn.Module], training: Training, steps: int, device: torch.device, own: OwnSteps | None
    ) -> None:
        self.training, self.steps, self.own = training, steps, own
        decay = training.weight_decay if own is None else own.weight_decay
        moving = training.unreached == "momentum"
        self.optimizer = AdamW(_groups(modules, decay), epsilon=training.adam_epsilon, moving=moving)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "fp16")

    def step(self, loss: Tensor, number: int) -> None:
        """Update the parameters by the gradients of a loss; `number` is the step, from 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(number)
        torch.autograd.backward(self.scaler.scale(loss))
        self.scaler.unscale_(self.optimizer)
        # torch makes a Python object for each gradient unless there is one: the list keeps them to the end of the step
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        _clip(gradients, self.training.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # before the next forward pass: what lies among its activations splits the memory that they leave
        for parameter in self.parameters:
            parameter.grad = None

    def rate(self, number: int) -> float:
        """Return the learning rate of a step, counted from 0.

        Without a stream's own schedule: linear warm-up, then linear decay that would reach 0 at `steps`.
        """
        if self.own is None:
            warmup, peak = self.training.warmup_steps, self.training.learning_rate
            if number < warmup:
                return peak * number / warmup
            return peak * (self.steps - number) / max(1, self.steps - warmup)
        if self.own.schedule == "cosine":
            return self.own.learning_rate * (1 + math.cos(math.pi * number / self.steps)) / 2
        return self.own.learning_rate * (self.steps - number) / self.steps

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])


def _clip(gradients: list[Tensor], largest: float) -> None:
    """Scale gradients to a norm of `largest` at most, as `clip_grad_norm_` does; a device is not waited for."""
    if not gradients:
        return
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, torch.clamp(largest / (norm + 1e-6), max=1.0))


def _groups(modules: Sequence[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Return AdamW's two groups: biases and normalisation weights are not decayed."""
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in chain.from_iterable(module.named_parameters() for module in modules):
        if parameter.requires_grad:
            (kept if name.endswith("bias") or "norm" in name.lower() else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]
