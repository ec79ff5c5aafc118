"""Charts of pages: curves of training, forests of gains, heat maps of tasks by variants, and curves
of swept values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import scipy.stats
from builders import error_tables, over_seeds, result, sts, tables

from harness.reporting.charts import curves
from harness.reporting.charts.curves import (
    MOST_POINTS,
    MOST_SEEDS,
    MOST_VARIANTS,
    draw_curve_places,
    select_shown_runs,
)
from harness.reporting.charts.glance import choose_scale, draw_forest, draw_heat_maps, draw_sweeps
from harness.reporting.look import LOOKS, Plot, choose_variant_look
from harness.reporting.seeds.cells import Label
from harness.reporting.seeds.gains import make_forests
from harness.store import Result

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]
UNTRAINED = over_seeds("none[pooling=mean]", [50.0], setting="none")


def test_rows_are_gains_over_the_baseline_best_first_with_t_intervals() -> None:
    runs = (
        over_seeds("simcse", LOW)
        + over_seeds("dalr", [21.0, 24.0, 23.0])
        + over_seeds("mcse", HIGH)
        + UNTRAINED
    )
    (forest,) = make_forests(tables(runs)[0])
    assert [gain.row.label.variant for gain in forest.gains] == [
        "mcse",
        "none[pooling=mean]",
        "dalr",
        "simcse",
    ]
    assert [gain.kind for gain in forest.gains] == [
        "better",
        "untrained",
        "not significant",
        "baseline",
    ]
    first, untrained, *_, base = forest.gains
    wanted = scipy.stats.ttest_ind(HIGH, LOW, equal_var=False).confidence_interval(0.95)
    assert (first.low, first.high) == pytest.approx((wanted.low, wanted.high))
    wanted = scipy.stats.ttest_1samp([50.0 - value for value in LOW], 0).confidence_interval(0.95)
    assert (untrained.low, untrained.high) == pytest.approx((wanted.low, wanted.high))
    assert base.low == base.size == base.high == 0
    plot = draw_forest(forest)
    assert [row["name"] for row in plot.spec["data"]["values"]] == [
        "MCSE",
        "untrained, mean",
        "DALR",
        "SimCSE",
    ]


def test_the_baseline_with_other_values_has_an_interval_and_no_verdict() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("simcse", HIGH, overrides={"precision": "bf16"})
    (forest,) = make_forests(tables(runs)[0])
    assert [gain.kind for gain in forest.gains] == ["not tested", "baseline"]
    wanted = scipy.stats.ttest_ind(HIGH, LOW, equal_var=False).confidence_interval(0.95)
    assert (forest.gains[0].low, forest.gains[0].high) == pytest.approx((wanted.low, wanted.high))
    text = draw_forest(forest).text
    assert "Not tested: SimCSE with other values." in text
    assert "too few seeds" not in text
    (few,) = make_forests(tables(over_seeds("simcse", LOW) + over_seeds("mcse", HIGH[:1]))[0])
    text = draw_forest(few).text
    assert "too few seeds" in text
    assert "with other values" not in text


def test_the_sign_is_turned_where_lower_is_better() -> None:
    (forest,) = make_forests(error_tables(simcse=0.3, mcse=0.1, dalr=0.5)[0])
    kinds = {gain.row.label.variant: gain.kind for gain in forest.gains}
    assert [*kinds.items()] == [("mcse", "better"), ("simcse", "baseline"), ("dalr", "worse")]
    assert forest.gains[0].low < forest.gains[0].size < forest.gains[0].high
    assert "sign turned" in str(draw_forest(forest).spec)


def test_a_heat_map_has_scores_as_text_and_the_gain_as_colour() -> None:
    runs = [result("simcse", 0, sts(A=10.0, B=20.0)), result("mcse", 0, sts(A=13.0, B=19.0))]
    (plot,) = draw_heat_maps(tables(runs)[0])
    squares = [
        (row["i"], row["task"], row["text"], row["d"]) for row in plot.spec["data"]["values"]
    ]
    assert squares[:3] == [(0, "A", "13.0", 3.0), (0, "B", "19.0", -1.0), (0, "Avg", "16.0", 1.0)]
    assert "better than SimCSE" in plot.text
    assert plot.spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == [-3.0, 3.0]
    no_average = [replace(table, columns=table.columns[:2]) for table in tables(runs)]
    (plot,) = draw_heat_maps(no_average[0])
    assert [row["name"] for row in plot.spec["data"]["values"] if row["task"] == "A"] == [
        "MCSE",
        "SimCSE",
    ]
    (table,) = tables(over_seeds("mcse", LOW) + over_seeds("simcse", LOW))
    assert not list(draw_heat_maps(table)), "one task needs no map"


def test_variants_or_overrides_that_differ_in_one_number_make_a_curve_with_their_default() -> None:
    runs = [
        run
        for at, value in enumerate(("0.01", "10"))
        for run in over_seeds(f"mcse[lambda={value}]", [at + 1.0])
    ]
    runs += (
        over_seeds("mcse", [5.0])
        + over_seeds("simcse", LOW)
        + over_seeds("kdmcse[lambda=1]", [3.0])
    )
    (table,) = tables(runs)
    assert draw_sweeps(table, {}) == [], "two values are no curve"
    label = next(row.label for row in table.rows if row.label.variant == "mcse")
    (plot,) = draw_sweeps(table, {label: {"lambda": 1.0}})
    assert {row["x"]: row["y"] for row in plot.spec["layer"][-1]["data"]["values"]} == {
        0.01: 1.0,
        1.0: 5.0,
        10.0: 2.0,
    }
    assert [str(entry.name) for entry in plot.legend] == ["MCSE"]
    assert plot.title.startswith("λ: ")
    assert "Dashed: SimCSE" in plot.text
    runs = [
        run
        for value in (1, 2, 3)
        for run in over_seeds("mcse", [value], overrides={"epochs": value, "steps": 9})
    ]
    (plot,) = draw_sweeps(tables(runs)[0], {})
    assert plot.title.startswith("epochs: ")
    assert [entry.name.code for entry in plot.legend] == ["mcse (steps=9)"]


def test_an_axis_is_logarithmic_where_values_span_decades() -> None:
    values = [0.1, 0.2], [0.01, 1.0], [0.0, 0.01, 1.0], [-1.0, 99.0]
    assert [choose_scale(some)["type"] for some in values] == ["linear", "log", "symlog", "linear"]


def places(results: list[Result]) -> list[dict[str, Any]]:
    return list(draw_curve_places(select_shown_runs(tables(results)), results.__getitem__))


def data(plot: Plot) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = plot.spec["data"]["values"]
    return values


def means(plot: Plot) -> list[tuple[float, float]]:
    return [(row["x"], row["y"]) for row in data(plot) if "s" not in row]


def test_each_result_is_read_once_dev_scores_come_first_and_damaged_results_have_no_curve() -> None:
    results = [result(seed=seed, losses={"text": [3.0, 2.0]}) for seed in (0, 1, 2)]
    read: list[int] = []

    def found(row: int) -> Result | None:
        read.append(row)
        return results[row] if row else None

    (charts,) = draw_curve_places(select_shown_runs(tables(results)), found)
    assert [plot.title for plot in charts["plots"]] == ["Dev score", "Loss term text"]
    assert sorted(read) == [0, 1, 2]
    assert {line["s"] for line in data(charts["plots"][0]) if "s" in line} == {0, 1}


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [
        result(seed=0, dev=[10.0, 20.0, 30.0], losses={}),
        result(seed=1, dev=[20.0, 40.0], losses={}),
    ]
    (charts,) = places(results)
    (plot,) = charts["plots"]
    assert charts["title"] == "toy / toy-bert"
    assert plot.spec["encoding"]["y"]["title"] == "spearman on ToySTS-dev"
    assert means(plot) == [(50.0, 15.0), (100.0, 30.0)]
    assert Counter(row["s"] for row in data(plot) if "s" in row) == {0: 3, 1: 2}
    (charts,) = places([result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})])
    _, text, info = charts["plots"]
    assert (means(text), means(info)) == ([(50.0, 3.0), (100.0, 2.0)], [(100.0, 5.0)])
    assert info.spec["encoding"]["y"]["title"] == "loss term info, unweighted"
    assert places([result("none", dev=[50.0], losses={}, setting="none")]) == [], (
        "nothing was trained"
    )


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, rows),) = select_shown_runs(tables(old + new)).items()
    assert rows == [2, 3, 4]


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = (
        over_seeds("simcse", [1.0])
        + over_seeds("mcse", [2.0])
        + over_seeds("mcse", [2.0], setting="wiki")
    )
    entries = [entry for charts in places(results) for entry in charts["legend"]]
    assert len(entries) == 3
    colours = {(entry.name.code, entry.look.colour) for entry in entries}
    assert colours == {("simcse", "var(--ink)"), ("mcse", "var(--c0)")}


@pytest.mark.parametrize("variants", [MOST_SEEDS // 2, MOST_SEEDS // 2 + 1])
def test_large_profiles_show_means_only(variants: int) -> None:
    (charts,) = places(
        [result(f"mcse[lambda={at}]", seed) for at in range(variants) for seed in (0, 1)]
    )
    assert any("s" in row for row in data(charts["plots"][0])) == (2 * variants <= MOST_SEEDS)


def test_no_two_lines_of_a_chart_look_alike() -> None:
    assert (
        len({choose_variant_look(index)[:2] for index in range(-1, LOOKS)})
        == LOOKS + 1
        >= MOST_VARIANTS
    )


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    dev = [float(step) for step in range(1000)]
    (charts,) = places([result(seed=seed, dev=dev, losses={}) for seed in (0, 1)])
    values = data(charts["plots"][0])
    assert len(values) <= 3 * MOST_POINTS
    assert {row["x"] for row in values if row["y"] == 999.0} == {50000.0}


def test_a_chart_has_the_baseline_and_as_many_variants_as_can_be_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curves, "MOST_VARIANTS", 3)
    names = [f"mcse[lambda={number}]" for number in range(9)] + ["simcse"]
    runs = {Label("tiny", name, "toy", "toy-bert", ""): [row] for row, name in enumerate(names)}
    (charts,) = draw_curve_places(runs, [*map(result, names)].__getitem__)
    assert [entry.name.code for entry in charts["legend"]] == [
        "simcse",
        "mcse[lambda=0]",
        "mcse[lambda=1]",
    ]
    assert charts["title"] == "toy / toy-bert (3 of 10 variants)"
