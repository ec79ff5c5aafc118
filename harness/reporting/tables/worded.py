"""A paper's filled table as text: printed and measured numbers, their difference and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from harness.formatting import count_of, fixed, p_value, signed
from harness.metrics import AVERAGE
from harness.papers.schema import PaperColumn
from harness.reporting.formats import ABSENT, BETTER, CellText, star, summary_text
from harness.reporting.tables.cells import FilledRow, FilledTable, PaperCell, row_verdict
from harness.reporting.tables.grids import Grid, Line, LineKind, Section
from harness.reporting.tables.notes import no_run_yet, table_notes, table_title

#: position of a row in its block, and column, of the cells in bold
BoldCells = frozenset[tuple[int, str]]


def paper_grid(filled: FilledTable) -> Grid:
    """Word a filled table."""
    return Grid(
        f"{filled.paper.name}-{filled.name}" + ("" if filled.is_paper else f"-{filled.profile}"),
        table_title(filled.paper, filled.name, filled.table.title, filled.profile),
        ("variant", "setting", "what"),
        tuple(column.name for column in filled.columns),
        tuple(column.task.startswith(AVERAGE) for column in filled.columns),
        tuple(Section(encoder, tuple(_block_lines(filled, rows))) for encoder, rows in filled.blocks),
        tuple(table_notes(filled)),
        filled.commands,
        "" if filled.measured_rows else no_run_yet(filled.profile),
        filled.coverage if filled.is_paper else None,
    )


def _block_lines(filled: FilledTable, rows: Sequence[FilledRow]) -> Iterator[Line]:
    printed = _best(filled, rows, lambda cell: cell.published.value if cell.published else None)
    measured = _best(filled, rows, lambda cell: cell.measured.summary.mean if cell.measured else None)
    for at, row in enumerate(rows):
        name = row.place.variant + (f" ({row.row.mark})" if row.row.mark else "")
        group = row.place.setting if filled.table.groups == "setting" else ""
        parts = list(_row_lines(filled, row, at, printed, measured))
        for index, (what, kind, cells) in enumerate(parts):
            span = 0 if index else len(parts)
            yield Line((name, row.place.setting, what), tuple(cells), kind, span, group)


def _row_lines(
    filled: FilledTable, row: FilledRow, at: int, printed: BoldCells, measured: BoldCells
) -> Iterator[tuple[str, LineKind, list[CellText]]]:
    """What each line of a row is, its kind and its cells."""
    pairs = [(column, row.cells[column.name]) for column in filled.columns]
    cells = [cell for _, cell in pairs]
    if filled.is_paper:
        texts = [_printed(column, cell, (at, column.name) in printed) for column, cell in pairs]
        yield _seeds_of_print(cells), "published", texts
    if row.seeds:
        texts = [_measured(column, cell, row.seeds, (at, column.name) in measured) for column, cell in pairs]
        yield f"measured, {count_of(row.seeds, 'seed')}", "measured", texts
        verdict = row_verdict(cells)
        if verdict:
            yield "difference", "difference", [_difference(column, cell) for column, cell in pairs]
            yield f"verdict: {verdict}", "verdict", [_verdict(cell) for cell in cells]
    elif filled.measured_rows and not row.row.published_only:
        yield "measured, no run yet", "absent", [CellText(ABSENT)] * len(cells)


def _seeds_of_print(cells: Sequence[PaperCell]) -> str:
    stated = {cell.published.seeds for cell in cells if cell.published}
    seeds = stated.pop() if len(stated) == 1 else None
    return "printed" + (f", {count_of(seeds, 'seed')}" if seeds else "")


def _printed(column: PaperColumn, cell: PaperCell, bold: bool) -> CellText:
    number = cell.published
    if number is None:
        return CellText(ABSENT)
    spread = "" if number.std is None else fixed(number.std, column.decimals)
    return CellText(fixed(number.value, column.decimals), spread, BETTER if number.star else "", bold=bold)


def _measured(column: PaperColumn, cell: PaperCell, seeds: int, bold: bool) -> CellText:
    if cell.measured is None:
        return CellText(ABSENT)
    mark, n = star(cell.measured), cell.measured.summary.n
    text = summary_text(cell.measured.summary, column.decimals, mark if cell.holds or not mark else f"({mark})")
    return replace(text, bold=bold, extra="" if n == seeds else f"n = {n}")


def _difference(column: PaperColumn, cell: PaperCell) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    return CellText(signed(cell.difference, column.decimals), extra=p_value(cell.test.p) if cell.test else "")


def _verdict(cell: PaperCell) -> CellText:
    return CellText.judged(cell.judgement.verdict) if cell.judgement else CellText(ABSENT)


def _best(filled: FilledTable, rows: Sequence[FilledRow], value: Callable[[PaperCell], float | None]) -> BoldCells:
    """Find the best values of each group by column; ties are all best, unless the whole group is equal."""
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        if not row.row.published_only:
            groups.setdefault(row.place.setting if filled.table.groups == "setting" else "", []).append(at)
    found = set()
    for column in filled.columns:
        if column.published_only:
            continue
        best_of = max if column.better == "higher" else min
        for group in groups.values():
            values = {at: number for at in group if (number := value(rows[at].cells[column.name])) is not None}
            if len(set(values.values())) > 1:
                best = best_of(values.values())
                found |= {(at, column.name) for at, number in values.items() if number == best}
    return frozenset(found)
