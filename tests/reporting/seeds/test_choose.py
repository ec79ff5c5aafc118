"""Which runs stand for a label: one training, one protocol, the present one or the newest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import over_seeds, result, sts, tables

from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.cells import Row, compare
from harness.reporting.seeds.choose import choose_evaluations, make_rows
from harness.store import Protocol, Result, frames_of

AVG = Column("Avg", "spearman")


def rows(results: Sequence[Result]) -> dict[str, Row]:
    """The rows of one label, by suite."""
    frames = frames_of(results)
    return {
        row.suite: row
        for row in make_rows(frames, choose_evaluations(frames, frames.scores), frames.scores)
    }


def test_protocols_of_one_training_are_never_mixed() -> None:
    old = over_seeds("mcse", [1.0, 2.0], version=1, finished="2026-01-01T00:00:00+00:00")
    new = over_seeds("mcse", [70.0, 71.0], version=2, finished="2026-02-01T00:00:00+00:00")
    assert {run.group for run in old} == {run.group for run in new}, "the training is the same"
    kept = rows(old + new)["sts"]
    assert (kept.protocol, len(kept.freshness.hidden)) == (new[0].evaluations[0].protocol.key, 1)
    assert kept.cells[AVG].by_seed == {0: 70.0, 1: 71.0}


def test_each_suite_has_its_own_group() -> None:
    both = [
        result("mcse", seed, {**sts(A=70.0), "geometry": {"Avg": {"alignment": 0.2}}})
        for seed in (0, 1)
    ]
    later = over_seeds(
        "mcse", [60.0, 61.0, 62.0], data="other", finished="2027-01-01T00:00:00+00:00"
    )
    kept = rows(both + later)
    assert kept["sts"].seeds == (0, 1, 2)
    assert kept["geometry"].seeds == (0, 1)
    assert [len(kept[suite].freshness.hidden) for suite in ("sts", "geometry")] == [1, 0]


@pytest.mark.parametrize(
    ("states", "shown", "mark"),
    [
        (("present", "method code"), "old", ""),
        (("present", "present"), "old", ""),
        (("method code", "present"), "new", "incomplete"),
        (("", "method code"), "old", ""),
        (("", ""), "new", "incomplete"),
        (("method code", "method code"), "new", "stale"),
    ],
)
def test_the_present_group_stands_for_a_label_and_else_the_newest(
    states: tuple[str, str], shown: str, mark: str
) -> None:
    old = over_seeds("mcse", [1.0, 2.0, 3.0], data="old", finished="2026-01-01T00:00:00+00:00")
    new = over_seeds("mcse", [9.0], data="new", finished="2026-02-01T00:00:00+00:00")
    kept = rows(frames_of(old + new).judge_by(lambda _: [states[run in new] for run in old + new]))[
        "sts"
    ]
    assert kept.group == {"old": old, "new": new}[shown][0].group
    assert kept.freshness.mark == mark
    assert ("changed since: method code" in str(kept.freshness)) == ("method code" in states)


def test_parts_of_tasks_are_no_columns() -> None:
    parts = {"sts": {"A": {"subset": {"spearman": 10.0}}}}
    (table,) = tables([result("mcse", 0, sts(A=70.0), parts=parts)])
    assert table.columns == (Column("A", "spearman"), AVG)
    assert table.rows[0].cells[Column("A", "spearman")].values == (70.0,)


def test_the_direction_of_a_metric_comes_from_its_protocol() -> None:
    """A suite that nothing here knows, with a metric that is better when smaller."""
    protocol = Protocol(
        version=1, data="d" * 64, metrics=(Metric("error", larger_is_better=False, digits=1),)
    )
    results = []
    for name, values in (("mcse", [1.0, 1.1, 1.2]), ("simcse", [3.0, 3.1, 3.2])):
        for seed, value in enumerate(values):
            run = result(name, seed, {"mine": {"Avg": {"error": value, "n": 5.0}}})
            evaluation = run.evaluations[0].model_copy(update={"protocol": protocol})
            results.append(run.model_copy(update={"evaluations": [evaluation]}))
    (table,) = tables(results)
    assert table.columns == (Column("Avg", "error"),)
    base, mcse = (row.cells[table.columns[0]] for row in table.rows)
    assert mcse.verdict is Significance.BETTER
    assert "Lower is better." in table.legend
    assert compare(base, mcse, table.metric(table.columns[0])).verdict is Significance.WORSE
