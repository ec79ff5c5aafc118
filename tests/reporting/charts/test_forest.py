"""Forest plots: order, sign, intervals and the sentence on who leads."""

from __future__ import annotations

import pytest
import scipy.stats
from builders import error_tables, over_seeds, tables

from harness.reporting.charts.forest import forest_plot
from harness.reporting.seeds.forest import forests

LOW, HIGH = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]
UNTRAINED = over_seeds("none[pooling=mean]", [50.0], setting="none")


def test_rows_are_gains_over_the_baseline_best_first_with_t_intervals() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("dalr", [21.0, 24.0, 23.0]) + over_seeds("mcse", HIGH) + UNTRAINED
    (forest,) = forests(tables(runs)[0])
    assert [gain.row.label.variant for gain in forest.gains] == ["mcse", "none[pooling=mean]", "dalr", "simcse"]
    assert [gain.kind for gain in forest.gains] == ["better", "untrained", "not significant", "baseline"]
    first, untrained, *_, base = forest.gains
    wanted = scipy.stats.ttest_ind(HIGH, LOW).confidence_interval(0.95)
    assert (first.low, first.high) == pytest.approx((wanted.low, wanted.high))
    wanted = scipy.stats.ttest_1samp([50.0 - value for value in LOW], 0).confidence_interval(0.95)
    assert (untrained.low, untrained.high) == pytest.approx((wanted.low, wanted.high))
    assert base.low == base.size == base.high == 0
    plot = forest_plot(forest)
    assert [row["name"] for row in plot.spec["data"]["values"]] == ["MCSE", "untrained, mean", "DALR", "SimCSE"]


def test_the_baseline_with_other_values_has_an_interval_and_no_verdict() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("simcse", HIGH, overrides={"precision": "bf16"})
    (forest,) = forests(tables(runs)[0])
    assert [gain.kind for gain in forest.gains] == ["not tested", "baseline"]
    wanted = scipy.stats.ttest_ind(HIGH, LOW).confidence_interval(0.95)
    assert (forest.gains[0].low, forest.gains[0].high) == pytest.approx((wanted.low, wanted.high))
    text = forest_plot(forest).text
    assert "Not tested: SimCSE with other values." in text
    assert "too few seeds" not in text


def test_the_sign_is_turned_where_lower_is_better() -> None:
    (forest,) = forests(error_tables(simcse=0.3, mcse=0.1, dalr=0.5)[0])
    assert [(gain.row.label.variant, gain.kind) for gain in forest.gains] == [
        ("mcse", "better"),
        ("simcse", "baseline"),
        ("dalr", "worse"),
    ]
    assert forest.gains[0].low < forest.gains[0].size < forest.gains[0].high
    assert "sign turned" in str(forest_plot(forest).spec)
