"""Methods tuned at equal budgets, from results without training."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import scipy.stats
from builders import over_seeds, result, sts, tables

from harness.metrics import Score
from harness.reporting.sections.tuning import (
    choose_counts,
    draw_tuned_figures,
    make_expected_grid,
    make_picks_grid,
    tune_command,
)
from harness.reporting.seeds.tuned import TunedReport, add_tuned_rows, make_tuned_reports
from harness.reporting.tables.grids import get_code
from harness.store import Result
from harness.store.tunings import make_tuning

AVG = Score("sts", "Avg", "spearman")
TUNING = make_tuning("tiny", {}, ["mcse:lambda=1|2|3", "simcse:temperature=1|2|3"], 3)
MCSE, SIMCSE = (method.trials for method in TUNING.methods)
#: by trial and seed
DEV = {MCSE: [[1, 9, 3], [5, 2, 8], [4, 4, 8]], SIMCSE: [[2, 1, 1], [1, 2, 1], [1, 1, 2]]}
TEST = {
    MCSE: [[50, 90, 52], [60, 40, 70], [80, 80, 99]],
    SIMCSE: [[20, 99, 99], [99, 21, 99], [99, 99, 22]],
}


def runs(trials: Sequence[str], **given: Any) -> list[Result]:
    return [
        result(
            trial,
            seed,
            sts(ToySTS=TEST[trials][at][seed]),
            dev=(0.0, DEV[trials][at][seed]),
            **given,
        )
        for at, trial in enumerate(trials)
        for seed in range(3)
    ]


def reports(results: Sequence[Result]) -> list[TunedReport]:
    return make_tuned_reports([TUNING], results, tables(results))


def test_each_seed_picks_by_its_own_dev_score_and_never_by_a_test() -> None:
    (report,) = reports(runs(MCSE) + runs(SIMCSE))
    mcse, simcse = report.lines
    # seed 2 has two trials with the best dev score: the one drawn first is picked, whatever the
    # tests say
    assert mcse.picks == {0: MCSE[1], 1: MCSE[0], 2: MCSE[1]}
    assert mcse.rows["sts"].cells[AVG.column].by_seed == {0: 60.0, 1: 90.0, 2: 70.0}
    assert simcse.rows["sts"].cells[AVG.column].by_seed == {0: 20.0, 1: 21.0, 2: 22.0}


def test_the_picks_are_one_row_tested_against_the_tuned_baseline() -> None:
    (report,) = reports(runs(MCSE) + runs(SIMCSE) + over_seeds("none", [70.0], setting="none"))
    (table,) = report.tables
    assert [str(row.label) for row in table.rows] == ["none", "simcse[tuned=3]", "mcse[tuned=3]"]
    cell = table.rows[2].cells[AVG.column]
    welch = scipy.stats.ttest_ind([60, 90, 70], [20, 21, 22], equal_var=False)
    assert cell.test.p == pytest.approx(welch.pvalue)
    assert any("significantly worse than SimCSE, tuned (3 trials)" in note for note in table.legend)


def test_the_expected_best_is_that_of_all_draws_over_seeds() -> None:
    (report,) = reports(runs(MCSE) + runs(SIMCSE))
    expected = report.lines[0].expected
    by_seed = [[trial[seed] for trial in DEV[MCSE]] for seed in range(3)]
    for n in (1, 2, 3):
        means = [sum(max(draw) for draw in product(dev, repeat=n)) / 3**n for dev in by_seed]
        assert expected[n - 1].mean == pytest.approx(sum(means) / 3)
        assert expected[n - 1].std == pytest.approx(scipy.stats.tstd(means))
    grid = make_expected_grid(report)
    assert grid.columns == ("1 trial", "2 trials", "3 trials")
    assert (choose_counts(6), choose_counts(20)) == ([1, 2, 3, 4, 5, 6], [1, 2, 4, 8, 16, 20]), (
        "few columns"
    )
    assert str(grid.sections[0].lines[0].cells[0]) == "4.89 ± 1.50"
    assert not grid.commands
    (figure,) = draw_tuned_figures(report)
    assert "best dev score" in figure.svg


def test_a_seed_that_lacks_a_trial_picks_nothing_and_is_named_with_its_command() -> None:
    whole = runs(MCSE) + runs(SIMCSE)
    (report,) = reports(
        [run for run in whole if (str(run.spec.variant), run.spec.seed) != (MCSE[2], 1)]
    )
    assert [*report.lines[0].picks] == [0, 2]
    grid = make_expected_grid(report)
    assert (
        "Trials missing: MCSE in toy / toy-bert (1 of seed 1). These seeds have no pick."
        in grid.notes
    )
    (command,) = grid.commands
    assert command == tune_command(TUNING, "toy", "toy-bert", [1])
    first, second, *_ = make_picks_grid(report).sections[0].lines
    assert [*map(get_code, first.heads), str(first.cells[0])] == [
        "mcse",
        report.lines[0].picks[0],
        "0",
    ]
    assert [*map(get_code, second.heads), str(second.cells[0])] == [
        "mcse",
        report.lines[0].picks[2],
        "2",
    ]


def test_trials_that_two_tunings_share_are_reported_where_their_own_methods_were_run() -> None:
    other = make_tuning("tiny", {}, ["simcse:temperature=1|2|3", "visualcse:temperature=1|2|3"], 3)
    trials = next(method.trials for method in other.methods if method.base == "visualcse")
    places = runs(MCSE) + runs(SIMCSE) + runs(SIMCSE, setting="wiki")
    visual = [
        result(trial, seed, sts(ToySTS=50.0), dev=(0.0, 5.0), setting="wiki")
        for trial in trials
        for seed in (0, 1)
    ]
    found = make_tuned_reports([TUNING, other], places + visual, tables(places + visual))
    assert [{line.setting for line in report.lines} for report in found] == [{"toy"}, {"wiki"}]
    assert not any(line.lacking for line in found[0].lines), (
        "no trial of MCSE is missed in the other's setting"
    )
    # SimCSE alone may be the beginning of either
    assert [
        {line.setting for line in report.lines}
        for report in make_tuned_reports([TUNING, other], places, [])
    ] == [
        {"toy", "wiki"},
        {"wiki"},
    ]


def test_nothing_is_taken_from_other_profiles_overrides_or_configurations() -> None:
    whole = runs(MCSE) + runs(SIMCSE)
    others = runs(MCSE, profile="small") + runs(MCSE, overrides={"steps": 1})
    (alone,), (report,) = reports(whole), reports(others + whole)
    assert (report.lines, report.tables) == (alone.lines, alone.tables)
    assert reports(others) == []
    # an older run under another configuration is not mixed with the three of this one
    older = [
        result(
            MCSE[1],
            5,
            sts(ToySTS=1.0),
            dev=(0.0, 99.0),
            data="second",
            finished="2020-01-01T00:00:00+00:00",
        )
    ]
    assert [*reports(whole + older)[0].lines[0].picks] == [0, 1, 2]


def test_a_search_is_reported_in_its_place_alone_and_told_from_a_draw() -> None:
    search = TUNING.model_copy(update={"sampler": "tpe", "place": "toy/toy-bert"})
    whole = runs(MCSE) + runs(SIMCSE) + runs(MCSE, setting="wiki") + runs(SIMCSE, setting="wiki")
    (report,) = make_tuned_reports([search], whole, tables(whole))
    assert {line.place for line in report.lines} == {"toy / toy-bert"}
    assert report.lines == reports(runs(MCSE) + runs(SIMCSE))[0].lines, "the same curves and picks"
    assert any(
        "Optuna's tpe chose each other one by the mean dev scores" in note
        for note in make_expected_grid(report).notes
    )
    assert "--sampler tpe" in tune_command(search, "toy", "toy-bert", [1])


def test_rows_of_tunings_of_one_method_and_number_are_named_by_what_was_tried() -> None:
    other = make_tuning("tiny", {}, ["mcse:temperature=1|2|3"], 3)
    search = TUNING.model_copy(
        update={"sampler": "tpe", "place": "toy/toy-bert", "methods": TUNING.methods[1:]}
    )
    elsewhere = make_tuning("small", {}, ["mcse:temperature=4|5|6"], 3)
    DEV[tuple(other.variants)], TEST[tuple(other.variants)] = DEV[MCSE], TEST[SIMCSE]
    whole = runs(MCSE) + runs(SIMCSE) + runs(tuple(other.variants))
    known = make_tuned_reports([TUNING, other, search, elsewhere], whole, tables(whole))
    first, second, third = ([line.name for line in report.lines] for report in known)
    assert first == ["mcse[tuned=3[lambda=1|2|3]]", "simcse[tuned=3[temperature=1|2|3]]"]
    assert (second, third) == (
        ["mcse[tuned=3[temperature=1|2|3]]"],
        ["simcse[tuned=3[temperature=1|2|3,sampler=tpe]]"],
    )
    rows = [
        row.label
        for row in add_tuned_rows(tables(whole)[0], known).rows
        if "tuned" in row.label.variant
    ]
    assert sorted(label.variant for label in rows) == sorted([*first, *second, *third])
    assert len({report.title for report in known}) == 3
    alone = make_tuned_reports([other, elsewhere], whole, tables(whole))[0]
    assert [line.name for line in alone.lines] == ["mcse[tuned=3]"]


def test_the_command_says_the_same_tuning_again() -> None:
    space = [
        "mcse:lambda=0.01|0.1|1,temperature=0.05|0.1",
        "kdmcse[margin=0.2]:learning_rate=1e-5..1e-4",
    ]
    tuning = make_tuning("tiny", {"steps": 5}, space, 2)
    words = shlex.split(tune_command(tuning, "toy", "toy-bert", [2]))
    texts = [words[at + 1] for at, word in enumerate(words) if word == "--tune"]
    assert words[words.index("--seeds") + 1] == "2,"
    assert words[words.index("--set") + 1] == "steps=5"
    assert (
        make_tuning("tiny", {"steps": 5}, texts, int(words[words.index("--trials") + 1])) == tuning
    )
