"""Marks of collapsed models and of weights selected on a test, wherever a score stands."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from builders import result, tables, tidy

from harness.metrics import SEEN, UNSEEN, Column
from harness.reporting.charts.glance import draw_forest, draw_heat_maps
from harness.reporting.csvfiles import list_summary_fields
from harness.reporting.sections.ranking import list_ranking_fields, make_ranking_grid, rank_tables
from harness.reporting.sections.seen import make_seen_grid, make_seen_tables
from harness.reporting.sections.tuning import make_tuned_grids
from harness.reporting.seeds.caveats import has_collapsed
from harness.reporting.seeds.gains import describe_lead, make_forests
from harness.reporting.seeds.lookup import compare_variants
from harness.reporting.seeds.tuned import make_tuned_reports
from harness.reporting.tables.grids import format_marks, make_summary_grid
from harness.reporting.tables.texts import (
    format_csv_table,
    format_latex_table,
    format_markdown_table,
)
from harness.store import Frames, Result, frames_of, metrics_of
from harness.store.tunings import make_tuning

AVG = Column("Avg", "spearman")
HEALTHY, COLLAPSED = (0.4, -2.5), (0.0, -0.6)


def runs(variant: str, spearman: float, shapes: Sequence[tuple[float, float]]) -> list[Result]:
    results = []
    for seed, (alignment, uniformity) in enumerate(shapes):
        shape, score = (
            {"alignment": alignment, "uniformity": uniformity},
            {"spearman": spearman + seed},
        )
        scores = {
            "sts": {"ToySTS": score, "Avg": score},
            "geometry": {"ToySTS": shape, "Avg": shape},
        }
        results.append(result(variant, seed, scores))
    return results


def test_positives_or_all_vectors_coincide() -> None:
    shapes = [(0.4, -2.5), (0.0, -0.6), (0.003, -0.006), (None, -0.006), (None, -0.6), (0.09, -1.6)]
    assert [shape for shape in shapes if has_collapsed(*shape)] == shapes[1:4]


def test_a_collapsed_run_is_marked_wherever_its_score_stands() -> None:
    results = runs("mcse", 80.0, [HEALTHY, COLLAPSED, COLLAPSED]) + runs(
        "simcse", 20.0, [HEALTHY] * 3
    )
    sts, shape = tables(results)
    said = "MCSE: collapsed in seeds 1, 2"
    for table in (sts, shape):
        grid = make_summary_grid(table)
        lines = {str(line.heads[0]): line for line in grid.sections[0].lines}
        assert all(cell.caveats == "‡" for cell in lines["MCSE"].cells)
        assert not any(cell.caveats for cell in lines["SimCSE"].cells)
        assert any(said in note for note in grid.notes)
        assert "‡" in format_markdown_table(grid)
        assert r"$\ddagger$" in format_latex_table(grid)
    forest = make_forests(sts)[0]
    assert said in describe_lead(forest)
    plot = draw_forest(forest)
    assert ["MCSE‡"] in plot.spec["params"][0]["value"]
    assert said in plot.text
    assert "collapsed in seeds 1, 2" in tidy(list_summary_fields(sts))
    comparison = compare_variants(results, "mcse", "simcse", "sts.Avg")
    assert any("mcse: collapsed in seeds 1, 2" in warning for warning in comparison.warnings())


@pytest.fixture
def stale_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of MCSE are of earlier code."""

    def states(frames: Frames) -> list[str]:
        methods = frames.runs["method"][frames.evaluations["run"]]
        return ["method code" if method == "mcse" else "present" for method in methods]

    def stale(results: Sequence[Result]) -> Frames:
        return frames_of(results).judge_by(states)

    monkeypatch.setattr("harness.reporting.seeds.tuned.frames_of", stale)
    monkeypatch.setattr("harness.reporting.seeds.summary.frames_of", stale)


