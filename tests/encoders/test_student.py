"""The student on the toy encoder: batching and saving; and poolings, there and on given layers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from faults_tools import contents
from safetensors.torch import load_file, save_file

from harness.encoders import rows as rows_module
from harness.encoders.student import Student
from harness.registry import list_registered
from harness.toy import student_folder

SENTENCES = ["a", "the big red circle", "a small blue square on the left", "", "the big red circle"]


@pytest.fixture(scope="module", params=sorted({*list_registered("pooling")} - {"modules"}))
def student(request: pytest.FixtureRequest) -> Student:
    return Student.load(student_folder(), request.param)


@torch.inference_mode()
def encoded_singly(student: Student, sentence: str) -> np.ndarray:
    """A sentence by itself, without padding, by the definition of its pooling."""
    name = student.eval().pooling.name
    output = student.model(**student.tokenize([sentence], 512), output_hidden_states=True)
    last, first = output.last_hidden_state[0], output.hidden_states[0][0]
    if name == "cls":
        return last[0].numpy()
    if name == "last":
        return last[-1].numpy()
    if name == "pooler":
        weights = load_file(student_folder() / "model.safetensors")
        return torch.tanh(
            weights["pooler.dense.weight"] @ last[0] + weights["pooler.dense.bias"]
        ).numpy()
    return (last if name == "mean" else (first + last) / 2).mean(0).numpy()


def test_a_vector_does_not_depend_on_what_is_beside_it(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = np.stack([encoded_singly(student, sentence) for sentence in SENTENCES])
    for tokens in (1, 16, 8192):
        monkeypatch.setattr(rows_module, "TOKENS_A_BATCH", tokens)
        vectors = student.embed(SENTENCES)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_embedding_has_no_dropout_and_gives_the_mode_back(student: Student) -> None:
    student.train()
    first, second = student.embed(SENTENCES), student.embed(SENTENCES)
    assert student.training
    np.testing.assert_array_equal(first, second)
    assert student.embed([]).shape == (0, student.width)


def test_a_saved_student_is_the_same(student: Student, tmp_path: Path) -> None:
    student.save(tmp_path)
    assert "harness" not in (tmp_path / "config.json").read_text(), (
        "the attention is named for this process alone"
    )
    again = Student.load(tmp_path, student.pooling.name)
    np.testing.assert_array_equal(again.embed(SENTENCES), student.embed(SENTENCES))


def test_what_was_encoded_before_changes_no_byte_of_a_saved_student(tmp_path: Path) -> None:
    student = Student.load(student_folder(), "mean")
    student.save(tmp_path / "first")
    student.tokenizer(SENTENCES, truncation=True, max_length=7, padding="max_length")
    student.save(tmp_path / "second")
    student.embed(SENTENCES)
    student.save(tmp_path / "third")
    first, *others = (contents(tmp_path / name) for name in ("first", "second", "third"))
    assert first["tokenizer.json"]
    assert others == [first, first]


def test_an_encoder_with_the_names_of_the_first_bert_is_saved_with_those_of_its_modules(
    tmp_path: Path,
) -> None:
    """google-bert's files have `bert.` before every name, and LayerNorm's `gamma` and `beta`."""
    shutil.copytree(student_folder(), tmp_path / "old")
    weights = load_file(student_folder() / "model.safetensors")
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        weights = {name.replace(new, old): value for name, value in weights.items()}
    save_file(
        {f"bert.{name}": value for name, value in weights.items()},
        tmp_path / "old" / "model.safetensors",
    )
    student = Student.load(tmp_path / "old", "mean")
    student.save(tmp_path / "saved")
    assert set(load_file(tmp_path / "saved" / "model.safetensors")) == set(
        student.model.state_dict()
    )
    expected = Student.load(student_folder(), "mean").embed(SENTENCES)
    for encoder in (student, Student.load(tmp_path / "saved", "mean")):
        np.testing.assert_array_equal(encoder.embed(SENTENCES), expected)
