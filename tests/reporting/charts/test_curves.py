"""Dev and loss curves: which runs, at which steps, in which colour."""

from __future__ import annotations

import pytest
from builders import over_seeds, result, tables

from harness.reporting.charts import curves
from harness.reporting.charts.curves import (
    MOST_POINTS,
    MOST_SEEDS,
    MOST_VARIANTS,
    Chart,
    charts,
    curve_places,
    shown_runs,
)
from harness.reporting.charts.plot import LOOKS, look
from harness.reporting.seeds.groups import Label
from harness.store import Result


def shown(results: list[Result]) -> dict[Label, list[Result]]:
    return shown_runs(results, tables(results))


def dev_charts(results: list[Result]) -> list[Chart]:
    return [chart for chart in charts(shown(results)) if not chart.term]


def test_each_result_is_read_once_and_dev_scores_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = Result.whole
    monkeypatch.setattr(Result, "whole", lambda one: (read.append(one.spec.seed), whole(one))[1])
    found = charts(shown([result(seed=seed, losses={"text": [3.0, 2.0]}) for seed in (0, 1)]))
    assert [chart.term for chart in found] == ["", "text"]
    assert sorted(read) == [0, 1]


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [result(seed=0, dev=[10.0, 20.0, 30.0], losses={}), result(seed=1, dev=[20.0, 40.0], losses={})]
    (chart,) = dev_charts(results)
    assert chart.place == "toy / toy-bert"
    assert chart.y_label == "spearman on ToySTS-dev"
    (series,) = chart.series
    assert series.mean == ((50.0, 15.0), (100.0, 30.0))
    assert [len(points) for points in series.seeds] == [3, 2]


def test_steps_without_a_term_are_left_out() -> None:
    results = [result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})]
    text, info = (chart for chart in charts(shown(results)) if chart.term)
    assert text.series[0].mean == ((50.0, 3.0), (100.0, 2.0))
    assert info.series[0].mean == ((100.0, 5.0),)
    assert info.y_label == "loss term info, unweighted"


def test_a_method_that_does_not_train_has_no_curve() -> None:
    results = [result("none", dev=[], losses={}, setting="none")]
    assert charts(shown(results)) == []


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, runs),) = shown(old + new).items()
    assert {run.group for run in runs} == {new[0].group}


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = over_seeds("simcse", [1.0]) + over_seeds("mcse", [2.0]) + over_seeds("mcse", [2.0], setting="wiki")
    both = dev_charts(results)
    colours = {(series.name.code, look(series.index).colour) for chart in both for series in chart.series}
    assert colours == {("simcse", "var(--ink)"), ("mcse", "var(--c0)")}


def test_large_profiles_show_means_only() -> None:
    many = [result(f"mcse[lambda={index}]", 0) for index in range(MOST_SEEDS + 1)]
    (chart,) = dev_charts(many)
    assert not chart.show_seeds
    (chart,) = dev_charts(many[1:])
    assert chart.show_seeds


def test_no_two_lines_of_a_chart_look_alike() -> None:
    assert len({look(index)[:2] for index in range(-1, LOOKS)}) == LOOKS + 1 >= MOST_VARIANTS


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    dev = [float(step) for step in range(1000)]
    (place,) = curve_places(shown([result(seed=seed, dev=dev, losses={}) for seed in (0, 1)]))
    values = place.plots[0].spec["data"]["values"]
    assert len(values) <= 3 * MOST_POINTS
    assert {row["x"] for row in values if row["y"] == 999.0} == {50000.0}


def test_a_chart_has_the_baseline_and_as_many_variants_as_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_VARIANTS", 3)
    names = [f"mcse[lambda={number}]" for number in range(9)] + ["simcse"]
    labelled = {Label("tiny", name, "toy", "toy-bert", ""): [result(name)] for name in names}
    chart = charts(labelled)[0]
    assert [series.name.code for series in chart.series] == ["mcse[lambda=0]", "mcse[lambda=1]", "simcse"]
    assert chart.left_out == " (3 of 10 variants)"
