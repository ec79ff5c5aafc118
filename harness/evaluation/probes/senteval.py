"""SentEval's logistic regression: stochastic gradients with early stopping, many classifiers at a time.

A linear layer on unnormalised vectors, mean cross-entropy, and the l2 weight as coupled weight decay of weights and
bias. After every block of passes the dev rows are scored: a strictly better score is kept, any other is a failure.
Training ends at the failure after `tenacity` earlier ones, consecutive or not, or after pass 200 (SentEval,
tools/classifier.py).

SentEval seeds its generators before each classifier. So classifiers of one shape start from the same weights, and those
with equally many training rows use the same permutations: these are trained together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harness.evaluation.probes import SEED, Fitted, Mode, Split, held_out, with_ones

#: Share of rows held out for the early stopping of a refit.
HELD_OUT = 0.05
#: The last pass at which another block may begin.
MAX_PASSES = 200
#: Splits trained together on a CPU; more are no faster and need more memory.
CHUNK = 32


class SentEvalProbe:
    """The published algorithm in one of its modes."""

    def __init__(self, mode: Mode, device: torch.device) -> None:
        self.folds, self._mode, self._device = mode.folds, mode, device

    def refit_split(self, rows: np.ndarray) -> Split:
        """Train on the last 95 % of a permutation and stop early by the rest."""
        return held_out(rows, HELD_OUT)

    def fit(self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray) -> Fitted:
        features, classes = (torch.from_numpy(each).to(self._device) for each in (with_ones(x), labels))
        data = _Data(features, classes, torch.nn.functional.one_hot(classes).to(features.dtype))
        weights = np.empty((*l2.shape, data.targets.shape[1], x.shape[1] + 1), dtype=x.dtype)
        dev = np.empty(l2.shape)
        for places in self._chunks(splits):
            training = _Training(self._mode, data, [splits[index] for index in places], l2[places])
            training.run()
            weights[places], dev[places] = training.best()
        return Fitted(weights, dev)

    def _chunks(self, splits: Sequence[Split]) -> Iterator[list[int]]:
        """Group the indices of splits with the same permutations."""
        alike: dict[tuple[int, int], list[int]] = {}
        for index, split in enumerate(splits):
            alike.setdefault((len(split.train), split.drawn), []).append(index)
        for places in alike.values():
            size = CHUNK if self._device.type == "cpu" else len(places)
            yield from (places[start : start + size] for start in range(0, len(places), size))


def first_weights(classes: int, width: int) -> Tensor:
    """Draw the initial weights of torch.nn.Linear with SentEval's seed: (C, d + 1), the bias last."""
    generator = torch.Generator().manual_seed(SEED)
    bound = width**-0.5
    weight = torch.empty(classes, width).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(classes).uniform_(-bound, bound, generator=generator)
    return torch.cat([weight, bias.unsqueeze(1)], dim=1)


@dataclass(frozen=True)
class _Data:
    """All rows on a device: features (n, d + 1), labels (n,) and one-hot labels (n, C)."""

    features: Tensor
    labels: Tensor
    targets: Tensor


