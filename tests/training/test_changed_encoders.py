"""Methods that change the encoder: what a packed pass would go round, and what a saved model would
not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_trainer import TRAINING, sentences
from torch import Tensor, nn

from harness.encoders.student import Student
from harness.errors import UserError
from harness.method import Method
from harness.registry import get
from harness.toy import student_folder
from harness.training.build import build_method
from harness.training.record import TrainingError
from harness.training.streams import TrainingData
from harness.training.trainer import Trainer

SimCSE: Any = get("method", "simcse")
TEXT = ["the plain red circle at the left by noon", "a big blue square"]


def first_layer(student: Student) -> Any:
    model: Any = student.model
    return model.encoder.layer[0]


class Halved(SimCSE):
    """Halves the states of the first layer by a hook, in training and at test."""

    def prepare(self, student: Student, *given: Any) -> None:
        first_layer(student).register_forward_hook(self.halve)

    calls = 0

    def halve(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        self.calls += 1
        if isinstance(output, Tensor):
            return output / 2
        return (output[0] / 2, *output[1:])


class HalvedInTraining(Halved):
    def halve(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        return super().halve(module, inputs, output) if module.training else None


class ForAStep(Halved):
    """Puts the hook on for each loss alone."""

    def prepare(self, student: Student, *given: Any) -> None:
        self.own = (student,)

    def loss_terms(self, batch: Any, encode: Any) -> dict[str, Tensor]:
        handle = first_layer(self.own[0]).register_forward_hook(self.halve)
        terms: dict[str, Tensor] = super().loss_terms(batch, encode)
        handle.remove()
        return terms


class LowRank(nn.Module):
    """A linear module with a product of two thin matrices beside it, as peft wraps it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.thin = nn.Linear(base.in_features, 2, bias=False)
        self.wide = nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.wide.weight)

    @property
    def weight(self) -> Tensor:
        return self.base_layer.weight

    @property
    def bias(self) -> Tensor:
        return self.base_layer.bias

    def forward(self, states: Tensor) -> Tensor:
        moved: Tensor = self.base_layer(states) + self.wide(self.thin(states))
        return moved


class Wrapped(SimCSE):
    def prepare(self, student: Student, *given: Any) -> None:
        attention = first_layer(student).attention.self
        attention.query = LowRank(attention.query)


class WithoutDropout(SimCSE):
    """Turns dropout off in `prepare`, where the packed pass has read it before."""

    def prepare(self, student: Student, *given: Any) -> None:
        for module in student.model.modules():
            if type(module).__name__ == "Dropout":
                module.p = 0.0


class LeftInEvaluation(SimCSE):
    def after_step(self, student: Student, step: int) -> None:
        if step == 2:
            student.eval()


def trainer_with(kind: type[Method], folder: Path) -> Trainer:
    values = kind.configure("paper", {})
    student = Student.load(student_folder(), values.pooling, own_head=False)
    data = TrainingData(sentences(student))
    method = build_method(kind, values, student, data, 0, {})

    def dev(embed: Any) -> float:
        return 10 * float(np.abs(embed(TEXT)).sum())

    return Trainer(student, method, data, TRAINING, seed=0, setting="toy", dev=dev, folder=folder)


def test_a_hook_sends_the_run_to_the_modules(tmp_path: Path) -> None:
    plain, hooked = (trainer_with(kind, tmp_path) for kind in (SimCSE, HalvedInTraining))
    assert plain.student.packing is not None
    assert (hooked.student.packing, hooked.student.found.rows) == (None, "padded")
    assert "hooks" in hooked.student.why_unpacked

    hooked.student.train().encode(hooked.student.tokenize(TEXT, 32), 1)
    assert hooked.method.calls == 1

    hooked.run()  # a hook of training alone is saved rightly
    assert hooked.folder.has_ended


def test_a_hook_that_is_put_on_for_a_step_acts(tmp_path: Path) -> None:
    training = trainer_with(ForAStep, tmp_path)
    assert training.student.packing is not None
    training.run()
    assert training.method.calls == TRAINING.steps
    assert "hooks" in training.student.why_unpacked


def test_a_hook_that_stays_on_at_test_is_refused(tmp_path: Path) -> None:
    training = trainer_with(Halved, tmp_path)
    with pytest.raises(
        TrainingError, match=r"dev score .* in its training, and .* loaded from its"
    ):
        training.run()
    assert not training.folder.has_ended


def test_a_wrapped_module_is_refused(tmp_path: Path) -> None:
    says = (
        r"prepare changes the encoder: encoder\.layer\.0\.attention\.self\.query \(Linear\) is now"
    )
    with pytest.raises(UserError, match=says):
        trainer_with(Wrapped, tmp_path)


def test_a_module_that_is_wrapped_in_a_step_is_refused(tmp_path: Path) -> None:
    class Later(Wrapped):
        prepare = SimCSE.prepare

        def after_step(self, student: Student, step: int) -> None:
            if step == 1:
                Wrapped.prepare(self, student)

    with pytest.raises(TrainingError, match=r"changes the encoder: encoder\.layer\.0"):
        trainer_with(Later, tmp_path).run()


def test_rates_of_dropout_set_by_a_method_are_followed(tmp_path: Path) -> None:
    student = trainer_with(WithoutDropout, tmp_path).student.train()
    assert student.packing is not None
    vectors = student.encode(student.tokenize(TEXT, 32), 2)
    torch.testing.assert_close(vectors[:, 0], vectors[:, 1])


def test_an_encoder_left_in_evaluation_mode_ends_training(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="evaluation mode after step 3, so that the next steps"):
        trainer_with(LeftInEvaluation, tmp_path).run()
