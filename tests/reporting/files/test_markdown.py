"""The report as Markdown: escaped, every cell shown."""

from __future__ import annotations

import re

from builders import over_seeds, tables
from file_samples import grid

from harness.reporting.files.markdown import markdown
from harness.reporting.seeds.words import Sentence
from harness.reporting.tables.grids import summary_grid


def test_markdown_cells_hold_no_markup() -> None:
    text = markdown([Sentence("here", "a <b>bold</b> claim")], [grid()], "footer")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "<b>" not in text
    assert "a &lt;b>bold&lt;/b> claim" in text


def test_markdown_shows_every_cell() -> None:
    (table,) = tables(over_seeds("mcse", [70.0, 71.0, 72.0]) + over_seeds("simcse", [20.0, 21.0, 22.0]))
    text = markdown([], [summary_grid(table)], "footer")
    assert r"| toy / toy-bert | MCSE | 3 | **71.00 ± 1.00**\* |" in text
