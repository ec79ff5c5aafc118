"""A filled table in words: lines of print, of measurement, of their difference and of the verdict, and the notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.formatting import count_of, fixed, p_value, signed
from harness.papers.schema import PaperColumn
from harness.reporting.formats import ABSENT, BETTER, CellText, star, summary_text
from harness.reporting.seeds.summary import SMALLER_IS_BETTER
from harness.reporting.tables.cells import PROFILE, FilledRow, FilledTable, PaperCell, row_verdict, tested

#: row of a block and column of the cells in bold
Bold = frozenset[tuple[int, str]]
#: metrics of which less is better, that of cost among them
LESS = SMALLER_IS_BETTER | {"minutes"}


@dataclass(frozen=True)
class RowLine:
    """One line of a row: what it says, its kind (published, measured, difference, verdict) and its cells."""

    what: str
    kind: str
    cells: tuple[CellText, ...]


def row_lines(filled: FilledTable) -> list[tuple[str, list[tuple[FilledRow, tuple[RowLine, ...]]]]]:
    """The lines of every row, encoder by encoder."""
    found = []
    for encoder, rows in filled.blocks:
        bold = _best(filled, rows, _printed_value), _best(filled, rows, _measured_value)
        lines = [(row, tuple(_lines(filled, row, at, *bold))) for at, row in enumerate(rows)]
        found.append((encoder, lines))
    return found


def table_title(filled: FilledTable) -> str:
    """What the table is: a paper's, or its shape on another profile."""
    name = f"{filled.paper.short or filled.paper.name} {filled.name}"
    if filled.profile != PROFILE:
        name = f"The shape of {name} on profile {filled.profile}"
    return f"{name}: {filled.table.title}"


def table_notes(filled: FilledTable) -> Iterator[str]:
    """What a reader must know to read the table."""
    table, cells = filled.table, [cell for row in filled.rows for cell in row.cells.values()]
    if filled.profile == PROFILE:
        group = "setting and encoder" if table.groups == "setting" else "encoder"
        yield (
            f"Printed numbers: {filled.paper.title} ({filled.paper.reference}), table {filled.name.removeprefix('T')}; "
            f"measured: results of profile {PROFILE} only, mean ± sample standard deviation over seeds. Bold: the best "
            f"mean of its {group}." + (" Stars of printed numbers are the paper's." if table.test else "")
        )
    else:
        yield from _stand_in_notes(filled)
    tests = sum(map(tested, cells))
    if table.test and tests:
        yield (
            f"Measured rows: * better, † worse than the row they are compared with, independent two-sample t-test at "
            f"{table.test.alpha}, as in the paper, that hold after Holm's correction for the table's "
            f"{count_of(tests, 'test')}; (*) and (†) without the correction only."
        )
    if any(cell.verdict for cell in cells):
        yield (
            "Verdict: agrees where 0 lies within the 95 % interval of measured - printed (pooled t-test from means, "
            "spreads and numbers of seeds; the printed spread is taken as the sample form), else differs. To agree is "
            "not to be shown equal."
        )
    if table.note and filled.profile == PROFILE:
        yield table.note
    older = sum(row.older for row in filled.rows)
    if older:
        yield f"{older} older or smaller {'group' if older == 1 else 'groups'} of runs with the same label left out."


def _stand_in_notes(filled: FilledTable) -> Iterator[str]:
    yield (
        f"Runs of profile {filled.profile}, whose table [stands_for] says what stands for the paper's own; rows and "
        "columns without a stand-in are left out. These numbers say nothing of the printed ones. Mean ± sample "
        "standard deviation over seeds."
    )
    tasks = {name: score.task for row in filled.rows for name, score in row.scores.items()}
    yield f"Columns: {', '.join(f'{column.name} is {tasks[column.name]}' for column in filled.columns)}."


def _lines(filled: FilledTable, row: FilledRow, at: int, printed: Bold, measured: Bold) -> Iterator[RowLine]:
    columns, cells = filled.columns, [row.cells[column.name] for column in filled.columns]
    pairs = list(zip(columns, cells, strict=True))
    if filled.profile == PROFILE:
        texts = [_printed(column, cell, (at, column.name) in printed) for column, cell in pairs]
        yield RowLine(_seeds_of_print(cells), "published", tuple(texts))
    if row.seeds:
        texts = [_measured(column, cell, row.seeds, (at, column.name) in measured) for column, cell in pairs]
        yield RowLine(f"measured, {count_of(row.seeds, 'seed')}", "measured", tuple(texts))
        verdict = row_verdict(cells)
        if verdict:
            yield RowLine("difference", "difference", tuple(_difference(column, cell) for column, cell in pairs))
            yield RowLine(f"verdict: {verdict}", "verdict", tuple(map(_verdict, cells)))
    elif filled.measured_rows and not row.row.published_only:
        yield RowLine("measured, no run yet", "measured", (CellText(ABSENT),) * len(columns))


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
    mark = star(cell.measured)
    text = summary_text(cell.measured.summary, column.decimals, mark if cell.holds or not mark else f"({mark})")
    n = cell.measured.summary.n
    return replace(text, bold=bold, extra="" if n == seeds else f"n = {n}")


def _difference(column: PaperColumn, cell: PaperCell) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    return CellText(signed(cell.difference, column.decimals), extra=p_value(cell.test.p) if cell.test else "")


def _verdict(cell: PaperCell) -> CellText:
    return CellText(cell.verdict.word if cell.verdict else ABSENT)


def _best(filled: FilledTable, rows: Sequence[FilledRow], value: Callable[[PaperCell], float | None]) -> Bold:
    """Places of the best values of each group by row and column; equal ones are all best, unless all are equal."""
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        if not row.row.published_only:
            groups.setdefault(row.place.setting if filled.table.groups == "setting" else "", []).append(at)
    found = set()
    for column in filled.columns:
        for group in groups.values():
            values = {at: number for at in group if (number := value(rows[at].cells[column.name])) is not None}
            if len(set(values.values())) > 1 and not column.published_only:
                best = min(values.values()) if column.metric in LESS else max(values.values())
                found |= {(at, column.name) for at, number in values.items() if number == best}
    return frozenset(found)


def _printed_value(cell: PaperCell) -> float | None:
    return cell.published.value if cell.published else None


def _measured_value(cell: PaperCell) -> float | None:
    return cell.measured.summary.mean if cell.measured else None
