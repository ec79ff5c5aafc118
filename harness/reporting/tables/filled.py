"""The papers' tables filled with measured numbers.

Only runs of the project's own paper profile stand beside printed numbers. The runs of a profile
with stand-ins for the papers' settings, encoders and tasks fill tables of the same rows without
printed numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from harness.papers.schema import (
    WITH_EVERY_RUN,
    Definition,
    PaperColumn,
    PaperRow,
    PaperTable,
)
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.seeds.cells import Cell, Label, Row, compare, list_training_differences
from harness.reporting.seeds.choose import group_rows, select_profile_runs
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


def fill_paper_tables(
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

    filler = _Filler(
        profile=profile,
        names=StandIns.of(profile),
        rows=_make_rows(papers, results, profile),
        commands=commands,
        published=read_published() if is_paper else None,
        margin=(margin or DEFAULT_MARGIN) if is_paper else None,
    )
    tables = [filler.fill(paper, name) for paper in papers for name in paper.tables]
    if is_paper:
        return tables
    return [table for table in tables if _has_enough_rows(table, partly=partly)]


def _has_enough_rows(table: FilledTable, *, partly: bool) -> bool:
    """Whether a table of stand-ins has rows to compare, each planned one with a run unless
    `partly`.
    """
    if len(table.rows) < 2 or not table.is_measured:
        return False
    return partly or all(row.is_measured for row in table.planned_rows)


def fill_tables(
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

    papers = []
    for paper in read_papers():
        tables = {name: table.add_rows(variants) for name, table in paper.tables.items()}
        papers.append(paper.model_copy(update={"tables": tables}))
    own_profile = load_profile(profile)
    return fill_paper_tables(
        own_profile, papers, results, commands, margin=margin, partly=bool(variants)
    )


def _make_rows(
    papers: Sequence[Paper], results: Sequence[Result], profile: Profile
) -> Mapping[Label, SuiteRows]:
    """The rows of a profile's runs, with the parts of tasks that papers define and the numbers of
    every run.
    """
    frames = select_profile_runs(frames_of(results), profile.name)
    parts = set()
    for paper in papers:
        for table in paper.tables.values():
            parts |= {definition.part for definition in table.definitions}

    scores_of_parts = frames.parts[frames.parts["part"].isin(parts)]
    values = {suite: frames.runs[name].tolist() for suite, name in _COLUMNS.items()}
    rows: dict[Label, SuiteRows] = {}
    for label, rows_by_suite in group_rows(frames, frames.scores, scores_of_parts).items():
        rows[label] = {**rows_by_suite, **_make_rows_of_every_run(rows_by_suite, values)}
    return rows


def _make_rows_of_every_run(rows: SuiteRows, values: Mapping[str, Sequence[float]]) -> SuiteRows:
    """Rows for the dev score and the minutes of the runs in the suite with the most seeds."""
    row = max(rows.values(), key=lambda row: len(row.seeds))

    rows_of_every_run = {}
    for suite, value_by_run in values.items():
        by_seed = {}
        for seed, run in zip(row.seeds, row.runs, strict=True):
            if not isnan(value_by_run[run]):
                by_seed[seed] = value_by_run[run]
        if by_seed:
            column = WITH_EVERY_RUN[suite][0]
            cells = {column: Cell.of(by_seed)}
            rows_of_every_run[suite] = replace(row, suite=suite, cells=cells, parts={})
    return rows_of_every_run


def _find_cell(rows: SuiteRows, score: Score | None, part: str) -> Cell | None:
    if score is None or score.suite not in rows:
        return None
    return rows[score.suite].cell(score.column, part)


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
        labels_by_row = {}
        for key, places in find_released_places(self.profile).items():
            labels_by_row[key] = [Label(self.profile.name, *place, "") for place in places]
        return labels_by_row

    def fill(self, paper: Paper, name: str) -> FilledTable:
        """Fill a table. Without print, rows of one label are one row, and quoted ones are kept if
        they were run.
        """
        table = paper.tables[name]
        blocks: list[EncoderRows] = []
        for encoder in table.encoders:
            rows = self._fill_rows(paper, name, encoder)
            if rows:
                blocks.append((rows[0].own.label.encoder, tuple(rows)))
        rows = [row for _, rows_of_block in blocks for row in rows_of_block]

        lines = [line for row in rows for line in row.lines]
        correct_tests(lines, table.alpha)
        correct_verdicts(lines)
        correct_verdicts([line for row in rows for line in row.released])

        used = set()
        for row in rows:
            for column_name, cell in row.own.cells.items():
                if cell.published or cell.score:
                    used.add(column_name)
        return FilledTable(
            paper=paper,
            name=name,
            table=table,
            blocks=tuple(blocks),
            columns=tuple(column for column in table.columns if column.name in used),
            profile=self.profile.name,
            command=self._make_run_command(f"{paper.name}:{name}", lines),
            released=self._make_released_command(paper, name),
        )

    def _fill_rows(self, paper: Paper, name: str, encoder: str) -> list[FilledRow]:
        """The rows of a table with an encoder."""
        rows: dict[object, FilledRow] = {}
        for index, row in paper.tables[name].select_rows(encoder):
            filled = self._fill_row(paper, name, index, encoder)
            if filled is None:
                continue

            is_run = filled.is_measured and not row.published_only
            if self.published is not None:
                rows[index] = filled
            elif row.planned or is_run:
                rows.setdefault(filled.own.label, filled)
        return list(rows.values())

    def _make_run_command(self, table: str, lines: Sequence[FilledLine]) -> str | None:
        """The command that runs what is due in a table's rows, in their own reading or in others
        that were run.
        """
        due = {line.origin.reading for line in lines if line.due}
        if not due:
            return None
        other_readings = sorted(reading for reading in due if reading)
        readings = [DEFAULT_READING, *other_readings] if other_readings else None
        return self.commands.run(profile=self.profile.name, table=table, readings=readings)

    def _make_released_command(self, paper: Paper, name: str) -> str | None:
        """The command that evaluates the table's public weights; None if all have every score, or
        there are none.
        """
        table = f"{paper.name}:{name}"
        suites = {suite for suite in paper.tables[name].suites if self.names.has_suite(suite)}

        for key, labels in self.released.items():
            if key.table != table:
                continue
            if not all(suites <= self.rows.get(label, {}).keys() for label in labels):
                return self.commands.run("--released", profile=self.profile.name, table=table)
        return None

    def _fill_row(self, paper: Paper, name: str, index: int, encoder: str) -> FilledRow | None:
        """A filled row of the table `name`; None if it has no stand-in."""
        table = paper.tables[name]
        row = table.rows[index]
        printed: dict[str, Published] = {}
        if self.published is not None:
            printed = _find_printed(paper, name, index, encoder, self.published)

        label = self._name_runs(row, encoder)
        compared_row = table.find_compared(row)
        if label is None:
            return None
        scores = [self.names.score(row, column, label.setting) for column in table.columns]
        if not any(scores):
            return None

        fill = partial(self._fill_lines, table, row, printed)
        lines = fill(label, self._name_runs(compared_row, encoder))
        for reading in () if row.published_only else self.readings:
            label_in_reading = self._name_runs(row, encoder, reading)
            if label_in_reading and label_in_reading != label and label_in_reading in self.rows:
                lines += fill(
                    label_in_reading, self._name_runs(compared_row, encoder, reading), reading
                )

        released = []
        for weights in self.released.get(RowKey.of(paper.name, name, row, encoder), ()):
            filled_lines = fill(weights, trained_in=label.setting)
            released += [line for line in filled_lines if line.seeds]
        return FilledRow(row, tuple(lines), tuple(released))

    def _name_runs(
        self, row: PaperRow | None, encoder: str, reading: str = DEFAULT_READING
    ) -> Label | None:
        """What a row's runs are called in a reading; None without a row or a stand-in."""
        if row is None:
            return None
        variant = Variant.parse(row.variant).read_as(reading)
        place = self.names.place(str(variant), row.setting, encoder)
        return Label(self.profile.name, *place, "") if place else None

    def _fill_lines(
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
        all_rows = self.rows.get(label, {})
        # a row that the paper quotes is not run; its public weights may be
        is_quoted = row.published_only and not trained_in
        rows = {} if is_quoted else all_rows
        other_rows = self.rows.get(against, {}) if against else {}
        apart = list_training_differences(_get_training(rows), _get_training(other_rows))

        lines = list[FilledLine]()
        for definition in table.list_definitions(row):
            is_first = not lines
            cells = {}
            for column in table.columns:
                score = self.names.score(row, column, trained_in or label.setting)
                score = _score_by(definition, column, score, is_first=is_first)
                is_compared = is_first or definition.compared
                cells[column.name] = PaperCell(
                    printed.get(column.name) if is_compared else None,
                    _compare_cells(rows, other_rows, score, definition.part, column, table.alpha),
                    self.margin if column.points else None,
                    score,
                )

            is_due = is_first and row.planned and not trained_in
            if is_due:
                is_due = _count_fewest_seeds(cells.values()) < (row.seeds or table.seeds)
            origin = LineOrigin(reading, definition.label)
            line = FilledLine(
                label, origin, all_rows, cells, definition.part, against, apart, is_due
            )
            if is_first or line.seeds:
                lines.append(line)
        return lines


def _score_by(
    definition: Definition, column: PaperColumn, score: Score | None, *, is_first: bool
) -> Score | None:
    """The score of a column by a definition; None where it says nothing of the column."""
    if score is None:
        return None
    has_column = not definition.metrics or column.name in definition.metrics
    if not is_first and not has_column:
        return None
    return score._replace(metric=definition.metrics.get(column.name, score.metric))


def _compare_cells(
    rows: SuiteRows,
    other_rows: SuiteRows,
    score: Score | None,
    part: str,
    column: PaperColumn,
    alpha: float,
) -> Cell | None:
    """The measured cell of a score, tested as the paper does against that of other rows, if they
    have one.
    """
    cell = _find_cell(rows, score, part)
    compared_cell = _find_cell(other_rows, score, part)
    if cell is None or compared_cell is None:
        return cell
    # a paper's own test is independent; all that name one mean the pooled one
    return compare(cell, compared_cell, column.measure, alpha, equal_variance=True)


def _count_fewest_seeds(cells: Iterable[PaperCell]) -> int:
    """The fewest seeds of the cells that runs can fill."""
    scored = [cell for cell in cells if cell.score]
    return min(cell.measured.summary.n if cell.measured else 0 for cell in scored)


def _get_training(rows: SuiteRows) -> Mapping[str, str]:
    """The values of the training of a label's runs; none without runs."""
    for row in rows.values():
        return row.training
    return {}


def _find_printed(
    paper: Paper, name: str, index: int, encoder: str, published: PublishedNumbers
) -> dict[str, Published]:
    """The printed numbers of a row, by column. Raises UserError for one that is not in
    published.csv.
    """
    row = paper.tables[name].rows[index]
    if not row.published:
        return {}

    numbers = {}
    for column in paper.tables[name].columns:
        key = make_published_key(paper.name, name, row, encoder, column)
        if key not in published:
            raise UserError(
                f"the paper file {paper.name}.toml, table [tables.{name}.rows.{index}], key 'published': "
                f"published.csv has no line {','.join(key)}; fix one of the two"
            )
        numbers[column.name] = published[key]
    return numbers
