"""The papers' tables filled with measured numbers.

Only runs of the project's own paper profile stand beside printed numbers. The runs of a profile
with stand-ins for the papers' settings, encoders and tasks fill tables of the same rows without
printed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isnan

from harness.command_line import DEFAULT_MARGIN
from harness.commands import DEFAULT_COMMANDS, Commands
from harness.errors import UserError
from harness.metrics import Score
from harness.papers.needed import RowKey, StandIns, find_released_places
from harness.papers.published import (
    PAPER_PROFILE,
    Paper,
    Published,
    PublishedNumbers,
    make_published_key,
    read_papers,
    read_published,
)
from harness.papers.schema import WITH_EVERY_RUN, PaperRow, PaperTable
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.seeds.cells import Cell, Label, Row, compare, trained_apart
from harness.reporting.seeds.choose import profile_runs, rows_by_label
from harness.reporting.tables.cells import (
    EncoderRows,
    FilledLine,
    FilledRow,
    FilledTable,
    LineOrigin,
    PaperCell,
    correct_tests,
    correct_verdicts,
)
from harness.spec import DEFAULT_READING, Variant
from harness.store import Result, frames_of

#: suite of the numbers that come with every run -> their column in the frame
_COLUMNS = {"dev": "dev", "cost": "minutes"}
#: the rows of the runs of a label, by suite
SuiteRows = Mapping[str, Row]


def tables_of(
    profile: Profile,
    papers: Sequence[Paper],
    results: Sequence[Result],
    commands: Commands = DEFAULT_COMMANDS,
    *,
    margin: float | None = None,
    partly: bool = False,
) -> list[FilledTable]:
    """Fill all tables of the papers by the runs of the paper profile, or those with stand-ins by
    another one's.

    Only the first have printed numbers; `margin`, in points, is that of their verdicts, by default
    1. The others are there if they have at least two rows with a stand-in, and a run in each
    planned one, or in any if `partly`. Raises UserError for a row whose printed number is not in
    published.csv.
    """
    is_paper = profile.name == PAPER_PROFILE
    if not (is_paper or profile.stands_for):
        return []
    beside = (read_published(), margin or DEFAULT_MARGIN) if is_paper else (None, None)
    filler = _Filler(
        profile, StandIns.of(profile), _rows(papers, results, profile), commands, *beside
    )
    tables = [filler.table(paper, name) for paper in papers for name in paper.tables]
    if is_paper:
        return tables
    tables = [table for table in tables if len(table.rows) > 1 and table.is_measured]
    return [
        table for table in tables if partly or all(row.is_measured for row in table.planned_rows)
    ]


def filled_tables(
    profile: str,
    results: Sequence[Result],
    commands: Commands = DEFAULT_COMMANDS,
    variants: Sequence[str] = (),
    margin: float | None = None,
) -> list[FilledTable]:
    """Fill the papers' tables by one profile's results; rows of the given `variants`, if any, are
    added to them.
    """
    if profile not in shipped_profiles():
        return []
    papers = [
        paper.model_copy(
            update={
                "tables": {name: each.add_rows(variants) for name, each in paper.tables.items()}
            }
        )
        for paper in read_papers()
    ]
    return tables_of(
        load_profile(profile), papers, results, commands, margin=margin, partly=bool(variants)
    )


def _rows(
    papers: Sequence[Paper], results: Sequence[Result], profile: Profile
) -> Mapping[Label, SuiteRows]:
    """The rows of a profile's runs, with the parts of tasks that papers define and the numbers of
    every run.
    """
    frames = profile_runs(frames_of(results), profile.name)
    tables = (table for paper in papers for table in paper.tables.values())
    wanted = {definition.part for table in tables for definition in table.definitions}
    rows = rows_by_label(frames, frames.scores, frames.parts[frames.parts["part"].isin(wanted)])
    values = {suite: frames.runs[name].tolist() for suite, name in _COLUMNS.items()}
    return {label: {**some, **_of_every_run(some, values)} for label, some in rows.items()}


def _of_every_run(rows: SuiteRows, values: Mapping[str, Sequence[float]]) -> SuiteRows:
    """Rows for the dev score and the minutes of the runs in the suite with the most seeds."""
    row = max(rows.values(), key=lambda row: len(row.seeds))
    found = {}
    for suite, of_run in values.items():
        by_seed = {
            seed: of_run[run]
            for seed, run in zip(row.seeds, row.runs, strict=True)
            if not isnan(of_run[run])
        }
        if by_seed:
            found[suite] = replace(
                row, suite=suite, cells={WITH_EVERY_RUN[suite][0]: Cell.of(by_seed)}, parts={}
            )
    return found


def _cell(rows: SuiteRows, score: Score | None, part: str) -> Cell | None:
    return rows[score.suite].cell(score.column, part) if score and score.suite in rows else None


@dataclass(frozen=True)
class _Filler:
    """Fills tables with the runs of a profile. `names` translates the papers' names into the
    profile's.

    The paper profile alone has `published` numbers, and a `margin` of their verdicts.
    """

    profile: Profile
    names: StandIns
    rows: Mapping[Label, SuiteRows]
    commands: Commands
    published: PublishedNumbers | None = None
    margin: float | None = None

    @cached_property
    def readings(self) -> Sequence[str]:
        """The readings of all runs, except the default one."""
        return sorted({label.reading for label in self.rows} - {DEFAULT_READING})

    @cached_property
    def released(self) -> Mapping[RowKey, Sequence[Label]]:
        """The labels of public weights by the rows that they should reproduce."""
        places = find_released_places(self.profile).items()
        return {
            key: [Label(self.profile.name, *place, "") for place in some] for key, some in places
        }

    def table(self, paper: Paper, name: str) -> FilledTable:
        """Fill a table. Without print, rows of one label are one row, and quoted ones are kept if
        they were run.
        """
        table = paper.tables[name]
        blocks: list[EncoderRows] = []
        for encoder in table.encoders:
            rows: dict[object, FilledRow] = {}
            for index, row in table.select_rows(encoder):
                filled = self._row(paper, name, index, encoder)
                if filled and self.published is not None:
                    rows[index] = filled
                elif filled and (row.planned or (filled.is_measured and not row.published_only)):
                    rows.setdefault(filled.own.label, filled)
            if rows:
                blocks.append((next(iter(rows.values())).own.label.encoder, tuple(rows.values())))
        every = [row for _, rows in blocks for row in rows]
        lines = [line for row in every for line in row.lines]
        correct_tests(lines, table.alpha)
        correct_verdicts(lines)
        correct_verdicts([line for row in every for line in row.released])
        own = [(column, cell) for row in every for column, cell in row.own.cells.items()]
        used = {column for column, cell in own if cell.published or cell.score}
        columns = tuple(column for column in table.columns if column.name in used)
        commands = self._missing(f"{paper.name}:{name}", lines), self._released(paper, name)
        return FilledTable(paper, name, table, tuple(blocks), columns, self.profile.name, *commands)

    def _missing(self, table: str, lines: Sequence[FilledLine]) -> str | None:
        """The command that runs what is due in a table's rows, in their own reading or in others
        that were run.
        """
        due = {line.origin.reading for line in lines if line.due}
        readings = [DEFAULT_READING, *sorted(filter(None, due))] if any(due) else None
        return (
            self.commands.run(profile=self.profile.name, table=table, readings=readings)
            if due
            else None
        )

    def _released(self, paper: Paper, name: str) -> str | None:
        """The command that evaluates the table's public weights; None if all have every score, or
        there are none.
        """
        table = f"{paper.name}:{name}"
        mine = set(filter(self.names.has_suite, paper.tables[name].suites))
        labels = [
            label for key, some in self.released.items() if key.table == table for label in some
        ]
        if all(mine <= self.rows.get(label, {}).keys() for label in labels):
            return None
        return self.commands.run("--released", profile=self.profile.name, table=table)

    def _row(self, paper: Paper, name: str, index: int, encoder: str) -> FilledRow | None:
        """A filled row of the table `name`; None if it has no stand-in."""
        table = paper.tables[name]
        row = paper.tables[name].rows[index]
        printed = (
            _printed(paper, name, index, encoder, self.published)
            if self.published is not None
            else {}
        )
        label = self._label(row, encoder)
        other = table.find_compared(row)
        if label is None or not any(
            self.names.score(row, column, label.setting) for column in table.columns
        ):
            return None
        fill = partial(self._lines, table, row, printed)
        lines = fill(label, self._label(other, encoder))
        for reading in () if row.published_only else self.readings:
            there = self._label(row, encoder, reading)
            if there and there != label and there in self.rows:
                lines += fill(there, self._label(other, encoder, reading), reading)
        public = self.released.get(RowKey.of(paper.name, name, row, encoder), ())
        weights = (line for weights in public for line in fill(weights, trained_in=label.setting))
        return FilledRow(row, tuple(lines), tuple(line for line in weights if line.seeds))

    def _label(
        self, row: PaperRow | None, encoder: str, reading: str = DEFAULT_READING
    ) -> Label | None:
        """What a row's runs are called in a reading; None without a row or a stand-in."""
        place = row and self.names.place(
            str(Variant.parse(row.variant).read_as(reading)), row.setting, encoder
        )
        return Label(self.profile.name, *place, "") if place else None

    def _lines(
        self,
        table: PaperTable,
        row: PaperRow,
        printed: Mapping[str, Published],
        label: Label,
        against: Label | None = None,
        reading: str = "",
        trained_in: str = "",
    ) -> list[FilledLine]:
        """The lines of the runs of a label by each definition: the first, and any others with
        numbers.

        Public weights were `trained_in` a setting, which decides the tasks that fit; they lack no
        seeds.
        """
        rows = self.rows.get(label, {})
        mine = {} if row.published_only and not trained_in else rows
        theirs = self.rows.get(against, {}) if against else {}
        apart = trained_apart(*map(_training, (mine, theirs)))
        lines = list[FilledLine]()
        for definition in table.list_definitions(row):
            own = not lines
            cells = {}
            for column in table.columns:
                score = self.names.score(row, column, trained_in or label.setting)
                named = own or not definition.metrics or column.name in definition.metrics
                if score:
                    metric = definition.metrics.get(column.name, score.metric)
                    score = score._replace(metric=metric) if named else None
                measured, other = (_cell(some, score, definition.part) for some in (mine, theirs))
                if measured and other:
                    # a paper's own test is independent; all that name one mean the pooled one
                    measured = compare(
                        measured, other, column.measure, table.alpha, equal_variance=True
                    )
                shown = printed.get(column.name) if own or definition.compared else None
                cells[column.name] = PaperCell(
                    shown, measured, self.margin if column.points else None, score
                )
            counts = [
                cell.measured.summary.n if cell.measured else 0
                for cell in cells.values()
                if cell.score
            ]
            due = (
                own and row.planned and not trained_in and min(counts) < (row.seeds or table.seeds)
            )
            origin = LineOrigin(reading, definition.label)
            lines.append(
                FilledLine(label, origin, rows, cells, definition.part, against, apart, due)
            )
        return [line for line in lines if line is lines[0] or line.seeds]


def _training(rows: SuiteRows) -> Mapping[str, str]:
    """The values of the training of a label's runs; none without runs."""
    return next((row.training for row in rows.values()), {})


def _printed(
    paper: Paper, name: str, index: int, encoder: str, published: PublishedNumbers
) -> dict[str, Published]:
    table = paper.tables[name]
    numbers = {}
    for column in table.columns:
        if not table.rows[index].published:
            continue
        key = make_published_key(paper.name, name, table.rows[index], encoder, column)
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; fix one of the two"
            )
        numbers[column.name] = published[key]
    return numbers
