"""Both kinds of table in one shape, cells in words, for every page and file to lay out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.reporting.formats import (
    ABSENT,
    BETTER,
    CellText,
    cell_text,
    count_of,
    fixed,
    p_value,
    signed,
    star,
    summary_text,
)
from harness.reporting.paper_schema import PaperColumn
from harness.reporting.paper_tables import PROFILE, FilledRow, FilledTable, PaperCell
from harness.reporting.summary import AVERAGE, SummaryTable


@dataclass(frozen=True)
class Line:
    """One line: heads (what it is), cells, and what kind it is: plain, baseline, published, measured, difference.

    All heads but the last also stand for the `span` - 1 lines below, whose own span is 0.
    """

    heads: tuple[str, ...]
    cells: tuple[CellText, ...]
    kind: str
    span: int = 1


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
    """A paper's table in words: a line of printed numbers, and below it the measured ones and the difference."""
    table = filled.table
    sections = []
    for encoder, rows in filled.blocks:
        lines = [line for row in rows for line in _lines(row, table.columns)]
        sections.append(Section(encoder, tuple(lines)))
    return Grid(
        f"{filled.paper.name}-{filled.name}",
        f"{filled.paper.title}, {filled.name}: {table.title}",
        ("variant", "setting", "what"),
        tuple(column.name for column in table.columns),
        tuple(column.task.startswith(AVERAGE) for column in table.columns),
        tuple(sections),
        filled.notes,
        tuple(row.command for row in filled.rows if row.command),
        "" if filled.measured_rows else f"no run of profile {PROFILE} yet",
    )


def _lines(row: FilledRow, columns: Sequence[PaperColumn]) -> Iterator[Line]:
    name = row.row.variant + (f" ({row.row.mark})" if row.row.mark else "")
    cells: Mapping[str, PaperCell] = row.cells
    seeds = {cell.published.seeds for cell in cells.values()}
    stated = seeds.pop() if len(seeds) == 1 else None
    printed = "printed" + (f", {count_of(stated, 'seed')}" if stated else "")
    lines = [(printed, "published", [_printed(cells[at.name], at.decimals) for at in columns])]
    if row.seeds:
        measured = [_measured(cells[at.name], at.decimals, row.seeds) for at in columns]
        lines.append((f"measured, {count_of(row.seeds, 'seed')}", "measured", measured))
        lines.append(("difference", "difference", [_difference(cells[at.name], at.decimals) for at in columns]))
    elif not row.row.published_only:
        lines.append(("measured, no run yet", "measured", [CellText(ABSENT)] * len(columns)))
    for index, (what, kind, texts) in enumerate(lines):
        yield Line((name, row.row.setting, what), tuple(texts), kind, 0 if index else len(lines))


def _printed(cell: PaperCell, digits: int) -> CellText:
    number = cell.published
    spread = "" if number.std is None else fixed(number.std, digits)
    return CellText(fixed(number.value, digits), spread, BETTER if number.star else "")


def _measured(cell: PaperCell, digits: int, seeds: int) -> CellText:
    if cell.measured is None:
        return CellText(ABSENT)
    text = summary_text(cell.measured.summary, digits, star(cell.measured))
    n = cell.measured.summary.n
    return text if n == seeds else replace(text, extra=f"n = {n}")


def _difference(cell: PaperCell, digits: int) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    return CellText(signed(cell.difference, digits), extra=p_value(cell.test.p) if cell.test else "")
