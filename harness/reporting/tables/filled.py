"""The papers' tables filled with measured numbers.

Only runs of the project's own paper profile stand beside printed numbers. The runs of a profile with stand-ins for the
papers' settings, encoders and tasks fill tables of the same rows without printed numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import NamedTuple

from harness.command_line import DEFAULT_MARGIN
from harness.commands import DEFAULT_COMMANDS, Commands
from harness.errors import UserError
from harness.metrics import Score
from harness.papers.needed import RowKey, StandIns, TeacherOptions, released_places, teacher_options
from harness.papers.published import (
    PAPER_PROFILE,
    Paper,
    Published,
    PublishedNumbers,
    published_key,
    read_papers,
    read_published,
)
from harness.papers.schema import WITH_EVERY_RUN, Definition, PaperColumn, PaperRow, PaperTable
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.seeds.cells import Cell, Row, compare, trained_apart
from harness.reporting.seeds.choose import by_place, chosen, profile_runs, rows_of
from harness.reporting.tables.cells import (
    EncoderRows,
    Family,
    FilledLine,
    FilledRow,
    FilledTable,
    PaperCell,
    correct_tests,
)
from harness.spec import DEFAULT_READING, Place, Variant
from harness.stats import ALPHA
from harness.store import Frames, Result, frames_of

#: suite of the numbers that come with every run -> their column in the frame
_COLUMNS = {"dev": "dev", "cost": "minutes"}


def paper_tables(
    papers: Sequence[Paper],
    published: PublishedNumbers,
    results: Sequence[Result],
    margin: float = DEFAULT_MARGIN,
    commands: Commands = DEFAULT_COMMANDS,
) -> list[FilledTable]:
    """Fill all tables of the papers; `margin`, in points, is that of their verdicts.

    Raises UserError for a row whose printed number is not in `published`.
    """
    profile = load_profile(PAPER_PROFILE)
    filler = _Filler(profile, StandIns.of(profile), *_runs(papers, results, profile), margin, commands)
    return [filler.paper_table(paper, name, published) for paper in papers for name in paper.tables]


def stand_in_tables(
    papers: Sequence[Paper],
    results: Sequence[Result],
    profiles: Sequence[Profile],
    options: TeacherOptions = teacher_options,
    commands: Commands = DEFAULT_COMMANDS,
    variants: Sequence[str] = (),
) -> list[FilledTable]:
    """Fill the tables from each profile with stand-ins, where every planned row with a stand-in has a run.

    With `variants`, which are all that is shown, one row with a run suffices. No cell has a printed number. A table
    needs at least two rows with a stand-in.
    """
    tables = []
    for profile in profiles:
        if profile.stands_for is not None and profile.name != PAPER_PROFILE:
            filler = _Filler(profile, StandIns.of(profile, options), *_runs(papers, results, profile), None, commands)
            tables += [filler.stand_in_table(paper, name) for paper in papers for name in paper.tables]
    tables = [table for table in tables if len(table.rows) > 1 and table.is_measured]
    return [table for table in tables if variants or all(row.is_measured for row in table.planned_rows)]


def filled_tables(
    profile: str, results: Sequence[Result], commands: Commands = DEFAULT_COMMANDS, variants: Sequence[str] = ()
) -> list[FilledTable]:
    """Fill the papers' tables by one profile's results; rows of the given `variants`, if any, are added to them."""
    papers = [
        paper.model_copy(update={"tables": {name: each.with_rows_of(variants) for name, each in paper.tables.items()}})
        for paper in read_papers()
    ]
    shipped = [load_profile(profile)] if profile in shipped_profiles() else []
    filled = [
        *paper_tables(papers, read_published(), results, commands=commands),
        *stand_in_tables(papers, results, shipped, commands=commands, variants=variants),
    ]
    return [table for table in filled if table.profile == profile]


def _runs(
    papers: Sequence[Paper], results: Sequence[Result], profile: Profile
) -> tuple[Frames, Mapping[Place, Mapping[str, Row]]]:
    """The runs of a profile, and their rows by place and suite, with the parts of tasks that papers define."""
    frames = profile_runs(frames_of(results), profile.name)
    tables = [(table, row) for paper in papers for table in paper.tables.values() for row in table.rows]
    wanted = {definition.part for table, row in tables for definition in table.definitions_of(row)}
    scores = frames.scores, frames.parts[frames.parts["part"].isin(wanted)]
    return frames, by_place(rows_of(frames, chosen(frames, *scores), *scores))


class _Side(NamedTuple):
    """The place of a row's runs in one `reading`, "" for its own, and of the `rival` runs they are tested against.

    Runs of `public` weights have no reading and no rival; `setting` is the one they were trained in, which decides the
    tasks that fit.
    """

    reading: str
    place: Place
    rival: Place | None = None
    public: bool = False
    setting: str = ""


@dataclass(frozen=True)
class _Filler:
    """Fills tables with a profile's runs by place and suite. `names` translates the papers' names into the profile's.

    Cells are computed when they are first needed.
    """

    profile: Profile
    names: StandIns
    frames: Frames
    rows: Mapping[Place, Mapping[str, Row]]
    margin: float | None
    commands: Commands
    _cells: dict[tuple[Place, str], Mapping[Score, Cell]] = field(default_factory=dict)

    @cached_property
    def readings(self) -> Sequence[str]:
        """The readings of all runs, except the default one."""
        return sorted({Variant.parse(place.variant).reading for place in self.rows} - {DEFAULT_READING})

    @cached_property
    def released(self) -> Mapping[RowKey, Sequence[Place]]:
        return released_places(self.profile)

    def cells(self, place: Place, part: str = "") -> Mapping[Score, Cell]:
        """The scores over seeds of a place, of one part of each task or of whole tasks; none if it was not run."""
        if (place, part) not in self._cells:
            rows = self.rows.get(place, {})
            scores = {
                Score(suite, *column): cell for suite, row in rows.items() for column, cell in row.of_part(part).items()
            }
            self._cells[place, part] = scores if part else scores | _with_every_run(self.frames, list(rows.values()))
        return self._cells[place, part]

    def training(self, place: Place) -> Mapping[str, str]:
        """The values of the training of a place's runs; none if it was not run."""
        return next((row.training for row in self.rows.get(place, {}).values()), {})

    def paper_table(self, paper: Paper, name: str, published: PublishedNumbers) -> FilledTable:
        table, blocks = paper.tables[name], []
        for encoder in table.encoders:
            rows = [
                self._row(row, paper, name, encoder, _printed(paper, name, index, encoder, published))
                for index, row in table.rows_of(encoder)
            ]
            blocks.append((encoder, tuple(row for row in rows if row)))
        return self._table(paper, name, tuple(blocks), table.columns)

    def stand_in_table(self, paper: Paper, name: str) -> FilledTable:
        """Rows that share a stand-in are one row; quoted rows are kept if they were run."""
        table = paper.tables[name]
        blocks: list[EncoderRows] = []
        for encoder in table.encoders:
            rows: dict[Place, FilledRow] = {}
            for _, row in table.rows_of(encoder):
                filled = None if row.published_only else self._row(row, paper, name, encoder, {})
                if filled and (row.planned or filled.is_measured):
                    rows.setdefault(filled.own.place, filled)
            if rows:
                blocks.append((next(iter(rows)).encoder, tuple(rows.values())))
        used = {column for _, rows in blocks for row in rows for column in row.own.cells}
        columns = tuple(column for column in table.columns if column.name in used)
        return self._table(paper, name, tuple(blocks), columns)

    def _table(
        self, paper: Paper, name: str, blocks: tuple[EncoderRows, ...], columns: tuple[PaperColumn, ...]
    ) -> FilledTable:
        table, missing = paper.tables[name], self._missing(f"{paper.name}:{name}", blocks)
        correct_tests(blocks, _alpha(table))
        return FilledTable(paper, name, table, blocks, columns, missing, self.profile.name, self._released(paper, name))

    def _missing(self, table: str, blocks: tuple[EncoderRows, ...]) -> str | None:
        """The command that runs what is due in a table's rows, in their own reading or in others that were run."""
        due = {line.family.reading for _, rows in blocks for row in rows for line in row.lines if line.due}
        readings = [DEFAULT_READING, *sorted(filter(None, due))] if any(due) else None
        return self.commands.run(profile=self.profile.name, table=table, readings=readings) if due else None

    def _released(self, paper: Paper, name: str) -> str | None:
        """The command that evaluates the table's public weights; None if all have every score, or there are none."""
        table, mine = f"{paper.name}:{name}", set(filter(self.names.has_suite, paper.tables[name].suites))
        places = {place for key, some in self.released.items() if key.table == table for place in some}
        if all(mine <= self.rows.get(place, {}).keys() for place in places):
            return None
        return self.commands.run("--released", profile=self.profile.name, table=table)

    def _row(
        self, row: PaperRow, paper: Paper, name: str, encoder: str, printed: Mapping[str, Published]
    ) -> FilledRow | None:
        """A filled row of the table `name`; None if it has no stand-in."""
        table = paper.tables[name]
        place, definitions = self._place(row, encoder), table.definitions_of(row)
        if place is None or not self._scores(row, table, definitions[0], place.setting):
            return None
        lines = []
        for side in self._sides(row, table, encoder, place):
            own = [self._line(row, table, side, definition, printed) for definition in definitions]
            lines += [own[0], *(line for line in own[1:] if line.seeds)]
        public = self.released.get(RowKey.of(paper.name, name, row, encoder), ())
        sides = (_Side("", there, public=True, setting=place.setting) for there in public)
        weights = (self._line(row, table, side, definition, printed) for side in sides for definition in definitions)
        return FilledRow(row, tuple(lines), tuple(line for line in weights if line.seeds))

    def _sides(self, row: PaperRow, table: PaperTable, encoder: str, own: Place) -> Iterator[_Side]:
        """A row's own runs, then those of each other reading."""
        other = table.compared(row)
        yield _Side("", own, self._place(other, encoder) if other else None)
        for reading in () if row.published_only else self.readings:
            there = self._place(row, encoder, reading)
            if there and there != own and there in self.rows:
                yield _Side(reading, there, self._place(other, encoder, reading) if other else None)

    def _place(self, row: PaperRow, encoder: str, reading: str = DEFAULT_READING) -> Place | None:
        """Where a row is run in a reading; None if it has no stand-in."""
        return self.names.place(str(Variant.parse(row.variant).read_as(reading)), row.setting, encoder)

    def _scores(self, row: PaperRow, table: PaperTable, definition: Definition, setting: str) -> dict[str, Score]:
        """The scores of runs of a setting that fill a row, by column."""
        scores = {column.name: self.names.score(row, column, setting) for column in table.columns}
        named = {name: score for name, score in scores.items() if score}
        return {
            name: score._replace(metric=definition.metrics.get(name, score.metric)) for name, score in named.items()
        }

    def _line(
        self, row: PaperRow, table: PaperTable, side: _Side, definition: Definition, printed: Mapping[str, Published]
    ) -> FilledLine:
        """The cells of a row by one definition, tested against those of its rival."""
        place, rival = side.place, side.rival
        scores = self._scores(row, table, definition, side.setting or place.setting)
        own = definition == table.definitions_of(row)[0]
        empty = row.published_only and not side.public
        of_score = {} if empty else self.cells(place, definition.part)
        against = self.cells(rival, definition.part) if rival else {}
        cells = {}
        for column in table.columns:
            number, score = printed.get(column.name), scores.get(column.name)
            cell = of_score.get(score) if score else None
            if score and cell and score in against:
                cell = compare(cell, against[score], column.measure, _alpha(table))
            if number or score or self.margin is not None:
                shown = number if own or definition.compared else None
                cells[column.name] = PaperCell(shown, cell, margin=self.margin if column.points else None)
        counts = [of_score[score].summary.n if score in of_score else 0 for score in scores.values()]
        due = own and row.planned and not side.public and min(counts) < (row.seeds or table.seeds)
        return FilledLine(
            reading=Variant.parse(place.variant).reading,
            family=Family(side.reading, definition.label),
            place=place,
            cells=cells,
            scores=scores,
            part=definition.part,
            seeds=max(counts),
            freshness=tuple(each.freshness for each in self.rows.get(place, {}).values()) if own else (),
            against=rival.variant if rival else None,
            apart=trained_apart(self.training(place), self.training(rival)) if rival else "",
            due=due,
        )


def _with_every_run(frames: Frames, rows: Sequence[Row]) -> dict[Score, Cell]:
    """Dev score and minutes of the runs in the suite with the most seeds."""
    if not rows:
        return {}
    row = max(rows, key=lambda row: len(row.seeds))
    of_runs = {suite: frames.runs[name].iloc[[*row.runs]].tolist() for suite, name in _COLUMNS.items()}
    values = {
        suite: {seed: value for seed, value in zip(row.seeds, numbers, strict=True) if not isnan(value)}
        for suite, numbers in of_runs.items()
    }
    return {Score(suite, *WITH_EVERY_RUN[suite][0]): Cell.of(numbers) for suite, numbers in values.items() if numbers}


def _alpha(table: PaperTable) -> float:
    return table.test.alpha if table.test else ALPHA


def _printed(paper: Paper, name: str, index: int, encoder: str, published: PublishedNumbers) -> dict[str, Published]:
    table, numbers = paper.tables[name], {}
    for column in table.columns:
        if not table.rows[index].published:
            continue
        key = published_key(paper.name, name, table.rows[index], encoder, column)
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; fix one of the two"
            )
        numbers[column.name] = published[key]
    return numbers
