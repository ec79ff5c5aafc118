"""Tables over seeds: means, tests in their families, and work that grows with the number of runs,
not its square.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import pytest
import scipy.stats
from builders import over_seeds, result, sts, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.commands import DEFAULT_COMMANDS
from harness.formatting import duration, fixed, p_value, signed
from harness.metrics import Column, Metric, Significance
from harness.reporting.charts.glance import draw_heat_maps
from harness.reporting.sections.ranking import rank_tables
from harness.reporting.seeds.cells import Cell
from harness.reporting.seeds.gains import make_forests, make_headline
from harness.reporting.seeds.lookup import compare_variants
from harness.reporting.seeds.summary import make_summary_tables
from harness.reporting.tables.grids import format_cell, make_summary_grid
from harness.stats import CORRECTION
from harness.store import Result, metrics_of

AVG = Column("Avg", "spearman")
SIMCSE, MCSE = [20.0, 24.0, 22.5], [70.0, 73.0, 72.2]


def test_means_spreads_and_the_star() -> None:
    (table,) = tables(over_seeds("mcse", MCSE) + over_seeds("simcse", SIMCSE))
    assert (table.profile, table.suite) == ("tiny", "sts")
    assert table.columns == (Column("ToySTS", "spearman"), AVG)
    (block,) = table.blocks
    assert [str(row.label) for row in block.rows] == ["simcse", "mcse"]
    base, mcse = block.rows
    cell = mcse.cells[AVG]
    assert cell.test.p == pytest.approx(scipy.stats.ttest_ind(MCSE, SIMCSE, equal_var=False).pvalue)
    assert cell.verdict is Significance.BETTER
    assert base.cells[AVG].test is None
    assert str(format_cell(cell, 2, 3)) == "71.73 ± 1.55*"
    assert str(format_cell(None, 2, 3)) == "–"
    (turned,) = tables(over_seeds("mcse", SIMCSE) + over_seeds("simcse", MCSE))
    assert str(format_cell(turned.rows[1].cells[AVG], 2, 3)) == "22.17 ± 2.02†"


def test_alignment_and_uniformity_have_no_star_bold_rank_sentence_or_plot() -> None:
    def scores(value: float) -> dict[str, dict[str, dict[str, float]]]:
        metrics = {"alignment": value, "uniformity": -value, "alignment_batch128": 9.0, "n": 500}
        return {"geometry": {"Dev": metrics, "Avg": {k: v for k, v in metrics.items() if k != "n"}}}

    low = [result("mcse", seed, scores(value)) for seed, value in enumerate([0.10, 0.11, 0.12])]
    high = [result("simcse", seed, scores(value)) for seed, value in enumerate([0.30, 0.31, 0.32])]
    (table,) = tables(low + high)
    titles = [table.title(column) for column in table.columns]
    assert titles == ["Dev: alignment", "Dev: uniformity", "Avg: alignment", "Avg: uniformity"]
    texts = [
        cell
        for section in make_summary_grid(table).sections
        for line in section.lines
        for cell in line.cells
    ]
    assert not any(cell.mark or cell.bold for cell in texts)
    assert not rank_tables([table]) + make_forests(table) + list(draw_heat_maps(table))
    assert "Lower is better." in table.legend
    assert any("together" in text for text in table.legend)


def test_metrics_of_earlier_results_are_judged_as_their_suite_says_now() -> None:
    run = result(scores={"geometry": {"Dev": {"alignment": 0.1}}})
    (evaluation,) = run.evaluations
    earlier = evaluation.protocol.model_copy(update={"metrics": (Metric("alignment"),)})
    old = run.model_copy(
        update={"evaluations": [evaluation.model_copy(update={"protocol": earlier})]}
    )
    assert not metrics_of([old])["geometry"]["alignment"].judged


def test_columns_are_tasks_in_their_order_then_the_average_in_every_metric_of_an_unknown_suite() -> (
    None
):
    (table,) = tables([result(scores=sts(STS12=1.0, STS13=2.0, B=3.0, A=4.0))])
    assert [column.task for column in table.columns] == ["STS12", "STS13", "B", "A", "Avg"]
    scores = {
        "probing": {
            "T": {"accuracy": 50.0, "f1": 40.0, "n": 9},
            "Avg": {"accuracy": 50.0, "f1": 40.0},
        }
    }
    (table,) = tables([result(scores=scores)])
    assert [column.metric for column in table.columns] == ["accuracy", "f1", "accuracy", "f1"]


def test_nothing_is_compared_across_settings_encoders_profiles_or_overrides() -> None:
    others: dict[str, Any] = {
        "setting": "wiki",
        "encoder": "other",
        "profile": "paper",
        "overrides": {"weight": 2},
    }
    for changed in ({name: value} for name, value in others.items()):
        made = tables(over_seeds("mcse", MCSE) + over_seeds("simcse", SIMCSE, **changed))
        mcse = next(row for table in made for row in table.rows if row.label.variant == "mcse")
        assert mcse.cells[AVG].test is None, changed
        notes = next(table.notes for table in made if mcse in table.rows)
        same = " with the same --set values" if "overrides" in changed else ""
        assert f"Not tested, no run of SimCSE{same}. In toy / toy-bert: MCSE." in notes, changed


def test_overrides_are_compared_with_the_baseline_under_the_same_ones() -> None:
    same = {"overrides": {"learning_rate": 0.001}}
    runs = (
        over_seeds("mcse", MCSE, **same)
        + over_seeds("simcse", SIMCSE, **same)
        + over_seeds("simcse", MCSE)
    )
    (table,) = tables(runs)
    mcse = next(row for row in table.rows if row.label.variant == "mcse")
    assert str(mcse.label) == "mcse (learning_rate=0.001)"
    assert mcse.cells[AVG].verdict == "better"


@pytest.mark.parametrize(("scores", "text"), [([70.0], "70.00"), ([90.0, 90.1], "90.05 ± 0.07")])
def test_fewer_than_three_seeds_have_no_test_and_one_has_no_spread(
    scores: list[float], text: str
) -> None:
    (table,) = tables(over_seeds("mcse", scores) + over_seeds("simcse", SIMCSE))
    cell = table.rows[1].cells[AVG]
    assert (cell.test, cell.verdict) == (None, None)
    assert str(format_cell(cell, 2, len(scores))) == text
    assert (
        f"Not tested, fewer than 3 seeds. In toy / toy-bert: MCSE ({len(scores)})." in table.notes
    )


def test_a_seed_that_lacks_a_task_is_counted_in_the_cell() -> None:
    runs = [result(seed=0, scores=sts(A=1.0, B=2.0)), result(seed=1, scores=sts(A=2.0))]
    (table,) = tables(runs)
    (row,) = table.rows
    assert str(format_cell(row.cells[Column("B", "spearman")], 2, len(row.seeds))) == "2.00 (n = 1)"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.05, 1, "0.1"),
        (73.25, 1, "73.2"),
        (73.35, 1, "73.3"),
        (-0.004, 2, "0.00"),
        (-2.4, 3, "-2.400"),
    ],
)
def test_rounding(value: float, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


def test_small_texts() -> None:
    assert [p_value(p) for p in (0.42, 0.0235, 0.00003, 1.0)] == [
        "p = 0.42",
        "p = 0.0235",
        "p < 0.0001",
        "p = 1.00",
    ]
    near_levels = (0.049999, 0.05, 0.0099999, 0.00099996)
    shown = ["p < 0.05", "p = 0.0500", "p < 0.01", "p < 0.001"]
    assert [p_value(p) for p in near_levels] == shown, "no text contradicts a verdict"
    assert [signed(value, 1) for value in (1.26, -1.26, 0.01)] == ["+1.3", "-1.3", "0.0"]
    assert [duration(s) for s in (12.1, 200.0, 18120.0)] == ["12.1 s", "3 min 20 s", "5 h 02 min"]


def test_methods_are_one_family_and_their_variants_another() -> None:
    near = [value + 5 for value in SIMCSE]
    runs = over_seeds("simcse", SIMCSE) + over_seeds("mcse", near)
    for n in range(2, 6):
        runs += over_seeds(f"mcse[lambda={n}]", [value + 0.1 * n for value in SIMCSE])
    runs += over_seeds("mcse", [value + 1.5 for value in SIMCSE], overrides={"steps": 3})
    runs += over_seeds("simcse", [value + 1 for value in SIMCSE], overrides={"steps": 3})
    p = scipy.stats.ttest_ind(near, SIMCSE, equal_var=False).pvalue
    cell = cell_of("mcse", runs)
    assert cell.corrected == (
        pytest.approx(p),
        ("methods against SimCSE", 1, CORRECTION),
        0.05,
        0.05,
    )
    assert str(format_cell(cell, 2, 3)).endswith("2.02*")
    assert (variant := cell_of("mcse[lambda=2]", runs).corrected)
    assert variant.family[:2] == ("variants against SimCSE", 5)
    # the only task is its own average: three comparisons, not six
    runs += over_seeds("dalr", [value + 1 for value in SIMCSE]) + over_seeds(
        "kdmcse", [value + 2 for value in SIMCSE]
    )
    cell = cell_of("mcse", runs)
    assert (cell.corrected.p, cell.corrected.family.tests) == (pytest.approx(3 * p), 3)
    assert p < 0.05 < 3 * p
    assert str(format_cell(cell, 2, 3)).endswith("2.02(*)")
    legend = " ".join(tables(runs)[0].legend)
    assert "methods against SimCSE (3 tests)" in legend
    assert "variants against SimCSE (5 tests)" in legend


def test_equal_runs_are_one_test_and_those_of_the_baseline_none() -> None:
    near = [value + 5 for value in SIMCSE]
    runs = (
        over_seeds("simcse", SIMCSE)
        + over_seeds("mcse", near)
        + over_seeds("mcse[lambda=2]", SIMCSE[::-1])
    )
    before = cell_of("mcse", runs), cell_of("mcse[lambda=2]", runs)
    runs += over_seeds("mcse@official", near) + over_seeds("simcse@official", SIMCSE)
    assert (cell_of("mcse", runs), cell_of("mcse[lambda=2]", runs)) == before
    assert cell_of("mcse@official", runs) == before[0]
    assert cell_of("simcse@official", runs).test is None
    assert any("the same scores as SimCSE" in note for note in tables(runs)[0].notes)


@settings(max_examples=6, deadline=None)
@given(
    elsewhere=st.sampled_from([{"setting": "a"}, {"encoder": "other"}, {"profile": "small"}]),
    values=st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=2, max_size=4),
    names=st.permutations(["simcse", "mcse", "dalr", "kdmcse[lambda=2]", "mcse@official"]),
)
def test_runs_in_another_place_change_no_verdict(
    elsewhere: dict[str, str], values: list[list[float]], names: list[str]
) -> None:
    runs = over_seeds("simcse", SIMCSE) + over_seeds("mcse", [value + 5 for value in SIMCSE])
    runs += over_seeds("mcse[lambda=2]", [value + 3 for value in SIMCSE]) + over_seeds(
        "dalr", [22.0, 23.0, 26.0]
    )
    (before,) = tables(runs)
    other = [
        run
        for name, some in zip(names, values, strict=False)
        for run in over_seeds(name, some, **elsewhere)
    ]
    after = {row.label: row for table in tables(runs + other) for row in table.rows}
    assert all(after[row.label].cells == row.cells for row in before.rows)


def cell_of(variant: str, runs: list[Result]) -> Cell:
    """The average of a variant without overrides in the toy world."""
    rows = (row for row in tables(runs)[0].rows if not row.label.overrides)
    return next(row.cells[AVG] for row in rows if row.label.variant == variant)


def test_the_untrained_encoder_stands_in_every_block_of_its_encoder() -> None:
    untrained = over_seeds("none[pooling=mean]", [78.9], setting="none")
    other = over_seeds("none[pooling=mean]", [60.0], setting="none", encoder="other")
    places = [over_seeds("simcse", SIMCSE, setting=name) for name in ("wiki", "nli")]
    (table,) = tables([*untrained, *other, *places[0], *places[1]])
    shown = {
        (block.setting, block.encoder): [str(row.label) for row in block.rows]
        for block in table.blocks
    }
    both = ["none[pooling=mean]", "simcse"]
    assert shown == {
        ("none", "other"): both[:1],
        ("nli", "toy-bert"): both,
        ("wiki", "toy-bert"): both,
    }
    assert len(table.rows) == 4
    assert table.lacking == ()
    (table,) = tables(over_seeds("simcse", SIMCSE))
    command = "harness run --profile tiny --methods 'none[pooling=cls],none[pooling=mean]' --encoders toy-bert"
    said = DEFAULT_COMMANDS.explain_untrained("tiny", table.lacking)
    assert said == f"Untrained toy-bert not evaluated; `{command}` adds it."


def test_a_selection_is_tested_in_the_families_of_the_folder() -> None:
    near = [value + 5 for value in SIMCSE]
    runs = over_seeds("simcse", SIMCSE) + over_seeds("mcse", near)
    runs += over_seeds("dalr", [22.0, 23.0, 26.0]) + over_seeds(
        "none[pooling=cls]", [1.0], setting="none"
    )
    (whole,) = tables(runs)
    wanted = {row.label for row in whole.rows if row.label.variant == "mcse"}
    (part,) = make_summary_tables(runs, metrics_of(runs), shown=wanted)
    assert [row.label.variant for row in part.rows] == ["none[pooling=cls]", "simcse", "mcse"]
    assert all(row in whole.rows for row in part.rows)


def made_up(variants: int) -> list[Result]:
    """Two settings with the baseline and other variants, two seeds each."""
    names = ["simcse", *(f"mcse[lambda={number}]" for number in range(1, variants))]
    return [
        result(name, seed, setting=where)
        for where in ("a", "b")
        for name in names
        for seed in (0, 1)
    ]


def calls(work: Callable[[], object]) -> int:
    """The number of function calls, generators' steps among them."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    "work",
    [
        lambda some: [
            make_headline(forest) for table in tables(some) for forest in make_forests(table)
        ],
        lambda some: compare_variants(some, "mcse[lambda=1]", "simcse", "sts.Avg", setting="a"),
    ],
    ids=["tables and sentences", "comparison"],
)
def test_four_times_the_variants_are_four_times_the_work(
    work: Callable[[list[Result]], object],
) -> None:
    work(made_up(3))  # imports
    few, many = made_up(12), made_up(48)
    assert calls(lambda: work(many)) < 4.6 * calls(lambda: work(few))
