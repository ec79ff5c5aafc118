"""Packed forward passes against padded ones: exact without dropout, equal in distribution with it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from fake_device import CUDA, fake_cuda
from torch import Tensor
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from harness.encoders.rows import TokenRows
from harness.encoders.student import Student
from harness.toy import student_folder

LONGEST, VOCABULARY = 12, 97
#: one token, the full length, and lengths between
LENGTHS = (1, LONGEST, 5, 2, 7)
SHAPE: dict[str, Any] = {
    **{
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    },
    **{"vocab_size": VOCABULARY, "max_position_embeddings": LONGEST + 2},
}


def distilled(**dropout: float) -> torch.nn.Module:
    config = DistilBertConfig(
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=48,
        vocab_size=VOCABULARY,
        max_position_embeddings=LONGEST,
    )
    config.dropout, config.attention_dropout = dropout.values()
    return DistilBertModel(config)


MODELS: Mapping[str, Callable[..., torch.nn.Module]] = {
    "bert": lambda **dropout: BertModel(BertConfig(**SHAPE, **dropout), add_pooling_layer=False),
    "roberta": lambda **dropout: RobertaModel(
        RobertaConfig(**SHAPE, **dropout), add_pooling_layer=False
    ),
    "distilbert": distilled,
    "toy": lambda **dropout: AutoModel.from_pretrained(
        student_folder(), add_pooling_layer=False, **dropout
    ),
}


PADS = AutoTokenizer.from_pretrained(student_folder())


def made(name: str, hidden: float = 0.0, attention: float = 0.0) -> Any:
    """A model in float64 with weights that are drawn, or the toy student's."""
    torch.manual_seed(0)
    return (
        MODELS[name](hidden_dropout_prob=hidden, attention_probs_dropout_prob=attention)
        .double()
        .train()
    )


def rows(pad: int = 0) -> TokenRows:
    drawn = np.random.default_rng(0)
    return TokenRows.from_lists(
        [drawn.integers(5, VOCABULARY, length).tolist() for length in LENGTHS], pad
    )


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("attention", [0.0, 1e-300])
@pytest.mark.parametrize("name", MODELS)
def test_vectors_and_all_gradients_are_those_of_the_padded_pass(
    name: str, attention: float
) -> None:
    """Without dropout, and with one that never drops anything but takes the steps of dropout."""
    model = made(name, attention=attention)
    tokens = rows(model.config.pad_token_id)
    plain = copy.deepcopy(model)
    plain.set_attn_implementation("eager")
    student = Student(model, PADS)
    assert (student.packing.first, bool(student.packing.layers)) == (
        {"roberta": 2}.get(name, 0),
        name != "distilbert",
    )
    weights = torch.randn(len(LENGTHS), 2, student.width, dtype=torch.float64)

    vectors = student.encode(tokens, 2)
    (vectors * weights).sum().backward()
    expected = plain(**tokens).last_hidden_state[:, :1].expand_as(vectors)
    (expected * weights).sum().backward()

    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(model), gradients(plain), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "hidden", "attention"),
    [("bert", 0.0, 0.3), pytest.param("roberta", 0.1, 0.0, marks=pytest.mark.long)],
)
def test_dropout_is_that_of_the_padded_pass(name: str, hidden: float, attention: float) -> None:
    """Means and variances over 2,000 draws, within five standard errors; draws differ from view to
    view.
    """
    draws, model = 2000, made(name, hidden, attention)
    tokens = rows(model.config.pad_token_id)
    student, packed = Student(model, PADS), []
    with torch.no_grad():
        for packing in (student.packing, None):
            student.packing = packing
            packed.append(student.encode(tokens, draws))
    ours, theirs = packed
    assert not torch.equal(ours[:, 0], ours[:, 1])
    error = ((ours.var(1) + theirs.var(1)) / draws).sqrt()
    # a row of one token has no attention to drop but that of itself
    assert ((ours.mean(1) - theirs.mean(1)).abs() <= 5 * error + 1e-12).all()
    ratio = ours.var(1).sum(1) / theirs.var(1).sum(1)
    torch.testing.assert_close(ratio, torch.ones_like(ratio), rtol=0, atol=0.1)


def no_dropout_after_attention(model: Any) -> None:
    model.encoder.layer[0].attention.output.dropout = torch.nn.Identity()


def more_dropout_than_it_says(model: Any) -> None:
    class Twice(torch.nn.Dropout):
        def forward(self, states: Tensor) -> Tensor:
            return super().forward(super().forward(states))

    model.encoder.layer[1].output.dropout = Twice(0.1)


def a_norm_of_its_own(model: Any) -> None:
    norm = model.encoder.layer[1].output.LayerNorm
    norm.forward = lambda states: torch.nn.functional.rms_norm(
        states, norm.normalized_shape, norm.weight
    )


@pytest.mark.parametrize(
    "change", [no_dropout_after_attention, more_dropout_than_it_says, a_norm_of_its_own]
)
def test_layers_that_compute_something_else_pass_by_their_modules(
    change: Callable[[Any], None],
) -> None:
    model = made("bert", 0.1, 0.1)
    change(model)
    expected = copy.deepcopy(model).eval()(**rows()).last_hidden_state[:, :1]
    student = Student(model, PADS)
    assert student.packing.layers == ()
    torch.testing.assert_close(student.eval().encode(rows(), 1), expected, rtol=0, atol=1e-12)


def test_an_encoder_with_attention_of_its_own_is_padded_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = MPNetModel(
        MPNetConfig(**SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ).double()
    with caplog.at_level(logging.WARNING):
        student = Student(model, PADS)
    assert "MPNetModel computes on padding too" in caplog.text
    tokens = rows(model.config.pad_token_id)
    expected = model(**tokens).last_hidden_state[:, :1]
    torch.testing.assert_close(
        student.encode(tokens, 2), expected.expand(-1, 2, -1), rtol=0, atol=1e-12
    )


def test_rows_padded_at_their_beginning_are_not_packed() -> None:
    model, tokens = (
        made("bert"),
        {"input_ids": torch.tensor([[0, 7, 8]]), "attention_mask": torch.tensor([[0, 1, 1]])},
    )
    expected = model(**tokens).last_hidden_state[:, :1]
    torch.testing.assert_close(Student(model, PADS).encode(tokens, 1), expected)


@pytest.mark.parametrize("count", [4, 5])
def test_rows_reach_a_device_in_one_copy_and_padded_ones_when_they_are_read(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[Tensor] = []
    tokens = rows().take(0, count)
    monkeypatch.setattr(
        "harness.encoders.rows.send", lambda value, device: copies.append(value) or value
    )
    there = tokens.to(torch.device("cuda"))
    assert len(copies) == 1
    torch.testing.assert_close(vars(there.packed), vars(tokens.packed), rtol=0, atol=0)
    monkeypatch.undo()
    with fake_cuda():
        there = tokens.to(CUDA)
        assert there.packed.offsets.dtype == torch.int32
        assert [there[name].device.type for name in there] == ["cuda"] * 2
