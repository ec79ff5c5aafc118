"""Tables as Markdown: escaped, with every cell and mark."""

from __future__ import annotations

import re

import pytest
from builders import over_seeds, result, tables
from table_samples import measured_grids, nasty

from harness.reporting.seeds.wording import Sentence
from harness.reporting.tables.grids import make_summary_grid
from harness.reporting.tables.texts import format_markdown, format_markdown_table


@pytest.mark.parametrize(("average", "columns"), [(70.0, ("ToySTS",)), (65.0, ("ToySTS", "Avg"))])
def test_an_average_is_left_out_where_every_row_repeats_the_only_task(
    average: float, columns: tuple[str, ...]
) -> None:
    scores = {"sts": {"ToySTS": {"spearman": 70.0}, "Avg": {"spearman": average}}}
    (table,) = tables([result("mcse", 0, scores), *over_seeds("simcse", [60.0])])
    assert make_summary_grid(table).columns == columns
    assert make_summary_grid(table, whole=True).columns == ("ToySTS", "Avg")


def test_markdown_has_whole_rows_bold_and_no_markup() -> None:
    grids = measured_grids()
    text = "".join(format_markdown([Sentence("here", "a <b>bold</b> claim")], [nasty()], "footer"))
    assert "<b>" not in text
    assert "a &lt;b>bold&lt;/b> claim" in text
    for grid in [*grids.values(), nasty()]:
        rows = [line for line in format_markdown_table(grid).splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {
            len(grid.heads) + len(grid.columns) + 2
        }
        assert len(rows) == 2 + sum(len(section.lines) for section in grid.sections)
    text = format_markdown_table(grids["mcse-T1"])
    assert r"**77.3 ± 0.5**\*" in text
    assert r"**73.6 ± 1.0**\*" in text
    assert r"**-0.25 ± 0.10**(\*)" in format_markdown_table(nasty())
    cells = [
        cell for part in grids["mcse-T1"].sections for line in part.lines for cell in line.cells
    ]
    assert text.count("**") == 2 * sum(cell.bold for cell in cells)
