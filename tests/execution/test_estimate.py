"""Estimates of time: examples seen by hand, and means of finished runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.execution.estimate import LARGE, Estimate, estimate, examples_seen, minutes_an_example
from harness.execution.executors.base import execute
from harness.execution.plan import Plan, make_plan
from harness.execution.request import Request
from harness.grid import resolve
from harness.profiles import load_profile
from harness.spec import RunSpec, Variant, parse_setting
from harness.store import Result, Store


def seen(key: str) -> float | None:
    return examples_seen(resolve(load_profile("paper"), RunSpec.parse(key), {"batch_size": 64, "epochs": 2}))


def plan(root: Path, *methods: str, seeds: tuple[int, ...] = (0,), suites: tuple[str, ...] = ("sts",)) -> Plan:
    tiny = load_profile("tiny")
    request = Request(
        tiny, [Variant.parse(name) for name in methods], [parse_setting("toy")], ["toy-bert"], seeds, suites
    )
    return make_plan(request, Store(root))


def test_examples_are_the_steps_of_all_rows_times_the_batch() -> None:
    pairs = seen("mcse/wiki+flickr/bert-base-uncased/seed-0")
    assert pairs == pytest.approx(2 * 1_029_783, rel=1e-4)
    assert seen("mcse/wiki+flickr[shot=100]/bert-base-uncased/seed-0") == pairs, "100 pairs keep the steps of all"
    assert seen("mcse/wiki+flickr/roberta-large/seed-0") == pytest.approx(LARGE * pairs)
    assert seen("none/none/bert-base-uncased/seed-0") == 0


def test_a_size_has_its_own_steps() -> None:
    assert seen("simcse-sup/nli[size=30000]/bert-base-uncased/seed-0") == pytest.approx(2 * 30_000, rel=1e-2)


def test_without_finished_runs_the_printed_minutes_count(tmp_path: Path) -> None:
    paper = load_profile("paper")
    request = Request(paper, [Variant("simcse")], [parse_setting("wiki")], ["bert-base-uncased"], (0,), ["sts"])
    expected = estimate(make_plan(request, Store(tmp_path)))
    assert expected is not None
    assert expected.source == "DALR Table 7"
    run = resolve(paper, RunSpec.parse("simcse/wiki/bert-base-uncased/seed-0"), {})
    assert expected.seconds == pytest.approx(60 * minutes_an_example() * examples_seen(run))


def test_toy_corpora_without_finished_runs_have_no_estimate(tmp_path: Path) -> None:
    assert estimate(plan(tmp_path, "simcse")) is None


def test_a_plan_with_nothing_to_do_takes_no_time(tmp_path: Path) -> None:
    made = replace(plan(tmp_path, "simcse"), runs=())
    assert estimate(made) == Estimate(0.0, "finished runs")


def test_runs_take_as_long_as_those_of_their_method_did(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made = plan(tmp_path, "none")
    (end,) = execute(made, lambda event: None, device="cpu")
    assert isinstance(end, Result)
    other = store.save(end.model_copy(update={"train_seconds": 90.0, "fingerprint": "f" * 64}))
    (evaluation,) = other.evaluations
    expected = estimate(plan(tmp_path, "simcse", seeds=(0, 1)))
    assert expected is not None
    assert expected.source == "finished runs"
    assert expected.seconds == pytest.approx(2 * (45 + evaluation.seconds))
