"""Forest plots: order, sign, intervals and the sentence on who leads."""

from __future__ import annotations

import pytest
import scipy.stats
from builders import error_tables, over_seeds, tables

from harness.reporting.charts.forest import forest_plot
from harness.reporting.seeds.forest import forests, lead_text, leading

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
    assert lead_text(forest) == (
        "MCSE leads on toy / toy-bert, profile tiny (sts average): 49.57 points of Spearman better than SimCSE "
        "(95 % interval 45.48 to 53.65, p < 0.0001 after Holm's correction over 2 tests, 3 seeds each); next is DALR, "
        "49.07 behind, p < 0.0001."
    )
    plot = forest_plot(forest)
    assert [row["name"] for row in plot.spec["data"]["values"]] == ["MCSE", "untrained, mean", "DALR", "SimCSE"]


def test_two_seeds_are_no_test_and_a_baseline_ahead_leads() -> None:
    (few,) = forests(tables(over_seeds("simcse", LOW[:2]) + over_seeds("mcse", HIGH[:2]))[0])
    assert "has the best mean on" in lead_text(few)
    assert "(not tested: 2 seeds each, and a test needs 3)" in lead_text(few)
    assert few.gains[0].low == few.gains[0].high
    (behind,) = forests(tables(over_seeds("simcse", HIGH) + over_seeds("mcse", LOW))[0])
    assert lead_text(behind).startswith("SimCSE leads on toy / toy-bert, profile tiny (sts average): nothing scores")


def test_the_baseline_with_other_values_has_an_interval_and_no_verdict() -> None:
    runs = over_seeds("simcse", LOW) + over_seeds("simcse", HIGH, overrides={"precision": "bf16"})
    (forest,) = forests(tables(runs)[0])
    assert [gain.kind for gain in forest.gains] == ["not tested", "baseline"]
    wanted = scipy.stats.ttest_ind(HIGH, LOW).confidence_interval(0.95)
    assert (forest.gains[0].low, forest.gains[0].high) == pytest.approx((wanted.low, wanted.high))
    assert "(95 % interval 45.48 to 53.65, not tested, 3 seeds each)" in lead_text(forest)
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


def test_the_overview_shows_what_is_tested_and_runs_with_overrides_have_their_baseline() -> None:
    changed = {"overrides": {"steps": 40}}
    alone = over_seeds("mcse", HIGH, setting="a") + over_seeds("dalr", LOW, setting="a")
    runs = over_seeds("simcse", LOW, **changed) + over_seeds("mcse", HIGH, **changed)
    first, second = leading(tables(alone + runs), {"tiny": 12})
    assert first.place == "toy / toy-bert"
    assert [gain.kind for gain in first.gains] == ["better", "baseline"]
    assert second.base is None
    assert lead_text(second).endswith("71.73 points of Spearman, 3 seeds; no SimCSE run to compare it with.")
