"""Devices and precisions: no tensor is left on the CPU, checked on a fake CUDA device, and bf16
trains on the CPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from cases import mark_others_long
from fake_device import CUDA, fake_cuda, tf32
from safetensors.torch import save_file
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from toy_trainers import first_steps, loaded, trainer, variants

from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.method import method_named
from harness.planning import teachers
from harness.registry import list_registered
from harness.runs.evaluate import Spaces, encode_dropout_views
from harness.runs.inputs import load_training_data
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs
from harness.training.stepper import Stepper

#: one method of each kind of loss; `make long` takes all
FEW = ("simcse@paper", "dalr@paper")
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "variant",
    mark_others_long(variants(), FEW),
)
def test_losses_of_every_method_stay_on_the_device(
    variant: str, precision: str, tmp_path: Path
) -> None:
    asked, *_ = loaded(variant)
    outputs: set[torch.dtype] = set()
    with fake_cuda() as device:
        training = trainer(variant, precision, CUDA, tmp_path)
        encoder: Any = training.student.model
        encoder.encoder.layer[0].intermediate.intermediate_act_fn.register_forward_hook(
            lambda module, given, output: outputs.add(output.dtype)
        )
        losses = [loss for step in first_steps(training) for loss in training.compute_losses(step)]
        assert device.copies == 0, "a step waits for nothing on the device"
    assert outputs == {HALF[precision]}, "the encoder's layers compute in half precision"
    streams = {stream for stream, *_ in losses if stream}
    assert streams == set(asked.resolved.own_steps)
    assert len(losses) == len(first_steps(training)) * (1 + len(streams))
    for _, total, terms in losses:
        for name, value in {"total": total, **terms}.items():
            assert (value.device.type, value.dtype, value.ndim) == ("cuda", torch.float32, 0), name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if f"{name}@paper" in FEW else [pytest.mark.long])
        for name in list_registered("method")
        if method_named(name).trains
    ],
)
def test_every_method_trains_in_bf16(name: str, tmp_path: Path) -> None:
    """On the same batch under the same dropout, a few updates decrease each loss; losses are
    computed in float32.
    """
    training, exact = (
        trainer(name, precision, torch.device("cpu"), tmp_path) for precision in ("bf16", "fp32")
    )
    for step in first_steps(training):
        before = {
            stream: total.item()
            for stream, total, _ in exact.compute_losses(step)
            if total is not None
        }
        for stream, total, terms in training.compute_losses(step):
            assert {value.dtype for value in (total, *terms.values())} == {torch.float32}
            assert total.item() != before[stream], "autocast changes no number: it is off"
            assert total.item() == pytest.approx(before[stream], rel=0.05)
        for _ in range(4):
            for stream, total, _ in training.compute_losses(step):
                (training.main if stream is None else training.own[stream]).step(total, 0)
        with torch.no_grad():
            after = {
                stream: total.item()
                for stream, total, _ in training.compute_losses(step)
                if total is not None
            }
        assert all(after[stream] < value for stream, value in before.items()), after
        exact.student.load_state_dict(training.student.state_dict())
        exact.method.load_state_dict(training.method.state_dict())


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_tf32_holds_for_loss_and_gradients(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(torch.autograd, "backward", lambda loss: seen.append(tf32()))
    # a fake device has no backward pass for the parts of terms either
    monkeypatch.setattr(
        "harness.training.trainer.measure_gradient_parts",
        lambda *given: seen.append(tf32()) or ({}, {}),
    )
    with fake_cuda():
        training = trainer("simcse", precision, CUDA, tmp_path)
        training.student.model.embeddings.register_forward_hook(lambda *given: seen.append(tf32()))
        monkeypatch.setattr(
            training.main, "step", lambda total, step: torch.autograd.backward(total)
        )
        training._step(0)
    assert len(seen) >= 2
    assert set(seen) == {(precision == "tf32",) * 2}


@pytest.mark.long
def test_features_of_teachers_are_computed_without_tf32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuDNN convolves in TF32 unless told otherwise, and features are cached for every device."""
    asked, student, _ = loaded("kdmcse")
    seen: list[tuple[bool, bool]] = []

    class Watched:
        def __init__(self, teacher: Any) -> None:
            self.teacher = teacher

        def __getattr__(self, name: str) -> Any:
            seen.append(tf32())
            # what a fake device gives is anything
            return lambda *given: np.nan_to_num(getattr(self.teacher, name)(*given))

    opened = teachers.open_teacher
    monkeypatch.setattr(
        teachers, "open_teacher", lambda *given, **named: Watched(opened(*given, **named))
    )
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with fake_cuda():
        load_training_data(asked, student.tokenizer, "cuda", {})
    assert seen
    assert set(seen) == {(False, False)}


