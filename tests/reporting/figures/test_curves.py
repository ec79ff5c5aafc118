"""Dev and loss curves: which runs, at which steps, in which colour."""

from __future__ import annotations

from builders import over_seeds, result, tables

from harness.reporting.figures.curves import MOST_SEEDS, charts, shown_runs
from harness.reporting.figures.svg import style
from harness.reporting.seeds.groups import Label
from harness.store import Result


def shown(results: list[Result]) -> dict[Label, list[Result]]:
    return shown_runs(results, tables(results))


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [result(seed=0, dev=[10.0, 20.0, 30.0]), result(seed=1, dev=[20.0, 40.0])]
    (chart,) = charts(shown(results), "dev")
    assert chart.title == "toy / toy-bert, profile tiny"
    assert chart.y_label == "spearman on ToySTS-dev"
    (series,) = chart.series
    assert series.mean == ((50.0, 15.0), (100.0, 30.0))
    assert [len(points) for points in series.seeds] == [3, 2]


def test_steps_without_a_term_are_left_out() -> None:
    results = [result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})]
    text, info = charts(shown(results), "loss")
    assert text.series[0].mean == ((50.0, 3.0), (100.0, 2.0))
    assert info.series[0].mean == ((100.0, 5.0),)
    assert info.y_label == "loss term info, unweighted"


def test_a_method_that_does_not_train_has_no_curve() -> None:
    results = [result("none", dev=[], losses={}, setting="none")]
    assert charts(shown(results), "dev") == charts(shown(results), "loss") == []


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, runs),) = shown(old + new).items()
    assert {run.group for run in runs} == {new[0].group}


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = over_seeds("simcse", [1.0]) + over_seeds("mcse", [2.0]) + over_seeds("mcse", [2.0], setting="wiki")
    both = charts(shown(results), "dev")
    colours = {(series.name, style(series.index)) for chart in both for series in chart.series}
    assert colours == {("simcse", ("base", "")), ("mcse", ("c0", ""))}


def test_large_profiles_show_means_only() -> None:
    many = [result(f"mcse[lambda={index}]", 0) for index in range(MOST_SEEDS + 1)]
    (chart,) = charts(shown(many), "dev")
    assert not chart.show_seeds
    (chart,) = charts(shown(many[1:]), "dev")
    assert chart.show_seeds
