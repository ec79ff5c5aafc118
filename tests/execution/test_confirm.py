"""Results of schema 1 and the shipped profiles: which are confirmed, and the group that new seeds join."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.execution.finished import Confirmation
from harness.execution.plan import make_plan
from harness.execution.request import Selection, make_request
from harness.store import Result, Spec, Store

OLD = Path(__file__).parents[1] / "store/data/tiny/mcse/toy/toy-bert/seed-0-86e8952d157e.json"


@pytest.fixture
def old(tmp_path: Path) -> Result:
    """A result of schema 1, as if its training were that of today: trainings of backend 1 have other fingerprints."""
    read = Store(tmp_path).read(OLD)
    selection = Selection(read.profile, read.spec.variant, seeds=1, set=read.overrides)
    (planned,) = make_plan(make_request(selection), Store(tmp_path / "none")).runs
    return read.model_copy(update={"fingerprint": planned.fingerprint})


def test_the_same_training_is_confirmed(old: Result) -> None:
    confirmed = Confirmation(None)(old)
    assert (old.profile_origin, confirmed.profile_origin) == ("unknown", "package")
    assert confirmed.group != old.group
    assert confirmed.evaluations == old.evaluations


def test_another_training_and_unknown_names_are_not(old: Result) -> None:
    confirm = Confirmation(None)
    changes: tuple[dict[str, object], ...] = (
        {"overrides": {"steps": 5, "eval_every": 2}},
        {"profile": "mine"},
        {"fingerprint": "0" * 64},
        {"spec": Spec(method="mcse", variant="mcse", setting="toy", encoder="gone", seed=0)},
        {"spec": Spec(method="gone", variant="gone", setting="toy", encoder="toy-bert", seed=0)},
    )
    for change in changes:
        other = old.model_copy(update=change)
        assert confirm(other) == other, change


def test_a_new_seed_joins_the_group_of_old_ones(old: Result, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(old)
    for steps, joins in ((4, True), (5, False)):
        request = make_request(Selection("tiny", "mcse", seeds=2, set={"steps": steps, "eval_every": 2}))
        assert [run.group == old.group for run in make_plan(request, store).runs] == [joins, joins]
