"""Marks of collapsed models and of weights selected on a test, wherever a score stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from builders import result, tables

from harness.metrics import Column
from harness.reporting.files.latex import table as latex_table
from harness.reporting.files.markdown import table as markdown_table
from harness.reporting.seeds.caveats import has_collapsed
from harness.reporting.seeds.forest import forests, lead_text
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.sides import compare_variants
from harness.reporting.tables.grids import summary_grid
from harness.store import Result

AVG = Column("Avg", "spearman")
HEALTHY, COLLAPSED = (0.4, -2.5), (0.0, -0.6)


def runs(variant: str, spearman: float, shapes: Sequence[tuple[float, float]]) -> list[Result]:
    found = []
    for seed, (alignment, uniformity) in enumerate(shapes):
        shape, score = {"alignment": alignment, "uniformity": uniformity}, {"spearman": spearman + seed}
        scores = {"sts": {"ToySTS": score, "Avg": score}, "geometry": {"ToySTS": shape, "Avg": shape}}
        found.append(result(variant, seed, scores))
    return found


@pytest.mark.parametrize(
    ("alignment", "uniformity", "wanted"),
    [
        (0.4, -2.5, False),
        (0.0, -0.6, True),
        (0.003, -0.006, True),
        (None, -0.006, True),
        (None, -0.6, False),
        (0.09, -1.6, False),
    ],
)
def test_positives_or_all_vectors_coincide(alignment: float | None, uniformity: float, wanted: bool) -> None:
    assert has_collapsed(alignment, uniformity) == wanted


def test_a_collapsed_run_is_marked_wherever_its_score_stands() -> None:
    results = runs("mcse", 80.0, [HEALTHY, COLLAPSED, COLLAPSED]) + runs("simcse", 20.0, [HEALTHY] * 3)
    sts, shape = tables(results)
    said = "MCSE: collapsed in seeds 1, 2"
    for one in (sts, shape):
        grid = summary_grid(one)
        lines = {str(line.heads[0]): line for line in grid.sections[0].lines}
        assert all(cell.caveats == "‡" for cell in lines["MCSE"].cells)
        assert not any(cell.caveats for cell in lines["SimCSE"].cells)
        assert any(said in note for note in grid.notes)
        assert "‡" in markdown_table(grid)
        assert r"$^{\ddagger}$" in latex_table(grid)
    assert said in headline([sts, shape], [])[0].text
    assert said in lead_text(forests(sts)[0])
    comparison = compare_variants(results, "mcse", "simcse", "sts.Avg")
    assert any("mcse: collapsed in seeds 1, 2" in warning for warning in comparison.warnings())


def test_an_untrained_encoder_does_not_collapse() -> None:
    score = {"sts": {"Avg": {"spearman": 1.0}}, "geometry": {"ToySTS": {"alignment": 0.0, "uniformity": 0.0}}}
    (sts,) = (one for one in tables([result("none", scores=score, setting="none")]) if one.suite == "sts")
    assert not sts.rows[0].caveats


def test_a_task_that_selected_the_weights_is_marked_with_the_average_over_it() -> None:
    scores = {"sts": {task: {"spearman": 70.0} for task in ("ToySTS-dev", "Other", "Avg")}}
    (table,) = tables([result("mcse", scores=scores)])
    (row,) = table.rows
    marked = {column.task for column, cell in row.cells.items() if cell.caveats}
    assert marked == {"ToySTS-dev", "Avg"}
    assert any("selected on ToySTS-dev" in note for note in table.notes)


def test_alignment_on_the_dev_task_is_no_selection() -> None:
    shape = {"alignment": 0.4, "uniformity": -2.5}
    (table,) = tables([result("mcse", scores={"geometry": {"ToySTS-dev": shape, "Avg": shape}})])
    assert not table.rows[0].caveats
