"""Tables as text, ready for a page or a file to lay out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.metrics import AVERAGE
from harness.reporting.formats import CellText, cell_text
from harness.reporting.seeds.summary import Row, SummaryTable
from harness.reporting.tables.cells import Coverage

#: absent: a row without a run; sentences: its heads are long texts
LineKind = Literal["plain", "baseline", "published", "measured", "absent", "difference", "verdict", "sentences"]


@dataclass(frozen=True)
class Line:
    """One line: heads that name it, and cells.

    All heads but the last are shared with the `span` - 1 lines below, whose own span is 0. Lines of one `group`
    belong together; a rule may separate them from the next.
    """

    heads: tuple[str, ...]
    cells: tuple[CellText, ...]
    kind: LineKind
    span: int = 1
    group: str = ""


@dataclass(frozen=True)
class Section:
    """Lines under one heading."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A table to lay out. `key` is a short name for files and links, `commands` run what is missing.

    `average` marks the columns of averages, `empty` says why nothing is measured yet, and `coverage` counts rows and
    verdicts of a paper's table.
    """

    key: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    average: tuple[bool, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    commands: tuple[str, ...] = ()
    empty: str = ""
    coverage: Coverage | None = None


def summary_grid(table: SummaryTable) -> Grid:
    """Word a summary table."""
    return Grid(
        f"{table.profile}-{table.suite}",
        f"{table.suite}, profile {table.profile}",
        ("variant", "seeds"),
        tuple(table.title(column) for column in table.columns),
        tuple(column.task == AVERAGE for column in table.columns),
        tuple(
            Section(f"{block.setting} / {block.encoder}", tuple(_line(table, row) for row in block.rows))
            for block in table.blocks
        ),
        table.notes,
    )


def _line(table: SummaryTable, row: Row) -> Line:
    seeds = len(row.seeds)
    cells = [cell_text(row.cells.get(column), table.metric(column).digits, seeds) for column in table.columns]
    return Line((str(row.label), str(seeds)), tuple(cells), "baseline" if row.is_baseline else "plain")
