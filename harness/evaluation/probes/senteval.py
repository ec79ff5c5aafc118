"""SentEval's logistic regression: stochastic gradients with early stopping, many classifiers at a
time.

A linear layer on unnormalised vectors, mean cross-entropy, and the l2 weight as coupled weight
decay of weights and bias. After every block of passes the dev rows are scored: a strictly better
score is kept, any other is a failure. Training ends at the failure after `tenacity` earlier ones,
consecutive or not, or after pass 200 (SentEval, tools/classifier.py).

SentEval seeds its generators before each classifier. So classifiers of one shape start from the
same weights, and those with equally many training rows use the same permutations: these are trained
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from harness.evaluation.probes import SEED, Fitted, Mode, Split, append_ones

#: Share of rows held out for the early stopping of a refit.
HELD_OUT = 0.05
#: The last pass at which another block may begin.
MAX_PASSES = 200
#: Splits trained together on a CPU; more are no faster and need more memory.
CHUNK = 32


class SentEvalProbe:
    """The published algorithm in one of its modes."""

    def __init__(self, mode: Mode, device: torch.device) -> None:
        self.folds = mode.folds
        self._mode = mode
        self._device = device

    def split_for_refit(self, rows: np.ndarray) -> Split:
        """Hold out the first 5 % of a permutation, rounded down, to stop early; train on the others
        as permuted.
        """
        order = np.random.RandomState(SEED).permutation(len(rows))
        dev = int(HELD_OUT * len(rows))
        return Split(rows[order[dev:]], rows[order[:dev]], drawn=len(rows))

    def fit(
        self, x: np.ndarray, labels: np.ndarray, splits: Sequence[Split], l2: np.ndarray
    ) -> Fitted:
        features = torch.from_numpy(append_ones(x)).to(self._device)
        classes = torch.from_numpy(labels).to(self._device)
        weights = np.empty((*l2.shape, int(labels.max()) + 1, features.shape[1]), dtype=x.dtype)
        dev = np.empty(l2.shape)

        for numbers in self._split_into_chunks(splits):
            chunk = [splits[number] for number in numbers]
            training = _Training(self._mode, features, classes, chunk, l2[numbers])
            training.run()
            weights[numbers], dev[numbers] = training.get_best()
        return Fitted(weights, dev)

    def _split_into_chunks(self, splits: Sequence[Split]) -> Iterator[list[int]]:
        """Group the indices of splits with the same permutations."""
        alike: dict[tuple[int, int], list[int]] = {}
        for number, split in enumerate(splits):
            alike.setdefault((len(split.train), split.drawn), []).append(number)

        for numbers in alike.values():
            size = CHUNK if self._device.type == "cpu" else len(numbers)
            for start in range(0, len(numbers), size):
                yield numbers[start : start + size]


def draw_first_weights(classes: int, width: int) -> Tensor:
    """Draw the initial weights of torch.nn.Linear with SentEval's seed: (C, d + 1), the bias last."""
    generator = torch.Generator().manual_seed(SEED)
    bound = width**-0.5
    weight = torch.empty(classes, width).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(classes).uniform_(-bound, bound, generator=generator)
    return torch.cat([weight, bias.unsqueeze(1)], dim=1)


