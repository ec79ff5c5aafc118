"""Counted operations of runs: PyTorch's own count and the public code's numbers of steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from harness.grid import Resolved, resolve
from harness.planning.cards import SENT_S, UTILISATION, Card
from harness.planning.operations import BASE, LARGE, TRAINING, Passes, Shape, shape_of, training_work
from harness.profiles import load_profile
from harness.spec import RunSpec

PAPER = load_profile("paper")


def run(key: str, **overrides: object) -> Resolved:
    return resolve(PAPER, RunSpec.parse(key), overrides)


def work(key: str, **overrides: object) -> Sequence[Passes]:
    found = training_work(run(key, **overrides))
    assert found is not None
    return found


@pytest.mark.parametrize("shape", [Shape(2, 32, 64), Shape(3, 48, 96)])
def test_a_training_step_has_the_operations_that_pytorch_counts(shape: Shape) -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=shape.width, num_hidden_layers=shape.layers, intermediate_size=shape.inner,
        num_attention_heads=4, attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    with FlopCounterMode(display=False) as counter:
        hidden = model(input_ids=torch.randint(0, 50, (5, 7))).last_hidden_state
        assert counter.get_total_flops() == shape.forward(5, 7)
        hidden.sum().backward()
    assert counter.get_total_flops() == TRAINING * shape.forward(5, 7)


def test_weights_of_the_two_shapes() -> None:
    """BERT-base has 110 million weights, BERT-large 340 (Devlin et al. 2019), with those that are left out here."""
    assert BASE.weights == pytest.approx(110e6, rel=0.03)
    assert LARGE.weights == pytest.approx(340e6, rel=0.03)


@pytest.mark.parametrize(
    ("key", "steps", "paired"),
    [
        # one caption an image, batches of 64 and 128
        ("mcse@official/wiki+flickr/bert-base-uncased/seed-0", 16_091, 488),
        ("mcse@official/wiki+coco/bert-base-uncased/seed-0", 16_919, 1_410),
        ("mcse@official/wiki+flickr/roberta-base/seed-0", 8_046, 244),
        # every caption: five an image
        ("kdmcse@official/wiki+flickr/bert-base-uncased/seed-0", 17_952, 2_992),
        ("dalr@official/wiki+flickr/bert-base-uncased/seed-0", 8_977, 1_497),
    ],
)
def test_steps_of_an_epoch_are_those_of_the_public_code(key: str, steps: int, paired: int) -> None:
    text, pairs, scores = work(key, epochs=1)
    assert (text.count + pairs.count, pairs.count) == (steps, paired)
    assert scores.count == -(-steps // 125)
    assert {text.precision, pairs.precision} == {"tf32"}


def test_options_of_a_setting_change_the_rows() -> None:
    mixed = "mcse/wiki+flickr{}/bert-base-uncased/seed-0"
    assert work(mixed.format("[shot=100]")) == work(mixed.format("")), "100 pairs keep the steps of all"
    (text, scores) = work("simcse-sup/nli[size=30000]/bert-base-uncased/seed-0", batch_size=64, epochs=2)
    assert text.count == 2 * 469
    assert not scores.trains


def test_images_have_a_step_beside_every_text_step() -> None:
    text, images, _ = work("visualcse/wiki+imagenet/bert-base-uncased/seed-0")
    assert text.count == images.count == 15_625
    assert images.operations == TRAINING * BASE.forward(2 * 48, 197)


def test_corpora_of_no_paper_are_not_counted() -> None:
    assert training_work(resolve(load_profile("tiny"), RunSpec.parse("simcse/toy/toy-bert/seed-0"), {})) is None
    assert work("none/none/bert-base-uncased/seed-0") == []


def test_a_large_encoder_has_its_own_shape() -> None:
    assert shape_of(run("mcse/wiki+flickr/roberta-large/seed-0")) == LARGE
    assert shape_of(run("mcse/wiki+flickr/roberta-base/seed-0")) == BASE


def test_seconds_are_of_operations_or_of_launches_and_of_what_is_written() -> None:
    card = Card("made", half=1e12, tf32=5e11, single=1e11)
    slow = 1e12 / (UTILISATION * 1e12)
    assert card.seconds(BASE, [Passes(2, 1e12, "bf16", trains=True)]) == pytest.approx(2 * slow)
    assert card.seconds(BASE, [Passes(2, 1e12, "fp32", trains=True)]) == pytest.approx(20 * slow)
    assert card.seconds(BASE, [Passes(3, 1.0, "bf16", trains=True)]) == pytest.approx(3 * 12 * SENT_S[True])
    assert card.seconds(BASE, [Passes(1, 1.0, "fp32", trains=False, written=2_000_000_000)]) == pytest.approx(
        2 + 12 * SENT_S[False]
    )
