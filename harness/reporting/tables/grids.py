"""Tables as text, ready for a page or a file to lay out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.formatting import fixed
from harness.metrics import AVERAGE
from harness.reporting.seeds.groups import Cell
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.tables.cells import Coverage
from harness.stats import Summary
from harness.verdicts import Significance, Verdict

BETTER, WORSE, ABSENT = "*", "†", "–"
#: absent: a row without a run; sentences: its heads are long texts
LineKind = Literal["plain", "baseline", "published", "measured", "absent", "difference", "verdict", "sentences"]


@dataclass(frozen=True)
class CellText:
    """The text of a cell in the pieces that a page styles apart: `73.10 ± 0.42* (n = 2)`.

    `bold` marks the best of a group; `verdict` is set where the cell is a verdict, for its badge.
    """

    value: str
    spread: str = ""
    mark: str = ""
    extra: str = ""
    bold: bool = False
    verdict: Verdict | None = None

    @classmethod
    def judged(cls, verdict: Verdict, extra: str = "") -> CellText:
        """Build the cell of a verdict."""
        return cls(str(verdict), extra=extra, verdict=verdict)

    def __str__(self) -> str:
        middle = f" ± {self.spread}" if self.spread else ""
        return self.value + middle + self.mark + (f" ({self.extra})" if self.extra else "")


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
        "-".join(filter(None, (table.profile, table.suite, table.about))),
        ", ".join(filter(None, (table.suite, table.about, f"profile {table.profile}"))),
        ("variant", "seeds"),
        tuple(table.title(column) for column in table.columns),
        tuple(column.task == AVERAGE for column in table.columns),
        tuple(
            Section(f"{block.setting} / {block.encoder}", tuple(_line(table, block, row) for row in block.rows))
            for block in table.blocks
        ),
        table.notes,
    )


def _line(table: SummaryTable, block: Block, row: Row) -> Line:
    seeds = len(row.seeds)
    cells = [cell_text(row.cells.get(column), table.metric(column).digits, seeds) for column in table.columns]
    return Line((str(row.label), str(seeds)), tuple(cells), "baseline" if block.is_baseline(row) else "plain")


def summary_text(summary: Summary, digits: int, mark: str = "", extra: str = "") -> CellText:
    """Format a mean and, if there is one, the sample standard deviation."""
    return CellText(fixed(summary.mean, digits), "" if summary.std is None else fixed(summary.std, digits), mark, extra)


def cell_text(cell: Cell | None, digits: int, seeds: int) -> CellText:
    """Format a cell of a row with this many seeds; the cell's own count is shown where it differs."""
    if cell is None:
        return CellText(ABSENT)
    count = "" if cell.summary.n == seeds else f"n = {cell.summary.n}"
    return summary_text(cell.summary, digits, star(cell), count)


def star(cell: Cell) -> str:
    """Return the mark of a significant cell, in brackets if only without the table's correction, or nothing."""
    mark = {Significance.BETTER: BETTER, Significance.WORSE: WORSE}.get(cell.verdict or Significance.NONE, "")
    return mark if cell.holds or not mark else f"({mark})"
