"""A batch in pieces: the gradient of the whole batch for every method, under the same dropout in
both passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import mark_others_long
from torch import Tensor
from toy_trainers import first_steps, trainer

from harness.encoders.rows import TokenRows
from harness.method import method_named
from harness.registry import list_registered
from harness.training.stepper import Chunked
from harness.training.trainer import Trainer

CPU = torch.device("cpu")
#: every method that trains, and DALR's public code for its batch normalisation; few recordings,
#: which are long
FEW = {"audiocse": "[audio_batch_size=5]", "audiocse-sup": "[audio_batch_size=5]"}
TRAINED = [
    *(name + FEW.get(name, "") for name in list_registered("method") if method_named(name).trains),
    "dalr@official",
]


def doubled(batch: Any) -> Any:
    """The batch with its floating values in float64."""

    def wide(values: Mapping[str, Tensor] | None) -> Mapping[str, Tensor] | None:
        if values is None or isinstance(values, TokenRows):
            return values
        return {
            name: value.double() if value.is_floating_point() else value
            for name, value in values.items()
        }

    mappings = {item.name for item in dataclasses.fields(batch)} - {"labels", "texts", "changed"}
    return dataclasses.replace(batch, **{name: wide(getattr(batch, name)) for name in mappings})


def gradients(training: Trainer, batch: Any, encode: Any) -> dict[str, Tensor]:
    """The gradient of every parameter that the batch's loss reaches, of the student's and of the
    heads.
    """
    training.student.zero_grad()
    training.method.zero_grad()
    total, _ = training.method.loss(batch, encode)
    total.backward()
    named = (*training.student.named_parameters(), *training.method.named_parameters())
    return {name: value.grad.clone() for name, value in named if value.grad is not None}


def test_token_vectors_in_pieces_have_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    training = trainer("simcse", "fp32", CPU, tmp_path)
    ((_, batch),), student, found = training.batches.take(0), training.student.double().eval(), []
    for encode in (student, Chunked(student, 3)):
        student.zero_grad()
        mask = batch.tokens["attention_mask"][:, None, :, None]
        (encode.states(batch.tokens, 2) * mask).pow(2).sum().backward()
        found.append(
            [value.grad.clone() for value in student.parameters() if value.grad is not None]
        )
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "name", mark_others_long(TRAINED, ["mcse", "dalr", "visualcse", "audiocse[audio_batch_size=5]"])
)
def test_pieces_have_the_gradient_of_the_whole_batch(name: str, tmp_path: Path) -> None:
    training = trainer(name, "fp32", CPU, tmp_path)
    training.student.double().eval()
    training.method.double().eval()
    for step in first_steps(training):
        for _, batch in training.batches.take(step):
            wide = doubled(batch)
            whole = gradients(training, wide, training.student.encode)
            pieces = gradients(training, wide, Chunked(training.student.encode, 3))
            assert "model.encoder.layer.0.attention.self.query.weight" in whole
            torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["mcse", "visualcse"])
def test_both_passes_have_the_same_dropout(name: str, precision: str, tmp_path: Path) -> None:
    """Also under autocast, which the second pass enters anew; and the pass leaves the random state
    as it was.
    """
    training = trainer(name, precision, CPU, tmp_path, chunk=3)
    training.student.train()
    off = "sentences" if training.batches.mixing.step(0)[0] == "pairs" else "pairs"
    inner, passes = training.encode.encode, ([], [])

    def recorded(inputs: Mapping[str, Tensor], views: int) -> Tensor:
        vectors = inner(inputs, views)
        passes[torch.is_grad_enabled()].append(vectors.detach().clone())
        return vectors

    training.encode = Chunked(recorded, 3)
    for _, total, _ in training.compute_losses(0):
        state = torch.get_rng_state()
        total.backward()
        assert torch.equal(torch.get_rng_state(), state)
    first, second = passes
    assert len(first) == len(second) > 2
    assert sum(map(len, first)) == sum(
        order.batch_size for order in training.batches.orders.values() if order.stream != off
    )
    for early, late in zip(first, second, strict=True):
        assert torch.equal(early, late)
        assert not torch.equal(early[:, 0], early[:, 1])


def test_a_batch_that_fits_is_encoded_whole(tmp_path: Path) -> None:
    """With as many rows as the batch has, training is bit for bit that without pieces."""
    totals = [
        next(trainer("simcse", "fp32", CPU, tmp_path, chunk).compute_losses(0))[1]
        for chunk in (None, 8)
    ]
    assert torch.equal(*totals)


def test_the_activations_of_one_piece_are_held_at_a_time(tmp_path: Path) -> None:
    """The most numbers that graphs hold for backward passes at a time, weights apart."""

    class Kept:
        """A saved tensor, counted while it lives."""

        now = most = 0

        def __init__(self, value: Tensor) -> None:
            self.value = value
            self.size = 0 if value.untyped_storage().data_ptr() in apart else value.numel()
            Kept.now += self.size
            Kept.most = max(Kept.most, Kept.now)

        def __del__(self) -> None:
            Kept.now -= self.size

    most = []
    for chunk in (None, 2):
        training = trainer("simcse", "fp32", CPU, tmp_path, chunk)
        apart = {
            value.untyped_storage().data_ptr()
            for value in (*training.student.parameters(), *training.method.parameters())
        }
        Kept.most = 0
        with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.value):
            total = next(training.compute_losses(0))[1]
            total.backward()
        most.append(Kept.most)
        del total
    assert most[1] < 0.3 * most[0]
