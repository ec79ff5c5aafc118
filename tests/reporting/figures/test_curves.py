"""Dev and loss curves: which runs, at which steps, in which colour."""

from __future__ import annotations

from builders import over_seeds, result, tables

from harness.reporting.figures.curves import MOST_SEEDS, dev_charts, loss_charts, shown_runs
from harness.reporting.figures.svg import style
from harness.reporting.seeds.groups import Label
from harness.store import Result


def shown(results: list[Result]) -> dict[Label, list[Result]]:
    return shown_runs(results, tables(results))


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [result(seed=0, dev=[10.0, 20.0, 30.0]), result(seed=1, dev=[20.0, 40.0])]
    (chart,) = dev_charts(shown(results))
    assert chart.title == "toy / toy-bert, profile tiny"
    assert chart.y_label == "spearman on ToySTS-dev"
    (series,) = chart.series
    assert series.mean == ((50.0, 15.0), (100.0, 30.0))
    assert [len(points) for points in series.seeds] == [3, 2]


def test_steps_without_a_term_are_left_out() -> None:
    results = [result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})]
    text, info = loss_charts(shown(results))
    assert text.series[0].mean == ((50.0, 3.0), (100.0, 2.0))
    assert info.series[0].mean == ((100.0, 5.0),)
    assert info.y_label == "loss term info, unweighted"


def test_a_method_that_does_not_train_has_no_curve() -> None:
    results = [result("none", dev=[], losses={}, setting="none")]
    assert [*dev_charts(shown(results)), *loss_charts(shown(results))] == []


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, runs),) = shown(old + new).items()
    assert {run.group for run in runs} == {new[0].group}


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = over_seeds("simcse", [1.0]) + over_seeds("mcse", [2.0]) + over_seeds("mcse", [2.0], setting="wiki")
    charts = dev_charts(shown(results))
    colours = {(series.name, style(series.index)) for chart in charts for series in chart.series}
    assert colours == {("simcse", ("base", "")), ("mcse", ("c0", ""))}


def test_large_profiles_show_means_only() -> None:
    many = [result(f"mcse[lambda={index}]", 0) for index in range(MOST_SEEDS + 1)]
    (chart,) = dev_charts(shown(many))
    assert not any(series.show_seeds for series in chart.series)
    (chart,) = dev_charts(shown(many[1:]))
    assert all(series.show_seeds for series in chart.series)