@pytest.mark.parametrize("precision", mark_others_long(["fp32", *HALF], ["fp16"]))
def test_an_update_stays_on_the_device(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scaled loss, clipping and AdamW; gradients are set by hand, since fake tensors have no
    backward pass.
    """

    def gradients(loss: torch.Tensor) -> None:
        assert (loss.device.type, loss.dtype) == ("cuda", torch.float32)
        for parameter in stepper.parameters:
            parameter.grad = torch.ones_like(parameter)

    def unconditional(
        scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *rest: Any
    ) -> None:
        """The scaler asks the device whether a gradient is infinite, which a fake one does not
        know.
        """
        assert scaler.is_enabled()
        optimizer.step()

    monkeypatch.setattr(torch.autograd, "backward", gradients)
    monkeypatch.setattr(torch.amp.GradScaler, "_maybe_opt_step", unconditional)
    with fake_cuda():
        training = trainer("visualcse@paper", precision, CUDA, tmp_path)
        stepper: Stepper = training.own["images"]
        assert stepper.scaler.is_enabled() == (precision == "fp16")
        for step in range(2):
            loss = next(total for stream, total, _ in training.compute_losses(step) if stream)
            stepper.step(loss, step)
        moments = [
            value
            for state in stepper.optimizer.state.values()
            for value in (state["mean"], state["square"])
        ]
    assert len(moments) == 2 * len(stepper.parameters) > 0
    assert {(value.device.type, value.dtype) for value in moments} == {("cuda", torch.float32)}


def test_embedding_stays_on_the_device() -> None:
    with fake_cuda():
        for pooling in ("cls", "mean", "avg-first-last"):
            student = Student.load(student_folder(), pooling).to(CUDA)
            assert student.embed(["a red circle", "a ring"]).shape == (2, 64)
        heads = torch.nn.Linear(64, 8).to(CUDA), torch.nn.Linear(5, 8).to(CUDA)
        space = Spaces(student.embed, heads, {("any", "image"): np.ones((3, 5), dtype=np.float16)})
        assert space.texts(["a", "b"]).shape == (2, 8)
        assert space.images(ToyPairs(size=3).load(None), "any").shape == (3, 8)
        assert encode_dropout_views(student, ["a red circle", "a"], 3, 0).shape == (2, 3, 64)


def test_teachers_stay_on_the_device(tmp_path: Path) -> None:
    save_file(
        timm.create_model("test_resnet", num_classes=7).state_dict(), tmp_path / "model.safetensors"
    )
    read = {
        "input_size": [3, 64, 64],
        "num_classes": 7,
        "first_conv": "conv1.0",
        "classifier": "fc",
    }
    about = {"architecture": "test_resnet", "num_classes": 7, "pretrained_cfg": read}
    (tmp_path / "config.json").write_text(json.dumps(about))
    pixels = ToyPairs(size=3).load(None).images
    other = [np.zeros((40, 50, 3), dtype=np.uint8)]
    with fake_cuda():
        for pooling in ("cls", "mean"):
            text = open_teacher("text", student_folder(), pooling=pooling, device="cuda")
            assert text.captions(["a red circle", "a"]).shape == (2, 64)
            assert text.tokens(["a red circle", "a"], 9).shape == (2, 9, 64)
        clip = open_teacher("open-clip", clip_folder(), device="cuda")
        assert len(clip.captions(["a red circle", "a"])) == 2
        assert [len(clip.images(given)) for given in (pixels[:3], other)] == [3, 1]
        assert len(open_teacher("timm", tmp_path, device="cuda").images(other)) == 1


def test_a_tensor_that_is_left_behind_and_a_wait_for_the_device_are_found() -> None:
    with fake_cuda() as device:
        student = Student.load(student_folder()).to(CUDA)
        tokens = student.tokenize(["a red circle"], 9)
        with pytest.raises(RuntimeError, match=r"same device|different devices"):
            student.encode(tokens, 2)
        with pytest.raises(TypeError, match="cannot be read by numpy"):
            student.encode({name: ids.to(CUDA) for name, ids in tokens.items()}, 2).numpy()
        values, before = torch.zeros(3, device=CUDA), device.copies
        for wait in (
            lambda: float(values.sum()),
            values.unique,
            values.nonzero,
            lambda: values[values > 0],
        ):
            with pytest.raises((DataDependentOutputException, DynamicOutputShapeException)):
                wait()
        values.cpu()
        assert device.copies == before + 1
