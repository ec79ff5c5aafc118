"""Which runs share their batches, by what their results record, and that such runs do read the same
rows.
"""

from __future__ import annotations

from typing import Any

import pytest
from builders import result

from harness.store.batches import batches_of

TRAINING = {"batch_size": 64, "steps": 60, "epochs": 1, "learning_rate": 3e-5}
IDENTITY = {"corpora": ["wiki", "flickr"]}


def batches(
    variant: str = "mcse",
    training: dict[str, Any] | None = None,
    method: dict[str, Any] | None = None,
    **given: Any,
) -> str:
    values = {"method": method or {}, "training": TRAINING | (training or {}), "encoder": {}}
    return batches_of(
        result(
            variant, given.pop("seed", 0), hyperparameters=values, **{"identity": IDENTITY, **given}
        )
    )


def test_losses_learning_rate_encoder_and_seed_decide_no_batches() -> None:
    same = batches(
        "simcse",
        {"learning_rate": 1e-5, "epochs": 7},
        {"temperature": 0.1},
        seed=3,
        encoder="other",
    )
    assert same == batches() != ""
    assert batches("dalr", method={"mixing": "floor"}) == batches(), (
        "the rule of methods without such an option"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"training": {"batch_size": 128}},
        {"training": {"steps": 61}},
        {"training": {"steps": None, "epochs": 60}},
        {"method": {"mixing": "after"}},
        {"method": {"image_batch_size": 8}},
        {"setting": "toy[shot=8]"},
        {"backend": 2},
        {"identity": {"corpora": ["wiki", "coco"]}},
        {"identity": {}},
        {"identity": IDENTITY | {"code": {"method mcse": "another package's"}}},
    ],
    ids=str,
)
def test_what_decides_batches(changed: dict[str, Any]) -> None:
    assert batches(**changed) != batches()


def test_one_corpus_needs_no_mixing_rule_and_an_older_result_its_captions() -> None:
    one = {"identity": {"corpora": ["flickr"]}}
    assert batches(method={"mixing": "after"}, **one) == batches(**one)
    assert batches(identity={}) == batches(identity={}, method={"captions": "setting"})
    assert batches(identity={}) != batches(identity={}, method={"captions": "all"})
    assert batches(training={"steps": None, "epochs": None}) == "", "not recorded"
