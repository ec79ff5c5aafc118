"""A paper's table filled in: every printed number beside what the runs of profile `paper` gave."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.reporting.papers import Paper, PaperRow, PaperTable, Published, PublishedKey
from harness.reporting.summary import (
    UNTRAINED,
    Cell,
    Column,
    Group,
    Label,
    compare,
    group_runs,
    group_values,
    kept_groups,
)
from harness.stats import TTest, summarise, t_test_from_summaries

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
    measured: Cell | None
    difference: float | None
    test: TTest | None


@dataclass(frozen=True)
class FilledRow:
    """A row with its cells by task. `command` fills what is missing, None when nothing is."""

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
    return [
        FilledTable(paper, name, table, tuple(_blocks(paper, name, published, frame)))
        for paper in papers
        for name, table in paper.tables.items()
    ]


def _blocks(
    paper: Paper, name: str, published: Mapping[PublishedKey, Published], frame: pandas.DataFrame
) -> Iterator[tuple[str, tuple[FilledRow, ...]]]:
    table = paper.tables[name]
    part = frame[(frame["profile"] == PROFILE) & (frame["suite"] == table.suite) & (frame["overrides"] == "")]
    measured = _Measured(part, kept_groups(part), table)
    for encoder in table.encoders:
        rows = []
        for index, row in enumerate(table.rows):
            printed = _printed(paper, name, index, encoder, published)
            rows.append(_filled(row, table, encoder, printed, measured))
        yield encoder, tuple(rows)


@dataclass(frozen=True)
class _Measured:
    """The runs that may fill a table."""

    frame: pandas.DataFrame
    groups: Mapping[Label, Group]
    table: PaperTable

    def kept(self, variant: str, setting: str, encoder: str) -> Group | None:
        return self.groups.get(Label(PROFILE, variant, setting, encoder, ""))

    def cells(self, variant: str, setting: str, encoder: str) -> dict[str, Cell]:
        label = Label(PROFILE, variant, setting, encoder, "")
        kept = self.groups.get(label)
        if kept is None:
            return {}
        values = group_values(group_runs(self.frame, label, kept.group))
        columns = {task: Column(task, self.table.metric) for task in self.table.columns}
        return {
            task: Cell(tuple(values[column]), summarise(values[column]))
            for task, column in columns.items()
            if column in values
        }


def _printed(
    paper: Paper, name: str, index: int, encoder: str, published: Mapping[PublishedKey, Published]
) -> dict[str, Published]:
    table = paper.tables[name]
    row = table.rows[index]
    where, numbers = row.published, {}
    for task in table.columns:
        key = PublishedKey(
            paper.name, name, where.method, where.variant, encoder, row.setting, table.suite, task, where.source
        )
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; mend one of the two"
            )
        numbers[task] = published[key]
    return numbers


def _filled(
    row: PaperRow, table: PaperTable, encoder: str, printed: Mapping[str, Published], measured: _Measured
) -> FilledRow:
    if row.published_only:
        cells = {task: PaperCell(number, None, None, None) for task, number in printed.items()}
        return FilledRow(row, encoder, cells, 0, 0, None)
    mine = measured.cells(row.variant, row.setting, encoder)
    other = measured.cells(row.against, row.setting, encoder) if row.against else {}
    cells = {}
    for task, number in printed.items():
        cell = mine.get(task)
        if cell and task in other and table.test:
            cell = compare(cell, other[task], Column(task, table.metric), table.test.alpha)
        cells[task] = _beside(number, cell)
    wanted = row.seeds or table.seeds
    have = min((mine[task].summary.n if task in mine else 0 for task in table.columns), default=0)
    kept = measured.kept(row.variant, row.setting, encoder)
    command = _command(row, encoder, wanted) if have < wanted else None
    most = max((cell.summary.n for cell in mine.values()), default=0)
    return FilledRow(row, encoder, cells, most, kept.older if kept else 0, command)


def _beside(number: Published, cell: Cell | None) -> PaperCell:
    if cell is None:
        return PaperCell(number, None, None, None)
    summary = number.summary
    test = t_test_from_summaries(cell.summary, summary) if summary else None
    return PaperCell(number, cell, cell.summary.mean - number.value, test)


def _command(row: PaperRow, encoder: str, seeds: int) -> str:
    """What to type to fill a row; finished runs are not run again."""
    words = ["harness", "run", "--profile", PROFILE, "--methods", row.variant]
    if row.setting != UNTRAINED:
        words += ["--settings", row.setting]
    return shlex.join([*words, "--encoders", encoder, "--seeds", str(seeds)])


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
    older = sum(row.older for row in filled.rows)
    if older:
        yield f"{older} older or smaller {'group' if older == 1 else 'groups'} of runs with the same label left out."
