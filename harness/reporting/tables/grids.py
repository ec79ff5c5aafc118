"""Both kinds of table in one shape, cells in words, for every page and file to lay out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.metrics import AVERAGE
from harness.reporting.formats import CellText, cell_text
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.tables.cells import PROFILE, FilledRow, FilledTable
from harness.reporting.tables.lines import RowLine, row_lines, table_notes, table_title


@dataclass(frozen=True)
class Line:
    """One line: heads (what it is), cells, and what kind it is.

    Kinds: plain, baseline, published, measured, difference, verdict, sentences (its heads are long texts).
    All heads but the last also stand for the `span` - 1 lines below, whose own span is 0. Lines of one `group` stay
    together; a rule may part them from the next.
    """

    heads: tuple[str, ...]
    cells: tuple[CellText, ...]
    kind: str
    span: int = 1
    group: str = ""


@dataclass(frozen=True)
class Section:
    """Lines below one heading."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A table to lay out. `commands` fill what is missing; `key` is a short name for files and links.

    `empty` says why there is nothing in it yet.
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


def summary_grid(table: SummaryTable) -> Grid:
    """A summary table in words."""
    sections = []
    for block in table.blocks:
        lines = []
        for row in block.rows:
            cells = tuple(cell_text(row.cells.get(column), column, len(row.seeds)) for column in table.columns)
            kind = "baseline" if row.is_baseline else "plain"
            lines.append(Line((str(row.label), str(len(row.seeds))), cells, kind))
        sections.append(Section(f"{block.setting} / {block.encoder}", tuple(lines)))
    return Grid(
        f"{table.profile}-{table.suite}",
        f"{table.suite}, profile {table.profile}",
        ("variant", "seeds"),
        tuple(table.title(column) for column in table.columns),
        tuple(column.task == AVERAGE for column in table.columns),
        tuple(sections),
        table.notes,
    )


def paper_grid(filled: FilledTable) -> Grid:
    """A paper's table in words: printed numbers, and below them the measured ones, the difference and the verdict."""
    sections = []
    for encoder, rows in row_lines(filled):
        lines = [line for row, parts in rows for line in _paper_lines(row, parts, filled.table.groups)]
        sections.append(Section(encoder, tuple(lines)))
    stands_in = filled.profile != PROFILE
    return Grid(
        f"{filled.paper.name}-{filled.name}" + (f"-{filled.profile}" if stands_in else ""),
        table_title(filled),
        ("variant", "setting", "what"),
        tuple(column.name for column in filled.columns),
        tuple(column.task.startswith(AVERAGE) for column in filled.columns),
        tuple(sections),
        tuple(table_notes(filled)),
        filled.commands if any(row.command for row in filled.rows) else (),
        "" if filled.measured_rows else f"no run of profile {filled.profile} yet",
    )


def _paper_lines(row: FilledRow, parts: Sequence[RowLine], groups: str) -> Iterator[Line]:
    group = row.place.setting if groups == "setting" else ""
    name = row.place.variant + (f" ({row.row.mark})" if row.row.mark else "")
    for index, part in enumerate(parts):
        heads = (name, row.place.setting, part.what)
        yield Line(heads, part.cells, part.kind, 0 if index else len(parts), group)