class _Training:
    """F splits with the same permutations x m l2 weights, trained together.

    `_places` (f,) are the splits still in training; a split leaves when all its m classifiers have
    stopped.
    """

    def __init__(
        self, mode: Mode, features: Tensor, labels: Tensor, splits: Sequence[Split], l2: np.ndarray
    ) -> None:
        """`features` (n, d + 1) and `labels` (n,) are all rows on a device."""
        device = features.device
        width = features.shape[1]
        self._mode = mode
        self._features = features
        self._labels = labels
        self._targets = torch.nn.functional.one_hot(labels).to(features.dtype)
        self._count, self._grid = l2.shape

        # the batches use the random numbers after the permutation that made the splits
        self._generator = np.random.RandomState(SEED)
        self._generator.permutation(splits[0].drawn)
        self._train = torch.from_numpy(np.stack([split.train for split in splits])).to(device)
        dev = [torch.from_numpy(split.dev) for split in splits]
        self._dev = pad_sequence(dev, batch_first=True, padding_value=-1).to(device)

        classes = self._targets.shape[1]
        start = draw_first_weights(classes, width - 1).to(features)
        self._decay = torch.from_numpy(l2).to(start).repeat_interleave(classes, dim=1).unsqueeze(2)
        self._parameters = start.repeat(self._count, self._grid, 1)
        self._moments = {name: torch.zeros_like(self._parameters) for name in ("mean", "squares")}

        self._steps = 0
        self._places = torch.arange(self._count, device=device)
        self._live = torch.ones(l2.shape, dtype=torch.bool, device=device)
        self._failures = torch.zeros(l2.shape, dtype=torch.int64, device=device)
        self._correct = torch.full_like(self._failures, -1)
        self._best = self._get_weights().clone()
        self._buffer = features.new_empty(self._count * mode.batch, width)

    def run(self) -> None:
        for _ in range(0, MAX_PASSES + 1, self._mode.passes):
            for _ in range(self._mode.passes):
                self._run_pass()
            self._judge()
            if not len(self._places):
                return

    def get_best(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the best weights, (F, m, C, d + 1), and their accuracy on dev rows, (F, m)."""
        sizes = (self._dev >= 0).sum(dim=1, keepdim=True)
        return self._best.cpu().numpy(), (self._correct.double() / sizes).cpu().numpy()

    def _get_weights(self) -> Tensor:
        return self._parameters.view(len(self._places), self._grid, self._targets.shape[1], -1)

    def _run_pass(self) -> None:
        order = torch.from_numpy(self._generator.permutation(self._train.shape[1]))
        rows = self._train[self._places][:, order.to(self._train.device)]
        for start in range(0, rows.shape[1], self._mode.batch):
            self._step(rows[:, start : start + self._mode.batch])

    def _step(self, rows: Tensor) -> None:
        """Update all classifiers on their batches, (f, B)."""
        count, size = rows.shape
        numbers = rows.reshape(-1)
        buffer = self._buffer[: len(numbers)]
        x = torch.index_select(self._features, 0, numbers, out=buffer).view(count, size, -1)
        logits = torch.bmm(self._parameters, x.transpose(1, 2)).view(count, self._grid, -1, size)
        slopes = torch.softmax(logits, dim=2)
        slopes -= self._targets[numbers].view(count, 1, size, -1).transpose(2, 3)

        gradient = self._parameters * self._decay
        gradient.baddbmm_(slopes.flatten(1, 2), x, alpha=1 / size)
        self._steps += 1
        update = UPDATES[self._mode.optimizer]
        update(self._parameters, gradient, self._moments, self._steps)

    def _judge(self) -> None:
        """Score the dev rows, keep better weights, count failures and drop finished splits."""
        places = self._places
        correct = self._count_correct()
        live = self._live[places]
        better = live & (correct > self._correct[places])
        self._correct[places] = torch.where(better, correct, self._correct[places])
        weights = torch.where(better[:, :, None, None], self._get_weights(), self._best[places])
        self._best[places] = weights

        failed = live & ~better
        self._live[places] &= ~(failed & (self._failures[places] >= self._mode.tenacity))
        self._failures[places] += failed
        unfinished = self._live[places].any(dim=1)
        if not unfinished.all():
            self._places = places[unfinished]
            self._parameters = self._parameters[unfinished]
            self._decay = self._decay[unfinished]
            self._moments = {name: value[unfinished] for name, value in self._moments.items()}

    def _count_correct(self) -> Tensor:
        """Count the dev rows that each classifier currently gets right, (f, m)."""
        rows = self._dev[self._places]
        x = self._features[rows.clamp(min=0)]
        logits = torch.bmm(self._parameters, x.transpose(1, 2))
        classes = logits.view(len(rows), self._grid, -1, rows.shape[1]).argmax(dim=2)
        # the rows of a split that has fewer than another are filled with -1
        is_row = (rows >= 0).unsqueeze(1)
        is_correct = classes == self._labels[rows].unsqueeze(1)
        return (is_correct & is_row).sum(dim=2)


def _step_rmsprop(
    parameters: Tensor, gradient: Tensor, moments: dict[str, Tensor], number: int
) -> None:
    """Tieleman and Hinton, 2012: learning rate 0.01, smoothing 0.99."""
    squares = moments["squares"].mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    parameters.addcdiv_(gradient, squares.sqrt().add_(1e-8), value=-0.01)


def _step_adam(
    parameters: Tensor, gradient: Tensor, moments: dict[str, Tensor], number: int
) -> None:
    """Kingma and Ba, 2015: learning rate 0.001, smoothing 0.9 and 0.999."""
    mean = moments["mean"].lerp_(gradient, 1 - 0.9)
    squares = moments["squares"].mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
    spread = squares.sqrt().div_((1 - 0.999**number) ** 0.5).add_(1e-8)
    parameters.addcdiv_(mean, spread, value=-0.001 / (1 - 0.9**number))


#: Change parameters in place by their gradient, all (F, r, w), in a step counted from 1. torch's
#: optimizers would give the same numbers, but take a third longer.
UPDATES = {"adam": _step_adam, "rmsprop": _step_rmsprop}
