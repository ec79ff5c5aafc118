"""The papers' tables and figures, printed and measured, and their tables of nearest sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from harness.command_line import DEFAULT_MARGIN
from harness.formatting import count_of, fixed
from harness.metrics import ArrayName, Column, Score
from harness.papers.needed import StandIns
from harness.papers.published import PAPER_PROFILE, Paper, Published
from harness.papers.schema import NeighbourTable, PaperColumn, list_pairs
from harness.profiles import Profile, load_profile
from harness.reporting.contents import Contents
from harness.reporting.csvfiles import CsvFields, make_measured_fields
from harness.reporting.figures.drawn import Material, ReportFigure
from harness.reporting.pages import Pages
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import group_rows, select_profile_runs
from harness.reporting.seeds.wording import name_printed
from harness.reporting.tables.cells import FilledLine, FilledTable, PaperCell
from harness.reporting.tables.filled import fill_paper_tables
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.reporting.tables.paper_grids import describe_no_run, explain_verdicts, make_paper_grid

#: decimals of a cosine
DIGITS = 4


@dataclass(frozen=True)
class Answers:
    """The answers of one model: n queries, their k nearest sentences, (n, k), and the cosines, (n,
    k).
    """

    queries: tuple[str, ...]
    sentences: np.ndarray
    cosines: np.ndarray


def make_neighbour_grids(contents: Contents) -> Iterator[tuple[str, Grid]]:
    """Format the tables of nearest sentences, each with the name of its paper.

    The paper profile's tables may be empty; those of other profiles with stand-ins are shown if all
    their models have answers. Runs with overrides are left out.
    """
    profiles = [load_profile(PAPER_PROFILE), *contents.stand_in_profiles]
    finders = [_AnswerFinder(contents, profile) for profile in profiles]
    for paper in contents.papers:
        for name in paper.neighbours:
            for finder in finders:
                grid = make_neighbour_grid(paper, name, finder)
                if grid is not None:
                    yield paper.name, grid


@dataclass(frozen=True)
class _AnswerFinder:
    """Looks up the answers of one profile's models."""

    contents: Contents
    profile: Profile

    @cached_property
    def rows(self) -> Mapping[Label, Mapping[str, Row]]:
        """The rows of the profile's runs in the suites of all such tables, by label and suite."""
        suites = set()
        for paper in self.contents.papers:
            suites |= {entry.suite for entry in paper.neighbours.values()}

        frames = select_profile_runs(self.contents.frames, self.profile.name)
        in_suites = frames.evaluations["suite"].isin(suites).to_numpy()
        evaluation_of_score = frames.scores["evaluation"].to_numpy()
        return group_rows(frames, frames.scores[in_suites[evaluation_of_score]])

    @property
    def is_paper(self) -> bool:
        return self.profile.name == PAPER_PROFILE

    def find_answers(self, entry: NeighbourTable) -> tuple[int | None, dict[Label, Answers | None]]:
        """The seed shown, and each model's answers to the same queries, None where there are none.

        The seed is the one that most models have been run with, in a tie the lowest.
        """
        rows = self._find_rows(entry)
        runs_by_seed: Counter[int] = Counter()
        for row in rows.values():
            if row is not None:
                runs_by_seed.update(row.seeds)
        seed = min(runs_by_seed, key=lambda number: (-runs_by_seed[number], number), default=None)

        # columns stand side by side only if all answer the queries of the first model that has any
        queries: tuple[str, ...] = ()
        answers: dict[Label, Answers | None] = {}
        for label, row in rows.items():
            answer = None if row is None else self._read_answers(row, seed, entry)
            if answer is not None and not queries:
                queries = answer.queries
            has_same_queries = answer is not None and answer.queries == queries
            answers[label] = answer if has_same_queries else None
        return seed if queries else None, answers

    def _find_rows(self, entry: NeighbourTable) -> dict[Label, Row | None]:
        """The row of each of the table's models, None for one without runs."""
        names = StandIns.of(self.profile)
        rows: dict[Label, Row | None] = {}
        for encoder in entry.encoders:
            for variant, setting in list_pairs(entry):
                place = names.place(variant, setting, encoder)
                if place:
                    label = Label(self.profile.name, *place, "")
                    rows[label] = self.rows.get(label, {}).get(entry.suite)
        return rows

    def describe_pool(self, entry: NeighbourTable) -> str:
        """The captions that runs searched, with their number where there are runs."""
        sizes: list[float] = []
        for rows_by_suite in self.rows.values():
            row = rows_by_suite.get(entry.suite)
            cell = row.cell(Column(entry.task, "n_texts")) if row else None
            if cell is not None:
                sizes += cell.values

        number = f"{int(max(sizes)):,} " if sizes else ""
        return f"the {number}captions of the test images of {entry.task}"

    def _read_answers(self, row: Row, seed: int | None, entry: NeighbourTable) -> Answers | None:
        """A run's answers on the table's task; under other profiles on the first task that has any."""
        result = self.contents.result_of(row, seed)
        arrays = self.contents.arrays(result) if result else {}
        tasks = [name.task for name in arrays if name.what == "neighbours"]
        if self.is_paper:
            tasks = [task for task in tasks if task == entry.task]
        if not tasks:
            return None

        queries = arrays[ArrayName(tasks[0], "queries")][: entry.queries]
        sentences = arrays[ArrayName(tasks[0], "neighbours")][: entry.queries, : entry.top]
        cosines = arrays[ArrayName(tasks[0], "neighbour_cosines")][: entry.queries, : entry.top]
        return Answers(tuple(map(str, queries)), sentences, cosines)


