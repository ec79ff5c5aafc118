"""The papers' tables filled in.

Beside printed numbers stands what the runs of profile `paper` gave, and nothing else. A profile that says what stands
for the papers' settings, encoders and tasks can fill a table in its shape alone, without printed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.metrics import Score
from harness.papers.needed import Names
from harness.papers.published import Paper, Published, PublishedKey, published_key
from harness.papers.schema import PaperRow, PaperTable
from harness.profiles.schema import Profile
from harness.reporting.seeds.measured import Measurements
from harness.reporting.seeds.summary import Cell, compare
from harness.reporting.tables.cells import (
    PROFILE,
    FilledRow,
    FilledTable,
    PaperCell,
    beside,
    corrected,
    fewest,
    judge,
    row_command,
)
from harness.spec import Place
from harness.stats import ALPHA

if TYPE_CHECKING:
    import pandas

Printed = Mapping[str, Published]


def paper_tables(
    papers: Sequence[Paper], published: Mapping[PublishedKey, Published], frame: pandas.DataFrame
) -> list[FilledTable]:
    """All tables of the papers. Raises UserError for a row whose printed number is not in `published`."""
    measured = Measurements.of(frame, PROFILE)
    return [_paper_table(paper, name, published, measured) for paper in papers for name in paper.tables]


def stand_in_tables(papers: Sequence[Paper], frame: pandas.DataFrame, profiles: Sequence[Profile]) -> list[FilledTable]:
    """The tables whose every row with a stand-in has a run, profile by profile; no cell has a printed number.

    A table of which a single row has a stand-in is none.
    """
    found = []
    for profile in profiles:
        names = Names.of(profile)
        if names.stands is None or profile.name == PROFILE:
            continue
        measured = Measurements.of(frame, profile.name)
        tables = [_stand_in(paper, name, names, measured) for paper in papers for name in paper.tables]
        found += [table for table in tables if _is_whole(table)]
    return found


def _is_whole(table: FilledTable) -> bool:
    return len(table.rows) > 1 and all(row.seeds for row in table.planned_rows)


def _paper_table(
    paper: Paper, name: str, published: Mapping[PublishedKey, Published], measured: Measurements
) -> FilledTable:
    table, blocks = paper.tables[name], []
    for encoder in table.encoders:
        rows = []
        for index, row in table.rows_of(encoder):
            printed = _printed(paper, name, index, encoder, published)
            rows.append(_filled(row, table, encoder, Names(), measured, printed))
        blocks.append((encoder, tuple(row for row in rows if row)))
    return FilledTable(paper, name, table, corrected(blocks, alpha_of(table)), table.columns)


def _stand_in(paper: Paper, name: str, names: Names, measured: Measurements) -> FilledTable:
    table, blocks = paper.tables[name], []
    for encoder in table.encoders:
        rows: dict[Place, FilledRow] = {}
        for _, row in table.rows_of(encoder):
            filled = None if row.published_only else _filled(row, table, encoder, names, measured, {})
            if filled and (row.planned or filled.seeds):
                rows.setdefault(filled.place, filled)
        if rows:
            blocks.append((next(iter(rows)).encoder, tuple(rows.values())))
    used = {column for _, rows in blocks for row in rows for column in row.cells}
    columns = tuple(column for column in table.columns if column.name in used)
    return FilledTable(paper, name, table, corrected(blocks, alpha_of(table)), columns, measured.profile)


def _filled(
    row: PaperRow, table: PaperTable, encoder: str, names: Names, measured: Measurements, printed: Printed
) -> FilledRow | None:
    """A row filled; None where it has no stand-in."""
    place = names.place(row.variant, row.setting, encoder)
    scores = {column.name: score for column in table.columns if (score := names.score(row, column))}
    if place is None or not scores:
        return None
    found = {} if row.published_only else measured.cells(place)
    cells = {}
    for column in table.columns:
        score, number = scores.get(column.name), printed.get(column.name)
        if number is None and score is None:
            continue
        cell = found.get(score) if score else None
        if cell and score:
            cell = _compared(cell, score, row, table, encoder, names, measured)
        cells[column.name] = _cell(number, cell)
    least, most = fewest(list(scores.values()), found)
    wanted = row.seeds or table.seeds
    suites = tuple(name for name in table.suites if names.suite(name))
    due = least < wanted and not row.published_only
    command = row_command(place, wanted, suites, measured.profile) if due else None
    return FilledRow(row, place, cells, scores, most, measured.older(place), command)


def _compared(
    cell: Cell, score: Score, row: PaperRow, table: PaperTable, encoder: str, names: Names, measured: Measurements
) -> Cell:
    """A cell with the paper's own test, where it has one."""
    other = table.compared(row)
    place = names.place(other.variant, other.setting, encoder) if other else None
    against = measured.cells(place).get(score) if place else None
    return compare(cell, against, score.column, table.test.alpha) if against and table.test else cell


def _cell(number: Published | None, cell: Cell | None) -> PaperCell:
    if number is None or cell is None:
        return PaperCell(number, cell)
    return PaperCell(number, cell, cell.summary.mean - number.value, beside(number, cell), verdict=judge(number, cell))


def alpha_of(table: PaperTable) -> float:
    """The level of the paper's own test; that of this house for a table without one, which has no star."""
    return table.test.alpha if table.test else ALPHA


def _printed(
    paper: Paper, name: str, index: int, encoder: str, published: Mapping[PublishedKey, Published]
) -> dict[str, Published]:
    table, numbers = paper.tables[name], {}
    for column in table.columns:
        key = published_key(paper.name, name, table.rows[index], encoder, column)
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; mend one of the two"
            )
        numbers[column.name] = published[key]
    return numbers
