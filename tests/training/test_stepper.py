"""Optimizers, the main one and those of streams with steps of their own; and the AdamW of the
public code.

AdamW is compared with the equations of transformers' AdamW written out for single numbers.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import get_args

import pytest
import torch

from harness.method import OwnSteps, Patches, Schedule
from harness.profiles import Training
from harness.training.stepper import Stepper

TRAINING = Training(learning_rate=0.1, warmup_steps=2)


def test_schedules_start_at_their_rate_and_end_at_zero() -> None:
    modules, tables = (
        [torch.nn.Linear(2, 2)],
        [OwnSteps(48, 0.01, Patches(), 0.5, name) for name in get_args(Schedule)],
    )
    main, linear, cosine = (
        Stepper(modules, TRAINING, 10, torch.device("cpu"), own) for own in (None, *tables)
    )
    decays = [
        [group["weight_decay"] for group in stepper.optimizer.param_groups]
        for stepper in (main, linear)
    ]
    assert decays == [[TRAINING.weight_decay, 0.0], [0.5, 0.0]]
    assert [main.get_rate(k) for k in (0, 1, 2, 10)] == pytest.approx([0, 0.05, 0.1, 0])
    short = Stepper(modules, TRAINING, 3, torch.device("cpu"), None)
    assert [short.get_rate(k) for k in (0, 1, 2, 3)] == pytest.approx([0, 0.05, 0.1, 0]), (
        "one step after the warm-up"
    )
    assert [linear.get_rate(k) for k in (0, 5, 10)] == pytest.approx([0.01, 0.005, 0])
    assert [cosine.get_rate(k) for k in (0, 5, 10)] == pytest.approx([0.01, 0.005, 0], abs=1e-12)
    assert cosine.get_rate(2) == pytest.approx(0.01 * (1 + math.cos(0.2 * math.pi)) / 2)


STEPS = 40
#: the gradient of a linear loss is its factor; the paired head is reached by every fourth step from
#: the third on
PAIRED = [step for step in range(STEPS) if step % 4 == 2]
PEAK, DECAY, EPSILON = 0.01, 0.1, 1e-3


@dataclass
class Number:
    """One parameter under transformers' AdamW: `step` adds epsilon to sqrt(v), and decays at the
    end.
    """

    value: float
    decay: float
    m: float = 0.0
    v: float = 0.0
    t: int = 0

    def step(self, gradient: float, rate: float) -> None:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        size = rate * math.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
        self.value -= size * self.m / (math.sqrt(self.v) + EPSILON)
        self.value -= rate * self.decay * self.value


def parts(
    decay: float, unreached: str = "momentum", precision: str = "fp32"
) -> tuple[torch.nn.ModuleDict, Stepper]:
    torch.manual_seed(3)
    model = torch.nn.ModuleDict(
        {name: torch.nn.Linear(2, 1) for name in ("text", "head", "never")}
    ).double()
    training = Training(
        learning_rate=PEAK,
        weight_decay=decay,
        adam_epsilon=EPSILON,
        unreached=unreached,
        precision=precision,
    )
    return model, Stepper([model], training, STEPS, torch.device("cpu"), None)


def numbers(model: torch.nn.ModuleDict, name: str, decay: float) -> list[Number]:
    weight, bias = (each.detach().flatten().tolist() for each in model[name].parameters())
    return [*(Number(value, decay) for value in weight), *(Number(value, 0.0) for value in bias)]


def loss(model: torch.nn.ModuleDict, step: int, factors: torch.Tensor) -> torch.Tensor:
    names = ["text", "head"] if step in PAIRED else ["text"]
    flat = torch.cat([each.flatten() for name in names for each in model[name].parameters()])
    return (flat * factors[step, : len(flat)]).sum()


@pytest.mark.parametrize("decay", [0.0, DECAY])
@pytest.mark.parametrize("unreached", ["momentum", "rest"])
def test_every_number_follows_transformers_adamw(unreached: str, decay: float) -> None:
    """A head has its first step at its first gradient; later, a gradient that was zeroed in place
    is a gradient 0.
    """
    model, stepper = parts(decay, unreached)
    factors = 0.1 * torch.randn(STEPS, 6, dtype=torch.float64)
    expected = {name: numbers(model, name, decay) for name in ("text", "head", "never")}
    for step in range(STEPS):
        stepper.step(loss(model, step, factors), step)
        rate = PEAK * (STEPS - step) / STEPS
        gradients = factors[step].tolist()
        for number, gradient in zip(expected["text"], gradients[:3], strict=True):
            number.step(gradient, rate)
        for number, gradient in zip(expected["head"], gradients[3:], strict=True):
            if step in PAIRED:
                number.step(gradient, rate)
            elif unreached == "momentum" and step > PAIRED[0]:
                number.step(0.0, rate)
        for name in expected:
            values = [
                value
                for each in model[name].parameters()
                for value in each.detach().flatten().tolist()
            ]
            assert values == pytest.approx(
                [number.value for number in expected[name]], rel=0, abs=1e-12
            ), (name, step)


def test_a_resumed_optimizer_moves_unreached_parameters_as_an_uninterrupted_one() -> None:
    """The state of a checkpoint says which parameters had a gradient; the first step after it
    reaches no head.
    """
    factors = torch.randn(STEPS, 6, dtype=torch.float64)
    model, stepper = parts(DECAY)
    for step in range(PAIRED[0] + 1):
        stepper.step(loss(model, step, factors), step)
    resumed, other = parts(DECAY)
    resumed.load_state_dict(copy.deepcopy(model.state_dict()))
    other.load_state_dict(copy.deepcopy(stepper.state_dict()))
    for step in range(PAIRED[0] + 1, STEPS):
        stepper.step(loss(model, step, factors), step)
        other.step(loss(resumed, step, factors), step)
    torch.testing.assert_close(resumed.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_scaled_gradients_give_the_same_steps_and_an_overflow_gives_none() -> None:
    """The scaler of fp16 multiplies the loss; parameters without a gradient pass it."""
    factors = torch.randn(STEPS, 6, dtype=torch.float64)
    plain, plain_stepper = parts(DECAY)
    scaled, stepper = parts(DECAY, precision="fp16")
    for step in range(PAIRED[1] + 2):
        plain_stepper.step(loss(plain, step, factors), step)
        stepper.step(loss(scaled, step, factors), step)
    before = copy.deepcopy(scaled.state_dict())
    torch.testing.assert_close(before, plain.state_dict(), rtol=1e-12, atol=0)
    stepper.step(loss(scaled, PAIRED[1] + 2, factors * float("inf")), PAIRED[1] + 2)
    torch.testing.assert_close(scaled.state_dict(), before, rtol=0, atol=0)