def make_neighbour_grid(paper: Paper, name: str, finder: _AnswerFinder) -> Grid | None:
    """A table; None for a profile with stand-ins unless all models, two or more, have answers."""
    entry = paper.neighbours[name]
    seed, answers = finder.find_answers(entry)
    is_complete = bool(answers) and all(answers.values())
    if not finder.is_paper and not (is_complete and len(answers) > 1):
        return None

    models = [f"{label.name} / {label.setting}" for label in answers]
    columns = list(answers.values())
    profile = finder.profile.name
    queries = next((answer.queries for answer in columns if answer), ())
    sections = []
    for index, query in enumerate(queries):
        lines = [format_neighbours(columns, index, rank) for rank in range(entry.top)]
        sections.append(Section(query, tuple(lines)))

    commands: tuple[str, ...] = ()
    if not is_complete:
        runs_table = finder.contents.commands.run(profile=profile, table=f"{paper.name}:{name}")
        commands = (runs_table,)
    key, title = name_printed(paper, name, entry.title, profile)
    return Grid(
        key=key,
        title=title,
        heads=("rank", *models),
        columns=tuple(f"cosine, {model}" for model in models),
        sections=tuple(sections),
        notes=tuple(list_notes(paper, name, entry, finder, seed)),
        commands=commands,
        empty="" if seed is not None else describe_no_run(profile),
    )


def format_neighbours(answers: Sequence[Answers | None], query: int, rank: int) -> Line:
    """The sentence at a rank that each model finds for a query, with its cosine."""
    heads = [str(rank + 1)]
    cells = []
    for answer in answers:
        if answer is None or rank >= answer.sentences.shape[1]:
            heads.append(ABSENT)
            cells.append(CellText(ABSENT))
        else:
            heads.append(str(answer.sentences[query, rank]))
            cells.append(CellText(fixed(float(answer.cosines[query, rank]), DIGITS)))
    return Line(tuple(heads), tuple(cells), "sentences")


def list_notes(
    paper: Paper, name: str, entry: NeighbourTable, finder: _AnswerFinder, seed: int | None
) -> list[str]:
    """What was searched, in the paper and here, and how the queries were drawn."""
    runs = f"Runs of profile {finder.profile.name}, seed {seed}."
    queries = (
        "Queries are drawn at random, the same for every run, since the paper's are not known. "
        "A query is not its own neighbour."
    )
    if not finder.is_paper:
        return [f"Not comparable with the paper: other data. {runs}", queries]

    number = name.removeprefix("T")
    notes = [f"Searched in the paper ({paper.title}, Table {number}): {entry.pool}."]
    if seed is not None:
        notes = [queries, f"Searched here: {finder.describe_pool(entry)}.", runs, *notes]
    if entry.note:
        notes.append(entry.note)
    return notes


