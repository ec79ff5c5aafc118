"""Which runs share their batches, by what their results record, and that such runs do read the same
rows.
"""

from __future__ import annotations

from typing import Any

import pytest
from builders import result

from harness.method import by_batches
from harness.runs.train import describe_mixing
from harness.store import BatchMixing
from harness.store.batches import batches_of
from harness.training.batching import make_mixing

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


def test_a_method_of_another_package_is_known_by_its_recorded_mixing() -> None:
    """As older results are by its code."""

    def foreign(variant: str, mixing: BatchMixing | None) -> str:
        code = {f"method {variant}": f"the code of {variant}"}
        return batches(variant, identity=IDENTITY | {"code": code}, mixing=mixing)

    common = BatchMixing(cycle=3, place=0, common=True)
    own = BatchMixing(cycle=3, place=1, common=False)
    assert foreign("mine", common) == foreign("yours", common) == batches()
    assert foreign("mine", own) == foreign("yours", own) != batches()
    assert foreign("mine", own) != foreign("mine", BatchMixing(cycle=2, place=1, common=False))
    assert foreign("mine", None) not in (foreign("mine", common), foreign("yours", None))


def test_a_rule_that_mixes_nothing_decides_no_batches() -> None:
    """An author's method on text alone reads the rows of SimCSE, whatever rule it has for pairs."""

    def own_rule(rows: int, pairs: int, text: int, paired: int) -> tuple[int, int]:
        return 3, 2

    texts = {"corpora": ["wiki", "news"]}
    foreign = texts | {"code": {"method mine": "a hash"}}
    record = describe_mixing(make_mixing(1000, 0, 64, own_rule))
    assert batches("mine", identity=foreign, mixing=record) == batches("simcse", identity=texts)
    mixing_rows = describe_mixing(make_mixing(1000, 200, 64, own_rule))
    assert batches("mine", identity=foreign, mixing=mixing_rows) != batches(identity=texts)
    common = describe_mixing(make_mixing(1000, 200, 64, by_batches))
    assert batches("mine", identity=foreign, mixing=common) == batches("mcse", identity=texts)


def test_one_corpus_needs_no_mixing_rule_and_an_older_result_its_captions() -> None:
    one = {"identity": {"corpora": ["flickr"]}}
    assert batches(method={"mixing": "after"}, **one) == batches(**one)
    assert batches(identity={}) == batches(identity={}, method={"captions": "setting"})
    assert batches(identity={}) != batches(identity={}, method={"captions": "all"})
    assert batches(training={"steps": None, "epochs": None}) == "", "not recorded"
