"""Low-rank training: peft's own forward pass in the packed one, what is trained, what is saved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_flops import counted
from test_packed import MODELS, PADS, made, rows
from torch import Tensor, nn

from harness.encoders import adapters
from harness.encoders.flops import count_token_flops, count_training_flops
from harness.encoders.student import Student
from harness.errors import UserError
from harness.toy import student_folder
from harness.training.stepper import Chunked

pytest.importorskip("peft")
RANK = 2
TEXTS = ["a red circle", "the plain big blue square at the left", "noon"]


def move_adapters(model: nn.Module) -> None:
    """Give the matrices B, which are 0 at first, values that change every vector."""
    torch.manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.normal_(std=0.3)


def adapted(name: str, **dropout: float) -> Student:
    model = made(name, **dropout)
    student = Student(model, PADS)
    student.adapt(RANK)
    student.model.double()
    move_adapters(student.model)
    return student


@pytest.mark.parametrize("name", MODELS)
def test_the_packed_pass_is_that_of_peft_and_trains_the_matrices_alone(name: str) -> None:
    student = adapted(name)
    plain = copy.deepcopy(student.model)
    plain.set_attn_implementation("eager")
    tokens = rows(student.model.config.pad_token_id)
    assert student.packing is not None
    assert bool(student.packing.layers) == (name != "distilbert")

    vectors = student.encode(tokens, 1)[:, 0]
    expected = plain(**tokens).last_hidden_state[:, 0]
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        without = Student(made(name), PADS).encode(tokens, 1)[:, 0]
    assert float((vectors.detach() - without).abs().max()) > 1e-3

    weights = torch.randn_like(vectors)
    (vectors * weights).sum().backward()
    (expected * weights).sum().backward()
    expected_gradients = dict(plain.named_parameters())
    for parameter_name, value in student.model.named_parameters():
        is_adapter = ".lora_" in parameter_name
        assert value.requires_grad == is_adapter
        assert (value.grad is not None) == is_adapter
        if is_adapter:
            wanted = expected_gradients[parameter_name].grad
            torch.testing.assert_close(value.grad, wanted, rtol=0, atol=1e-12)


def test_in_pieces_the_matrices_have_the_gradient_of_the_whole_batch() -> None:
    student = adapted("bert", hidden=0.0)
    tokens = rows(student.model.config.pad_token_id)

    def gradients(size: int | None) -> list[Tensor]:
        student.zero_grad()
        Chunked(student, size)(tokens, 2).square().sum().backward()
        moving = [value for value in student.parameters() if value.requires_grad]
        return [value.grad for value in moving if value.grad is not None]

    torch.testing.assert_close(gradients(2), gradients(None), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pooling", ["cls", "avg-first-last"])
def test_a_saved_model_has_the_vectors_of_the_trained_one(tmp_path: Path, pooling: str) -> None:
    plain = Student.load(student_folder(), pooling)
    student = Student.load(student_folder(), pooling)
    student.adapt(RANK)
    np.testing.assert_array_equal(student.embed(TEXTS), plain.embed(TEXTS))  # B is 0

    move_adapters(student.model)
    vectors = student.embed(TEXTS)
    assert np.abs(vectors - plain.embed(TEXTS)).max() > 1e-2
    student.save(tmp_path)
    loaded = Student.load(tmp_path, pooling)
    np.testing.assert_allclose(loaded.embed(TEXTS), vectors, rtol=0, atol=1e-5)
    assert loaded.model.state_dict().keys() == plain.model.state_dict().keys()

    student.load_whole(loaded.model.state_dict())
    np.testing.assert_array_equal(student.embed(TEXTS), loaded.embed(TEXTS))
    assert student.model.state_dict().keys() == plain.model.state_dict().keys()


def test_operations_of_frozen_weights_have_no_gradient() -> None:
    student = Student(made("bert").float(), PADS)
    student.adapt(RANK)
    student.model.set_attn_implementation("eager")
    student.packing = None
    tokens: dict[str, Any] = {"input_ids": torch.randint(5, 90, (3, 7))}
    tokens["attention_mask"] = torch.ones_like(tokens["input_ids"])
    found = count_training_flops(student, count_token_flops(student), tokens, 2)
    # the inputs of the first layer are frozen: their gradients are counted, and not computed
    assert found == pytest.approx(counted(student, tokens, 2), rel=0.1)


def test_without_peft_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs peft.*pip install 'sentence-harness\[lora\]'"):
        Student(made("bert"), PADS).adapt(RANK)
