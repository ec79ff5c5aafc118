"""The table of scores on test pairs that training has seen and on the others."""

from __future__ import annotations

from collections.abc import Iterator

from harness.formatting import fixed, signed
from harness.method.naming import name_of
from harness.metrics import AVERAGE, SEEN, UNSEEN
from harness.reporting.seeds.groups import Cell
from harness.reporting.seeds.seen import SeenCell, SeenLine, SeenTable
from harness.reporting.seeds.summary import BASELINE
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section, cell_text, seeds_text


def seen_grid(table: SeenTable) -> Grid:
    """Word a table of scores by what training has seen, task by task."""
    columns = ("pairs", "score", f"gain over {name_of(BASELINE)}")
    sections = tuple(Section(_heading(task), tuple(_lines(table, task))) for task in table.tasks)
    return Grid(
        table.key,
        table.title,
        ("variant", "seeds"),
        columns * 2,
        (False,) * len(columns) * 2,
        sections,
        tuple(table.notes()),
        groups=("seen pairs",) * len(columns) + ("unseen pairs",) * len(columns),
        legend=tuple(table.legend()),
    )


def _heading(task: str) -> str:
    return "Avg, all tasks" if task == AVERAGE else task


def _lines(table: SeenTable, task: str) -> Iterator[Line]:
    digits = table.metric.digits
    for row in table.rows:
        found = [row.cells.get((task, part)) for part in (SEEN, UNSEEN)]
        if any(found):
            cells = tuple(text for cell in found for text in _cells(row, cell, digits))
            heads = (row.label.name, seeds_text(len(row.seeds), row.freshness))
            yield Line(heads, cells, "baseline" if row.is_baseline else "plain")


def _cells(row: SeenLine, cell: SeenCell | None, digits: int) -> tuple[CellText, ...]:
    if cell is None:
        return (CellText(ABSENT),) * 3
    seeds = len(row.seeds)
    return _pairs(cell.pairs), cell_text(cell.scores, digits, seeds), _gain(cell.gains, digits, seeds)


def _pairs(cell: Cell) -> CellText:
    """The number of pairs, with its deviation if it differs between seeds."""
    summary = cell.summary
    return CellText(fixed(summary.mean, 0), fixed(summary.std, 0) if summary.std else "")


def _gain(cell: Cell | None, digits: int, seeds: int) -> CellText:
    text = cell_text(cell, digits, seeds)
    return text if cell is None else CellText(signed(cell.summary.mean, digits), text.spread, extra=text.extra)
