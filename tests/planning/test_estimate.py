"""Estimates of time: from counted operations, and means of finished runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.grid import resolve
from harness.planning.cards import CARDS
from harness.planning.estimate import Estimate, estimate
from harness.planning.operations import shape_of, suite_work, training_work
from harness.planning.plan import Plan, make_plan
from harness.planning.request import Request
from harness.profiles import load_profile
from harness.spec import RunSpec, Variant, parse_setting
from harness.store import Result, Store
from harness.work.base import execute


def plan(root: Path, *methods: str, seeds: tuple[int, ...] = (0,), suites: tuple[str, ...] = ("sts",)) -> Plan:
    tiny = load_profile("tiny")
    request = Request(
        tiny, [Variant.parse(name) for name in methods], [parse_setting("toy")], ["toy-bert"], seeds, suites
    )
    return make_plan(request, Store(root))


def test_without_finished_runs_the_operations_of_training_and_suites_count(tmp_path: Path) -> None:
    paper = load_profile("paper")
    request = Request(paper, [Variant("simcse")], [parse_setting("wiki")], ["bert-base-uncased"], (0, 1), ["sts"])
    expected = estimate(make_plan(request, Store(tmp_path)))
    assert expected is not None
    assert expected.here is None
    run = resolve(paper, RunSpec.parse("simcse/wiki/bert-base-uncased/seed-0"), {})
    training, suites = training_work(run), list(suite_work(run, ["sts", "mteb"]))
    assert training is not None
    assert len(suites) == 1, "mteb's sentences are not counted"
    for card in CARDS:
        seconds = 2 * card.seconds(shape_of(run), training)
        # without its data, the suite is no part of the plan
        assert expected.cards[card.name] == pytest.approx(seconds)
        assert 0 < card.seconds(shape_of(run), suites) < 0.1 * seconds


def test_toy_corpora_without_finished_runs_have_no_estimate(tmp_path: Path) -> None:
    assert estimate(plan(tmp_path, "simcse")) is None


def test_a_plan_with_nothing_to_do_takes_no_time(tmp_path: Path) -> None:
    made = replace(plan(tmp_path, "simcse"), runs=())
    assert estimate(made) == Estimate(here=0.0)


def test_runs_take_as_long_as_those_of_their_method_did(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = plan(tmp_path, "none")
    (end,) = execute(made, lambda event: None, device="cpu")
    assert isinstance(end, Result)
    other = store.save(end.model_copy(update={"train_seconds": 90.0, "fingerprint": "f" * 64}))
    (evaluation,) = other.evaluations
    expected = estimate(plan(tmp_path, "simcse", seeds=(0, 1)))
    assert expected is not None
    assert expected.cards == {}
    assert expected.here == pytest.approx(2 * (45 + evaluation.seconds))