def test_tasks_that_selected_the_weights_and_stale_runs_are_marked_in_maps_rankings_and_files(
    stale_frame: None,
) -> None:
    others = {"sts": {task: {"spearman": 60.0} for task in ON_DEV["sts"]}}
    results = [
        result(name, seed, some, setting=setting)
        for setting in ("toy", "wiki")
        for name, some in (("mcse", ON_DEV), ("simcse", others), ("dalr", others))
        for seed in range(3)
    ]
    (table,) = tables(results)
    plot, _ = draw_heat_maps(table)
    assert ["MCSE§ (stale)"] in plot.spec["params"][0]["value"]
    assert [value["text"] for value in plot.spec["data"]["values"][:3]] == [
        "70.0§",
        "70.0",
        "70.0§",
    ]
    assert "changed since: method code" in plot.text
    (ranking,) = rank_tables([table])
    grid = make_ranking_grid(ranking)
    assert [str(line.heads[1]) for line in grid.sections[0].lines] == ["3§ (stale)", "3§", "3§"]
    assert any("selected on ToySTS-dev" in note for note in grid.notes)
    rows = list(
        csv.DictReader(
            io.StringIO(tidy([*list_summary_fields(table), *list_ranking_fields(ranking)]))
        )
    )
    weak = {(row["table"], row["variant"], row["task"]): row["weakened_by"] for row in rows}
    assert weak["summary", "simcse", "Other"] == ""
    assert "selected on ToySTS-dev" in weak["summary", "simcse", "Avg"]
    assert weak["summary", "mcse", "Other"] == "stale, changed since: method code"
    assert weak["ranking", "mcse", "Avg"] == "§ (stale)"
    assert "§" in format_csv_table(make_summary_grid(table))


def test_tuned_methods_have_the_marks_of_what_was_picked(stale_frame: None) -> None:
    tuning = make_tuning("tiny", {}, ["mcse:lambda=1|2", "simcse:temperature=1|2"], 2)
    results = [
        result(
            trial,
            seed,
            {"sts": {"ToySTS-dev": {"spearman": 70.0 + at}, "Avg": {"spearman": 70.0 + at}}},
        )
        for method in tuning.methods
        for at, trial in enumerate(method.trials)
        for seed in range(3)
    ]
    (report,) = make_tuned_reports([tuning], results, tables(results))
    for grid in make_tuned_grids(report):
        lines = {str(line.heads[0]): line for line in grid.sections[0].lines if line.span}
        seeds = [
            (line.heads[1], str(line.cells[0]))
            for name, line in lines.items()
            if name.startswith("MCSE")
        ]
        assert seeds
        assert all(any(str(text).endswith("(stale)") for text in texts) for texts in seeds), (
            grid.title
        )
        assert any("changed since: method code" in note for note in grid.notes), grid.title
    assert all(
        format_marks(cell) == "§" for row in report.tables[0].rows for cell in row.cells.values()
    )


def test_scores_on_seen_pairs_have_the_marks_of_their_runs() -> None:
    def run(variant: str, seed: int, alignment: float, uniformity: float) -> Result:
        shape, score = {"alignment": alignment, "uniformity": uniformity}, {"spearman": 70.0 + seed}
        parts = {"ToySTS-dev": {SEEN: {"n": 50.0, **score}, UNSEEN: {"n": 80.0, **score}}}
        scores = {"sts": {"ToySTS-dev": score}, "geometry": {"ToySTS": shape}}
        return result(variant, seed, scores, parts={"sts": parts})

    results = [
        run("mcse", seed, *shape) for seed, shape in enumerate([COLLAPSED, HEALTHY, COLLAPSED])
    ]
    results += [run("simcse", seed, *HEALTHY) for seed in range(3)]
    (table,) = make_seen_tables(results, metrics_of(results))
    base, mine = make_seen_grid(table).sections[0].lines
    assert [cell.caveats for cell in base.cells[1::3]] == ["§", "§"]
    assert [cell.caveats for cell in mine.cells[1::3]] == ["‡§", "‡§"]
    assert any("MCSE: collapsed in seeds 0, 2" in note for note in make_seen_grid(table).notes)


FLAT, SPREAD = {"alignment": 0.0, "uniformity": 0.0}, {"alignment": 0.4, "uniformity": -2.5}
ON_DEV = {"sts": {task: {"spearman": 70.0} for task in ("ToySTS-dev", "Other", "Avg")}}


@pytest.mark.parametrize(
    ("run", "marked"),
    [
        (
            result(
                "none",
                scores={"sts": {"Avg": {"spearman": 1.0}}, "geometry": {"ToySTS": FLAT}},
                setting="none",
            ),
            "",
        ),
        (result("mcse", scores=ON_DEV), "ToySTS-dev Avg"),
        (result("mcse", scores={"geometry": {"ToySTS-dev": SPREAD, "Avg": SPREAD}}), ""),
    ],
    ids=[
        "an untrained encoder does not collapse",
        "a dev task and its average",
        "alignment is no selection",
    ],
)
def test_only_scores_that_are_too_high_or_of_collapsed_training_are_marked(
    run: Result, marked: str
) -> None:
    table = tables([run])[0]
    cells = {column.task: cell for column, cell in table.rows[0].cells.items()}
    assert " ".join(task for task, cell in cells.items() if cell.caveats) == marked
    assert any("selected on ToySTS-dev" in note for note in table.notes) == bool(marked)