class PapersSection(ReportSection):
    """The tables and figures of each paper, and the same rows and figures from other profiles."""

    order = 400
    title = "Printed and measured"
    menu = "Papers"
    overview = "overview/papers.html"
    is_shown = True

    @cached_property
    def tables(self) -> Sequence[FilledTable]:
        """The tables that the paper profile fills, then those of other profiles."""
        contents = self.contents
        tables = list(contents.filled)
        for profile in contents.stand_in_profiles:
            tables += fill_paper_tables(
                profile, contents.papers, contents.frames, contents.commands
            )
        return tables

    @cached_property
    def by_paper(self) -> Mapping[str, Sequence[Grid]]:
        """The tables of each paper by its name; those of nearest sentences come last."""
        grids: dict[str, list[Grid]] = {}
        for table in self.tables:
            grids.setdefault(table.paper.name, []).append(make_paper_grid(table))
        for paper, grid in make_neighbour_grids(self.contents):
            grids.setdefault(paper, []).append(grid)
        return grids

    @cached_property
    def grids(self) -> Sequence[Grid]:
        return list(chain.from_iterable(self.by_paper.values()))

    @cached_property
    def figures(self) -> Sequence[ReportFigure]:
        """The figures of the paper profile, then those of others that are drawn."""
        figures: list[ReportFigure] = []
        for profile in dict.fromkeys([PAPER_PROFILE, *self.contents.profiles]):
            material = Material(profile, self.contents)
            for paper in self.contents.papers:
                drawn = [material.draw_figure(paper, name) for name in paper.figures]
                figures += [figure for figure in drawn if figure.svg or material.is_paper]
        return figures

    @cached_property
    def measured(self) -> Sequence[tuple[str, Grid]]:
        """The tables with runs, as pairs of a paper's name and a table."""
        measured = []
        for paper, grids in self.by_paper.items():
            with_runs = [grid for grid in grids if not grid.coverage or grid.coverage.measured]
            measured += [(paper, grid) for grid in with_runs]
        return measured

    @cached_property
    def without_runs(self) -> Sequence[tuple[str, str]]:
        """One line for each of the papers' tables without a run, with the command that starts its
        runs.
        """
        lines = []
        for table in self.contents.filled:
            if table.command and not table.coverage.measured:
                rows = count_of(len(table.planned_rows), "row")
                lines.append((f"{rows} of {make_paper_grid(table).title}", table.command))
        return lines

    def rows(self) -> Iterable[CsvFields]:
        for table in self.tables:
            yield from list_paper_fields(table)

    @property
    def legend(self) -> str:
        return explain_verdicts(self.contents.margin or DEFAULT_MARGIN)

    def write(self, pages: Pages) -> None:
        """Write a page for each paper."""
        for paper in self.contents.papers:
            figures = [figure for figure in self.figures if figure.paper == paper.name]
            grids = self.by_paper.get(paper.name, ())
            path = f"papers/{pages.papers[paper.name]}.html"
            pages.write("paper.html", path, paper=paper, grids=grids, figures=figures)


def list_paper_fields(filled: FilledTable) -> Iterator[CsvFields]:
    """The lines of tables.csv of a paper's table."""
    for row in filled.rows:
        for line in (*row.released, *row.lines):
            for column in filled.columns:
                yield make_paper_fields(filled, line, column, row.row.source)


def make_paper_fields(
    filled: FilledTable, line: FilledLine, column: PaperColumn, source: str
) -> CsvFields:
    """One measured cell of a paper's table, beside the printed number of a `source`."""
    cell = line.cells[column.name]
    score = cell.score or Score(column.suite, column.task, column.metric)
    fields: CsvFields = {
        "table": f"{filled.paper.name} {filled.name}",
        "command": filled.command if line.due else None,
        "part": line.part,
        **score._asdict(),
        **line.label._asdict(),
    }
    if cell.measured:
        baseline = line.against.variant if line.against else None
        fields |= make_measured_fields(cell.measured, baseline)

    weaknesses = [str(weakness) for weakness in line.weaknesses([column.name])]
    fields["weakened_by"] = "; ".join(dict.fromkeys(filter(None, weaknesses)))
    if cell.published:
        fields |= make_published_fields(cell, cell.published, source)
    return fields


def make_published_fields(cell: PaperCell, number: Published, source: str) -> CsvFields:
    """What is printed, and what the measured scores say of it."""
    fields: CsvFields = {
        "published": number.value,
        "published_std": number.std,
        "published_seeds": number.seeds,
        "published_star": int(number.star),
        "published_source": source,
        "minus_published": cell.difference,
    }
    if cell.test:
        fields["p_published"] = cell.test.p
    if cell.equivalence:
        fields |= {"margin": cell.margin, "p_equivalence": cell.equivalence.p}
    if cell.judgement:
        fields["verdict_published"] = cell.judgement.verdict
        fields["seeds_to_decide"] = cell.judgement.seeds
    return fields
