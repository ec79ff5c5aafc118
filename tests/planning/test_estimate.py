"""Estimates of time: by arithmetic from the public code's numbers of steps, and means of finished
runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import result
from executor_jobs import plan
from transformers import BertConfig, BertModel

from harness.grid import Resolved, resolve
from harness.planning.estimate import (
    BASE,
    H200,
    HOST,
    LARGE,
    UTILISATION,
    Card,
    Estimate,
    Steps,
    choose_shape,
    count_training_steps,
    estimate,
)
from harness.planning.plan import make_plan
from harness.planning.request import Request
from harness.profiles import load_profile
from harness.runs.execution import Execution
from harness.spec import RunSpec, Variant
from harness.store import Result, Store
from harness.store.schema import Budget
from harness.work.base import execute

PAPER = load_profile("paper")
SIMCSE = "simcse/wiki/bert-base-uncased/seed-0"


def run(key: str, **overrides: object) -> Resolved:
    return resolve(PAPER, RunSpec.parse(key), overrides)


def steps(key: str, **overrides: object) -> list[Steps]:
    counted = count_training_steps(run(key, **overrides))
    assert counted is not None
    return counted


def test_weights_are_those_of_the_layers() -> None:
    layer = BertModel(BertConfig(num_hidden_layers=1), add_pooling_layer=False).encoder
    matrices = sum(weight.numel() for weight in layer.parameters() if weight.ndim == 2)
    assert BASE.weights == 12 * matrices
    # BERT-large has 340 million weights (Devlin et al. 2019)
    assert LARGE.weights + LARGE.vectors == pytest.approx(340e6, rel=0.03)
    assert choose_shape(run("mcse/wiki+flickr/roberta-large/seed-0")) == LARGE
    assert choose_shape(run("mcse/wiki+flickr/roberta-base/seed-0")) == BASE


@pytest.mark.parametrize(
    ("key", "all_steps", "paired"),
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
def test_steps_of_an_epoch_are_those_of_the_public_code(
    key: str, all_steps: int, paired: int
) -> None:
    text, pairs = steps(key, epochs=1)
    assert (text.count + pairs.count, pairs.count) == (all_steps, paired)
    assert text.tokens == pytest.approx(2 * run(key).training.batch_size * 21.9)


def test_options_of_a_setting_change_the_rows_and_images_have_a_step_beside_every_text_step() -> (
    None
):
    mixed = "mcse/wiki+flickr{}/bert-base-uncased/seed-0"
    assert steps(mixed.format("[shot=100]")) == steps(mixed.format("")), (
        "100 pairs keep the steps of all"
    )
    (text,) = steps("simcse-sup/nli[size=30000]/bert-base-uncased/seed-0", batch_size=64, epochs=2)
    assert (text.count, text.tokens) == (2 * 469, pytest.approx(64 * 41.4))
    text, images = steps("visualcse/wiki+imagenet/bert-base-uncased/seed-0")
    assert text.count == images.count == 15_625
    assert images.tokens == 2 * 48 * 197


def test_corpora_of_no_paper_are_not_counted(tmp_path: Path) -> None:
    assert (
        count_training_steps(
            resolve(load_profile("tiny"), RunSpec.parse("simcse/toy/toy-bert/seed-0"), {})
        )
        is None
    )
    assert steps("none/none/bert-base-uncased/seed-0") == []
    assert estimate(plan(tmp_path, "simcse")) is None
    assert estimate(replace(plan(tmp_path, "simcse"), runs=())) == Estimate(here=0.0), (
        "nothing to do takes no time"
    )


def test_a_step_takes_as_long_as_the_card_or_the_host_and_scores_and_checkpoints_come_on_top() -> (
    None
):
    resolved = run(SIMCSE, precision="bf16", eval_every=1000)
    slow = Card("made", half=1e12, tf32=5e11, single=1e18)
    tokens = 100.0
    by_card = 6 * BASE.weights * tokens / (UTILISATION["bf16"] * 1e12)
    saved = 12 * (BASE.weights + BASE.vectors) / 1e9
    stepping = 1000 * by_card
    assert by_card > 12 * HOST
    assert slow.find_training_seconds(resolved, [Steps(1000, tokens)]) == pytest.approx(
        stepping + (stepping / 60 + 1) * saved
    )
    tf32 = run(SIMCSE, precision="tf32", eval_every=1000)
    in_tf32 = 2 * stepping * UTILISATION["bf16"] / UTILISATION["tf32"]
    assert slow.find_training_seconds(tf32, [Steps(1000, tokens)]) == pytest.approx(
        in_tf32 + (in_tf32 / 60 + 1) * saved
    )
    by_host = 1000 * 12 * HOST
    assert slow.find_training_seconds(resolved, [Steps(1000, 1e-3)]) == pytest.approx(
        by_host + (by_host / 60 + 1) * saved, rel=1e-4
    )
    scored = replace(slow, single=1e12).find_training_seconds(resolved, [Steps(1000, tokens)])
    assert scored > slow.find_training_seconds(resolved, [Steps(1000, tokens)])


def test_without_finished_runs_the_time_of_the_measured_card_is_estimated(tmp_path: Path) -> None:
    wanted = {
        RunSpec(Variant("simcse"), Variant("wiki"), "bert-base-uncased", seed): ()
        for seed in (0, 1)
    }
    expected = estimate(make_plan(Request(PAPER, wanted), Store(tmp_path)))
    assert expected.here is None
    assert expected.h200 == pytest.approx(
        2 * H200.find_training_seconds(run(SIMCSE), steps(SIMCSE))
    )


def test_runs_take_as_long_as_those_of_their_method_did(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = plan(tmp_path, "none")
    (end,) = execute(made, lambda event: None, Execution(device="cpu"))
    assert isinstance(end, Result)
    for seconds, fingerprint in ((90.0, "f"), (9000.0, "e")):
        other = store.save(
            end.model_copy(update={"train_seconds": seconds, "fingerprint": fingerprint * 64})
        )
    (evaluation,) = other.evaluations
    expected = estimate(plan(tmp_path, "simcse", seeds=(0, 1)))
    assert expected.h200 is None
    assert expected.here == pytest.approx(2 * (90 + evaluation.seconds)), (
        "not the mean: one run may have had to wait"
    )


def test_an_untrained_encoder_takes_no_time_of_trainings(tmp_path: Path) -> None:
    (evaluation,) = (
        Store(tmp_path)
        .save(result("simcse", 0, {"sts": {"ToySTS": {"spearman": 1.0}}}))
        .evaluations
    )
    untrained = estimate(plan(tmp_path, "none"))
    assert untrained == Estimate(here=pytest.approx(evaluation.seconds)), "its evaluation alone"


def test_a_training_takes_as_long_as_its_number_of_steps(tmp_path: Path) -> None:
    for seed, count in enumerate((30, 60)):
        budget = Budget(steps=count, text_rows=1, other_rows=0, flops=1.0)
        Store(tmp_path).save(result("simcse", seed + 5, train_seconds=0.2 * count, budget=budget))
    for length in (20, 500):
        expected = estimate(plan(tmp_path, "simcse", steps=length, eval_every=20))
        assert expected == Estimate(here=pytest.approx(0.2 * length + 0.4))
