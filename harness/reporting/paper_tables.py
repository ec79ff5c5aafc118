"""A paper's table filled in: every printed number beside what the runs of profile `paper` gave."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.reporting.paper_measured import Measurements, Place, Score
from harness.reporting.paper_schema import PaperColumn, PaperRow, PaperTable
from harness.reporting.papers import Paper, Published, PublishedKey, published_key
from harness.reporting.summary import UNTRAINED, Cell, Column, compare
from harness.stats import TTest, t_test_from_summaries

if TYPE_CHECKING:
    import pandas

#: The only profile whose results may stand beside printed numbers.
PROFILE = "paper"


@dataclass(frozen=True)
class PaperCell:
    """A printed number, the measured one, their difference (measured - printed) and its test; None where impossible.

    `measured.test` is the paper's own test, against the row that the paper compares with.
    """

    published: Published
    measured: Cell | None = None
    difference: float | None = None
    test: TTest | None = None


@dataclass(frozen=True)
class FilledRow:
    """A row with its cells by column. `command` fills what is missing, None when nothing is."""

    row: PaperRow
    encoder: str
    cells: Mapping[str, PaperCell]
    seeds: int
    older: int
    command: str | None


@dataclass(frozen=True)
class FilledTable:
    """A paper's table, encoder by encoder."""

    paper: Paper
    name: str
    table: PaperTable
    blocks: tuple[tuple[str, tuple[FilledRow, ...]], ...]

    @property
    def rows(self) -> list[FilledRow]:
        """The rows of all encoders."""
        return [row for _, rows in self.blocks for row in rows]

    @property
    def planned_rows(self) -> list[FilledRow]:
        """Those that the table itself asks for runs of: not quoted ones."""
        return [row for row in self.rows if row.row.planned]

    @property
    def measured_rows(self) -> int:
        """How many rows have at least one run."""
        return sum(row.seeds > 0 for row in self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to read the table."""
        return tuple(_notes(self))


def paper_tables(
    papers: Sequence[Paper], published: Mapping[PublishedKey, Published], frame: pandas.DataFrame
) -> list[FilledTable]:
    """All tables of the papers. Raises UserError for a row whose printed number is not in `published`."""
    measured = Measurements.of(frame, PROFILE)
    return [
        FilledTable(paper, name, table, tuple(_blocks(paper, name, published, measured)))
        for paper in papers
        for name, table in paper.tables.items()
    ]


def _blocks(
    paper: Paper, name: str, published: Mapping[PublishedKey, Published], measured: Measurements
) -> Iterator[tuple[str, tuple[FilledRow, ...]]]:
    table = paper.tables[name]
    for encoder in table.encoders:
        rows = []
        for index, row in table.rows_of(encoder):
            printed = _printed(paper, name, index, encoder, published)
            rows.append(_filled(row, table, encoder, printed, measured))
        yield encoder, tuple(rows)


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


def measured_cells(row: PaperRow, table: PaperTable, encoder: str, measured: Measurements) -> dict[str, Cell]:
    """What was measured for a row, by column, each with the paper's own test where the row has one."""
    mine = measured.cells(Place(row.variant, row.setting, encoder))
    compared = table.compared(row)
    other = measured.cells(Place(compared.variant, compared.setting, encoder)) if compared else {}
    cells = {}
    for column in table.columns:
        score = score_of(row, column)
        if column.published_only or score not in mine:
            continue
        cell = mine[score]
        if score in other and table.test:
            cell = compare(cell, other[score], score.column, table.test.alpha)
        cells[column.name] = cell
    return cells


def score_of(row: PaperRow, column: PaperColumn) -> Score:
    """Which number of a run fills a cell."""
    return Score(column.suite, Column(row.task or column.task, column.metric))


def _filled(
    row: PaperRow, table: PaperTable, encoder: str, printed: Mapping[str, Published], measured: Measurements
) -> FilledRow:
    if row.published_only:
        return FilledRow(row, encoder, {name: PaperCell(number) for name, number in printed.items()}, 0, 0, None)
    mine = measured_cells(row, table, encoder, measured)
    cells = {name: _beside(number, mine.get(name)) for name, number in printed.items()}
    wanted = row.seeds or table.seeds
    counts = [mine[c.name].summary.n if c.name in mine else 0 for c in table.columns if not c.published_only]
    command = _command(row, table, encoder, wanted) if min(counts, default=0) < wanted else None
    older = measured.older(Place(row.variant, row.setting, encoder))
    return FilledRow(row, encoder, cells, max(counts, default=0), older, command)


def _beside(number: Published, cell: Cell | None) -> PaperCell:
    if cell is None:
        return PaperCell(number)
    summary = number.summary
    test = t_test_from_summaries(cell.summary, summary) if summary else None
    return PaperCell(number, cell, cell.summary.mean - number.value, test)


def _command(row: PaperRow, table: PaperTable, encoder: str, seeds: int) -> str:
    """What to type to fill a row; finished runs are not run again."""
    words = ["harness", "run", "--profile", PROFILE, "--methods", row.variant]
    if row.setting != UNTRAINED:
        words += ["--settings", row.setting]
    return shlex.join([*words, "--encoders", encoder, "--seeds", str(seeds), "--suites", ",".join(table.suites)])


def _notes(filled: FilledTable) -> Iterator[str]:
    table = filled.table
    yield (
        f"Printed numbers: {filled.paper.reference}, table {filled.name.removeprefix('T')}; measured: results of "
        f"profile {PROFILE} only, mean ± sample standard deviation over seeds."
    )
    if table.test:
        yield (
            f"Printed stars as in the paper. Measured rows: * better, † worse than the row they are compared with, "
            f"independent two-sample t-test at {table.test.alpha}, not corrected for the number of cells."
        )
    if any(cell.test for row in filled.rows for cell in row.cells.values()):
        yield (
            "p: t-test of measured against printed from means, standard deviations and numbers of seeds; the printed "
            "spread is taken as the sample form. A large p does not show that two numbers are equal."
        )
    if table.note:
        yield table.note
    older = sum(row.older for row in filled.rows)
    if older:
        yield f"{older} older or smaller {'group' if older == 1 else 'groups'} of runs with the same label left out."
