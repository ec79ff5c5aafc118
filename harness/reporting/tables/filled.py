"""The papers' tables filled with measured numbers.

Only runs of the project's own paper profile stand beside printed numbers. The runs of a profile with stand-ins for the
papers' settings, encoders and tasks fill tables of the same rows without printed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.command_line import harness_command
from harness.errors import UserError
from harness.metrics import Score
from harness.papers.published import PAPER_PROFILE, Paper, Published, PublishedNumbers, published_key
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.papers.standins import StandIns, TeacherOptions, teacher_options
from harness.profiles.schema import Profile
from harness.reporting.seeds.groups import Cell, beside_print, compare
from harness.reporting.seeds.measured import Measurements
from harness.reporting.tables.cells import FilledRow, FilledTable, PaperCell, corrected
from harness.spec import UNTRAINED, Place
from harness.stats import ALPHA

if TYPE_CHECKING:
    import pandas


def paper_tables(papers: Sequence[Paper], published: PublishedNumbers, frame: pandas.DataFrame) -> list[FilledTable]:
    """Fill all tables of the papers. Raises UserError for a row whose printed number is not in `published`."""
    source = _Source(Measurements.of(beside_print(frame), PAPER_PROFILE), StandIns())
    return [source.paper_table(paper, name, published) for paper in papers for name in paper.tables]


def stand_in_tables(
    papers: Sequence[Paper],
    frame: pandas.DataFrame,
    profiles: Sequence[Profile],
    options: TeacherOptions = teacher_options,
) -> list[FilledTable]:
    """Fill the tables from each profile with stand-ins, where every planned row with a stand-in has a run.

    No cell has a printed number. A table needs at least two rows with a stand-in.
    """
    found = []
    for profile in profiles:
        if profile.stands_for is not None and profile.name != PAPER_PROFILE:
            source = _Source(Measurements.of(frame, profile.name), StandIns.of(profile, options))
            found += [source.stand_in_table(paper, name) for paper in papers for name in paper.tables]
    return [table for table in found if len(table.rows) > 1 and all(row.seeds for row in table.planned_rows)]


@dataclass(frozen=True)
class _Source:
    """The measurements of one profile and its names for the papers' settings, encoders and tasks."""

    measured: Measurements
    names: StandIns

    def paper_table(self, paper: Paper, name: str, published: PublishedNumbers) -> FilledTable:
        table, blocks = paper.tables[name], []
        for encoder in table.encoders:
            rows = [
                self._row(row, table, encoder, _printed(paper, name, index, encoder, published))
                for index, row in table.rows_of(encoder)
            ]
            blocks.append((encoder, tuple(row for row in rows if row)))
        return FilledTable(paper, name, table, corrected(blocks, _alpha(table)), table.columns)

    def stand_in_table(self, paper: Paper, name: str) -> FilledTable:
        """Rows that share a stand-in are one row; quoted rows are kept if they were run."""
        table, blocks = paper.tables[name], []
        for encoder in table.encoders:
            rows: dict[Place, FilledRow] = {}
            for _, row in table.rows_of(encoder):
                filled = None if row.published_only else self._row(row, table, encoder, {})
                if filled and (row.planned or filled.seeds):
                    rows.setdefault(filled.place, filled)
            if rows:
                blocks.append((next(iter(rows)).encoder, tuple(rows.values())))
        used = {column for _, rows in blocks for row in rows for column in row.cells}
        columns = tuple(column for column in table.columns if column.name in used)
        return FilledTable(paper, name, table, corrected(blocks, _alpha(table)), columns, self.measured.profile)

    def _row(
        self, row: PaperRow, table: PaperTable, encoder: str, printed: Mapping[str, Published]
    ) -> FilledRow | None:
        """A filled row; None if it has no stand-in."""
        place = self.names.place(row.variant, row.setting, encoder)
        scores = {column.name: score for column in table.columns if (score := self.names.score(row, column))}
        if place is None or not scores:
            return None
        found = {} if row.published_only else self.measured.cells(place)
        against = self._against(row, table, encoder)
        cells = {}
        for column in table.columns:
            number, score = printed.get(column.name), scores.get(column.name)
            if number or score:
                cell = _tested(found, against, score, column, table) if score else None
                cells[column.name] = PaperCell.of(number, cell)
        counts = [found[score].summary.n if score in found else 0 for score in scores.values()]
        wanted = row.seeds or table.seeds
        suites = [name for name in table.suites if self.names.has_suite(name)]
        due = min(counts) < wanted and not row.published_only
        command = _command(place, wanted, suites, self.measured.profile) if due else None
        return FilledRow(row, place, cells, scores, max(counts), self.measured.older(place), command)

    def _against(self, row: PaperRow, table: PaperTable, encoder: str) -> Mapping[Score, Cell]:
        """The cells that the paper's own test compares a row with."""
        other = table.compared(row)
        place = self.names.place(other.variant, other.setting, encoder) if other else None
        return self.measured.cells(place) if place else {}


def _tested(
    found: Mapping[Score, Cell], against: Mapping[Score, Cell], score: Score, column: PaperColumn, table: PaperTable
) -> Cell | None:
    """A measured cell with the paper's own test, if it has one."""
    if score not in found or score not in against:
        return found.get(score)
    return compare(found[score], against[score], column.measure, _alpha(table))


def _alpha(table: PaperTable) -> float:
    """The level of the paper's own test."""
    return table.test.alpha if table.test else ALPHA


def _command(place: Place, seeds: int, suites: Sequence[str], profile: str) -> str:
    """The command that fills a row; finished runs are not repeated."""
    setting = None if place.setting == UNTRAINED else place.setting
    return harness_command(
        "run",
        profile=profile,
        methods=place.variant,
        settings=setting,
        encoders=place.encoder,
        seeds=seeds,
        suites=suites,
    )


def _printed(paper: Paper, name: str, index: int, encoder: str, published: PublishedNumbers) -> dict[str, Published]:
    """The printed numbers of a row by column."""
    table, numbers = paper.tables[name], {}
    for column in table.columns:
        key = published_key(paper.name, name, table.rows[index], encoder, column)
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; fix one of the two"
            )
        numbers[column.name] = published[key]
    return numbers
