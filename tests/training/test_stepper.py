"""Optimizers: the main one and those of streams with steps of their own."""

from __future__ import annotations

import math

import pytest
import torch

from harness.method import OwnSteps, Patches
from harness.profiles import Training
from harness.training.stepper import Stepper

TRAINING = Training(learning_rate=0.1, warmup_steps=2)


def stepper(own: OwnSteps | None, *modules: torch.nn.Module, steps: int = 10) -> Stepper:
    return Stepper(modules, TRAINING, steps, torch.device("cpu"), own)


def own(schedule: str, decay: float = 0.0) -> OwnSteps:
    return OwnSteps(48, 0.01, Patches(), decay, schedule)


def test_schedules_start_at_their_rate_and_end_at_zero() -> None:
    model = torch.nn.Linear(2, 2)
    main, linear, cosine = (stepper(table, model) for table in (None, own("linear"), own("cosine")))
    assert [main.rate(k) for k in (0, 1, 2, 10)] == pytest.approx([0, 0.05, 0.1, 0])
    assert [linear.rate(k) for k in (0, 5, 10)] == pytest.approx([0.01, 0.005, 0])
    assert [cosine.rate(k) for k in (0, 5, 10)] == pytest.approx([0.01, 0.005, 0], abs=1e-12)
    assert cosine.rate(2) == pytest.approx(0.01 * (1 + math.cos(0.2 * math.pi)) / 2)


def test_each_optimizer_moves_what_its_loss_reaches_with_its_own_moments() -> None:
    """A parameter of the other task stays where it is, even under weight decay."""
    shared, text, media = (torch.nn.Linear(3, 3) for _ in range(3))
    before = [part.weight.detach().clone() for part in (shared, text, media)]
    main, other = (stepper(table, shared, text, media) for table in (None, own("linear", decay=0.5)))
    x = torch.randn(4, 3)
    other.step(media(shared(x)).square().sum(), 0)
    moved = [not torch.equal(part.weight, old) for part, old in zip((shared, text, media), before, strict=True)]
    assert moved == [True, False, True]
    assert not main.optimizer.state
    main.step(text(shared(x)).square().sum(), 3)
    assert not torch.equal(text.weight, before[1])
    touched = {id(parameter) for parameter in other.optimizer.state}
    assert id(text.weight) not in touched
