"""Dev and loss curves: which runs, at which steps, in which colour."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from builders import over_seeds, result, tables

from harness.reporting.charts import curves
from harness.reporting.charts.curves import MOST_POINTS, MOST_SEEDS, MOST_VARIANTS, curve_places, shown_runs
from harness.reporting.charts.plot import LOOKS, Plot, look
from harness.reporting.seeds.groups import Label
from harness.store import Result


def shown(results: list[Result]) -> dict[Label, list[Result]]:
    return shown_runs(results, tables(results))


def data(plot: Plot) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = plot.spec["data"]["values"]
    return values


def means(plot: Plot) -> list[tuple[float, float]]:
    return [(row["x"], row["y"]) for row in data(plot) if "s" not in row]


def test_each_result_is_read_once_and_dev_scores_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = Result.whole
    monkeypatch.setattr(Result, "whole", lambda one: (read.append(one.spec.seed), whole(one))[1])
    (place,) = curve_places(shown([result(seed=seed, losses={"text": [3.0, 2.0]}) for seed in (0, 1)]))
    assert [plot.title for plot in place.plots] == ["Dev score", "Loss term text"]
    assert sorted(read) == [0, 1]


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [result(seed=0, dev=[10.0, 20.0, 30.0], losses={}), result(seed=1, dev=[20.0, 40.0], losses={})]
    (place,) = curve_places(shown(results))
    (plot,) = place.plots
    assert place.title == "toy / toy-bert"
    assert plot.spec["encoding"]["y"]["title"] == "spearman on ToySTS-dev"
    assert means(plot) == [(50.0, 15.0), (100.0, 30.0)]
    assert Counter(row["s"] for row in data(plot) if "s" in row) == {0: 3, 1: 2}


def test_steps_without_a_term_are_left_out() -> None:
    (place,) = curve_places(shown([result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})]))
    _, text, info = place.plots
    assert means(text) == [(50.0, 3.0), (100.0, 2.0)]
    assert means(info) == [(100.0, 5.0)]
    assert info.spec["encoding"]["y"]["title"] == "loss term info, unweighted"


def test_a_method_that_does_not_train_has_no_curve() -> None:
    assert curve_places(shown([result("none", dev=[], losses={}, setting="none")])) == []


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, runs),) = shown(old + new).items()
    assert {run.group for run in runs} == {new[0].group}


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = over_seeds("simcse", [1.0]) + over_seeds("mcse", [2.0]) + over_seeds("mcse", [2.0], setting="wiki")
    entries = [entry for place in curve_places(shown(results)) for entry in place.legend]
    assert len(entries) == 3
    colours = {(entry.name.code, entry.look.colour) for entry in entries}
    assert colours == {("simcse", "var(--ink)"), ("mcse", "var(--c0)")}


@pytest.mark.parametrize("variants", [MOST_SEEDS // 2, MOST_SEEDS // 2 + 1])
def test_large_profiles_show_means_only(variants: int) -> None:
    (place,) = curve_places(shown([result(f"mcse[lambda={at}]", seed) for at in range(variants) for seed in (0, 1)]))
    assert any("s" in row for row in data(place.plots[0])) == (2 * variants <= MOST_SEEDS)


def test_no_two_lines_of_a_chart_look_alike() -> None:
    assert len({look(index)[:2] for index in range(-1, LOOKS)}) == LOOKS + 1 >= MOST_VARIANTS


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    dev = [float(step) for step in range(1000)]
    (place,) = curve_places(shown([result(seed=seed, dev=dev, losses={}) for seed in (0, 1)]))
    values = data(place.plots[0])
    assert len(values) <= 3 * MOST_POINTS
    assert {row["x"] for row in values if row["y"] == 999.0} == {50000.0}


def test_a_chart_has_the_baseline_and_as_many_variants_as_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_VARIANTS", 3)
    names = [f"mcse[lambda={number}]" for number in range(9)] + ["simcse"]
    (place,) = curve_places({Label("tiny", name, "toy", "toy-bert", ""): [result(name)] for name in names})
    assert [entry.name.code for entry in place.legend] == ["simcse", "mcse[lambda=0]", "mcse[lambda=1]"]
    assert place.title == "toy / toy-bert (3 of 10 variants)"