class _Training:
    """F splits with the same permutations x m l2 weights, trained together.

    `_places` (f,) are the splits still in training; a split leaves when all its m classifiers have stopped.
    """

    def __init__(self, mode: Mode, data: _Data, splits: Sequence[Split], l2: np.ndarray) -> None:
        device, width = data.features.device, data.features.shape[1]
        self._mode, self._data = mode, data
        self._count, self._grid = l2.shape
        self._generator = np.random.RandomState(SEED)
        self._generator.permutation(splits[0].drawn)
        self._train = torch.from_numpy(np.stack([split.train for split in splits])).to(device)
        dev = [torch.from_numpy(split.dev) for split in splits]
        self._dev = pad_sequence(dev, batch_first=True, padding_value=-1).to(device)
        classes = data.targets.shape[1]
        start = first_weights(classes, width - 1).to(data.features)
        decay = torch.from_numpy(l2).to(start).repeat_interleave(classes, dim=1).unsqueeze(2)
        self._optimizer = OPTIMIZERS[mode.optimizer](start.repeat(self._count, self._grid, 1), decay)
        self._places = torch.arange(self._count, device=device)
        self._live = torch.ones(l2.shape, dtype=torch.bool, device=device)
        self._failures = torch.zeros(l2.shape, dtype=torch.int64, device=device)
        self._correct = torch.full_like(self._failures, -1)
        self._best = self._weights().clone()
        self._buffer = data.features.new_empty(self._count * mode.batch, width)

    def run(self) -> None:
        for _ in range(0, MAX_PASSES + 1, self._mode.passes):
            for _ in range(self._mode.passes):
                self._pass()
            self._judge()
            if not len(self._places):
                return

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the best weights, (F, m, C, d + 1), and their accuracy on dev rows, (F, m)."""
        sizes = (self._dev >= 0).sum(dim=1, keepdim=True)
        return self._best.cpu().numpy(), (self._correct.double() / sizes).cpu().numpy()

    def _weights(self) -> Tensor:
        return self._optimizer.parameters.view(len(self._places), self._grid, self._data.targets.shape[1], -1)

    def _pass(self) -> None:
        order = torch.from_numpy(self._generator.permutation(self._train.shape[1])).to(self._train.device)
        rows = self._train[self._places][:, order]
        for start in range(0, rows.shape[1], self._mode.batch):
            self._step(rows[:, start : start + self._mode.batch])

    def _step(self, rows: Tensor) -> None:
        """Update all classifiers on their batches, (f, B)."""
        (count, size), flat = rows.shape, rows.reshape(-1)
        x = torch.index_select(self._data.features, 0, flat, out=self._buffer[: len(flat)]).view(count, size, -1)
        logits = torch.bmm(self._optimizer.parameters, x.transpose(1, 2)).view(count, self._grid, -1, size)
        slopes = torch.softmax(logits, dim=2)
        slopes -= self._data.targets[flat].view(count, 1, size, -1).transpose(2, 3)
        gradient = self._optimizer.parameters * self._optimizer.decay
        self._optimizer.step(gradient.baddbmm_(slopes.flatten(1, 2), x, alpha=1 / size))

    def _judge(self) -> None:
        """Score the dev rows, keep better weights, count failures and drop finished splits."""
        places = self._places
        correct, live = self._score(), self._live[places]
        better = live & (correct > self._correct[places])
        failed = live & ~better
        self._correct[places] = torch.where(better, correct, self._correct[places])
        self._best[places] = torch.where(better[:, :, None, None], self._weights(), self._best[places])
        self._live[places] &= ~(failed & (self._failures[places] >= self._mode.tenacity))
        self._failures[places] += failed
        going = self._live[places].any(dim=1)
        if not going.all():
            self._places = places[going]
            self._optimizer.keep(going)

    def _score(self) -> Tensor:
        """Count the dev rows that each classifier currently gets right, (f, m)."""
        rows = self._dev[self._places]
        x = self._data.features[rows.clamp(min=0)]
        logits = torch.bmm(self._optimizer.parameters, x.transpose(1, 2))
        chosen = logits.view(len(rows), self._grid, -1, rows.shape[1]).argmax(dim=2)
        right = (chosen == self._data.labels[rows].unsqueeze(1)) & (rows >= 0).unsqueeze(1)
        return right.sum(dim=2)


class Optimizer(ABC):
    """Parameters (F, r, w) and their state, all tensors of F entries; `decay` (F, r, 1) is the weight decay."""

    def __init__(self, parameters: Tensor, decay: Tensor) -> None:
        self.parameters, self.decay = parameters, decay
        self._squares = torch.zeros_like(parameters)

    @abstractmethod
    def step(self, gradient: Tensor) -> None:
        """Update the parameters in place; `gradient` (F, r, w) includes decay times parameters."""

    def keep(self, places: Tensor) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value[places])


class RMSprop(Optimizer):
    """Tieleman and Hinton, 2012: learning rate 0.01, smoothing 0.99."""

    def step(self, gradient: Tensor) -> None:
        self._squares.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
        self.parameters.addcdiv_(gradient, self._squares.sqrt().add_(1e-8), value=-0.01)


class Adam(Optimizer):
    """Kingma and Ba, 2015: learning rate 0.001, smoothing 0.9 and 0.999."""

    def __init__(self, parameters: Tensor, decay: Tensor) -> None:
        super().__init__(parameters, decay)
        self._mean = torch.zeros_like(parameters)
        self._steps = 0

    def step(self, gradient: Tensor) -> None:
        self._steps += 1
        self._mean.lerp_(gradient, 1 - 0.9)
        self._squares.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
        spread = self._squares.sqrt().div_((1 - 0.999**self._steps) ** 0.5).add_(1e-8)
        self.parameters.addcdiv_(self._mean, spread, value=-0.001 / (1 - 0.9**self._steps))


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "rmsprop": RMSprop}
