"""What a training records besides weights: dev scores and the loss curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor


class TrainingError(Exception):
    """Training that cannot continue, such as a loss that is not finite."""


@dataclass
class TrainingRecord:
    """Loss curve, dev scores and wall time of a training, kept across resumes.

    `losses[term][i]` is the mean of a term up to step `loss_steps[i]`, None where it did not occur.
    `gradients` has, by stream, the steps at which they were measured, with each term's share and
    cosine (`harness.training.gradients`). `flops` (`harness.encoders.flops`) are None where an
    earlier version has begun the training. `checkpoint` says whose weights are kept: those of the
    best dev score, or of the last one. `compiled` says whether the encoder's layers were, which a
    resumed training keeps.
    """

    loss_steps: list[int] = field(default_factory=list)
    losses: dict[str, list[float | None]] = field(default_factory=dict)
    dev_steps: list[int] = field(default_factory=list)
    dev_scores: list[float] = field(default_factory=list)
    seconds: float = 0.0
    gradients: dict[str, list[tuple[int, dict[str, float | None], dict[str, float | None]]]] = (
        field(default_factory=dict)
    )
    flops: int | None = None
    checkpoint: Literal["best", "last"] = "best"
    compiled: bool = False

    @property
    def kept_step(self) -> int | None:
        """The step whose weights are kept: of the first best dev score, or of the last one."""
        point = self._kept_point
        return None if point is None else self.dev_steps[point]

    @property
    def kept_score(self) -> float | None:
        """The dev score of the weights that are kept."""
        point = self._kept_point
        return None if point is None else self.dev_scores[point]

    @property
    def _kept_point(self) -> int | None:
        if not self.dev_scores:
            return None
        if self.checkpoint == "last":
            return len(self.dev_scores) - 1
        return self.dev_scores.index(max(self.dev_scores))

    def add_losses(self, step: int, means: Mapping[str, float]) -> None:
        """Add a point to the loss curve. Raises TrainingError for a term that is not finite."""
        for name, value in means.items():
            if not math.isfinite(value):
                raise TrainingError(
                    f"the loss term '{name}' is {value} by step {step}; lower the learning rate"
                )
            self.losses.setdefault(name, [None] * len(self.loss_steps))

        self.loss_steps.append(step)
        for name, values in self.losses.items():
            values.append(means.get(name))

    def add_dev(self, step: int, score: float) -> bool:
        """Add a dev score; return whether the weights of this step are now those to keep."""
        self.dev_steps.append(step)
        self.dev_scores.append(score)
        return self.kept_step == step


class LossWindow:
    """Means of loss terms since the last point of the loss curve; sums stay on the device until
    they are read.
    """

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}
        #: of this process, so that a term that is not finite is known by its step
        self._values: list[tuple[int, str, Tensor]] = []
        self.first_bad: tuple[int, dict[str, float]] | None = None

    def add(self, terms: Mapping[str, Tensor], step: int = 0) -> None:
        for name, term in terms.items():
            value = term.detach().float()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] = self._counts.get(name, 0) + 1
            self._values.append((step, name, value))

    def close(self) -> dict[str, float]:
        """Return the means and start a new window; waits for the device once.

        Sets `first_bad` to the first step with a term that was not finite, and its terms; None if
        all were finite.
        """
        import torch  # planning imports this module, but not torch

        sums = torch.stack(list(self._sums.values())).tolist() if self._sums else []
        means = {}
        for name, value in zip(self._sums, sums, strict=True):
            means[name] = value / self._counts[name]

        is_finite = all(map(math.isfinite, sums))
        self.first_bad = None if is_finite else self._find_first_bad()

        self._sums = {}
        self._counts = {}
        self._values = []
        return means

    def _find_first_bad(self) -> tuple[int, dict[str, float]] | None:
        values = [(step, name, float(value)) for step, name, value in self._values]
        for bad_step, _, bad_value in values:
            if not math.isfinite(bad_value):
                return bad_step, {name: value for step, name, value in values if step == bad_step}
        return None

    @property
    def is_finite(self) -> bool:
        return all(math.isfinite(float(value)) for value in self._sums.values())

    def state_dict(self) -> dict[str, tuple[Tensor, int]]:
        return {name: (value, self._counts[name]) for name, value in self._sums.items()}

    def load_state_dict(self, state: Mapping[str, tuple[Tensor, int]]) -> None:
        self._sums = {name: value for name, (value, _) in state.items()}
        self._counts = {name: count for name, (_, count) in state.items()}
