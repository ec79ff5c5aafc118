"""Adam and RMSprop with PyTorch's defaults on stacked parameters, each row with its own coupled weight decay."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Optimizer(ABC):
    """Parameters (F, r, w) and their state, all tensors of F entries; `decay` (F, r, 1) is the weight decay."""

    def __init__(self, parameters: Tensor, decay: Tensor) -> None:
        self.parameters, self.decay = parameters, decay
        self._squares = torch.zeros_like(parameters)

    @abstractmethod
    def step(self, gradient: Tensor) -> None:
        """Update the parameters in place; `gradient` (F, r, w) includes decay times parameters."""

    def keep(self, places: Tensor) -> None:
        """Keep only some of the F."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[places])


class RMSprop(Optimizer):
    """Tieleman and Hinton, 2012: learning rate 0.01, smoothing 0.99."""

    def step(self, gradient: Tensor) -> None:
        """Update the parameters in place."""
        self._squares.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        self.parameters.addcdiv_(gradient, self._squares.sqrt().add_(1e-8), value=-0.01)


class Adam(Optimizer):
    """Kingma and Ba, 2015: learning rate 0.001, smoothing 0.9 and 0.999."""

    def __init__(self, parameters: Tensor, decay: Tensor) -> None:
        super().__init__(parameters, decay)
        self._mean = torch.zeros_like(parameters)
        self._steps = 0

    def step(self, gradient: Tensor) -> None:
        """Update the parameters in place."""
        self._steps += 1
        self._mean.lerp_(gradient, 1 - 0.9)
        self._squares.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        spread = self._squares.sqrt().div_((1 - 0.999**self._steps) ** 0.5).add_(1e-8)
        self.parameters.addcdiv_(self._mean, spread, value=-0.001 / (1 - 0.9**self._steps))


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "rmsprop": RMSprop}
