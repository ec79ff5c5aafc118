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
from harness.papers.schema import NeighbourTable, list_pairs
from harness.profiles import Profile, load_profile
from harness.reporting.contents import Contents
from harness.reporting.csvfiles import CsvFields, measured_fields
from harness.reporting.figures.drawn import Material, ReportFigure
from harness.reporting.pages import Pages
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import profile_runs, rows_by_label
from harness.reporting.seeds.wording import printed_name
from harness.reporting.tables.cells import FilledTable, PaperCell
from harness.reporting.tables.filled import tables_of
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.reporting.tables.paper_grids import no_run_yet, paper_grid, verdict_note

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


def neighbour_grids(contents: Contents) -> Iterator[tuple[str, Grid]]:
    """Format the tables of nearest sentences, each with the name of its paper.

    The paper profile's tables may be empty; those of other profiles with stand-ins are shown if all
    their models have answers. Runs with overrides are left out.
    """
    profiles = load_profile(PAPER_PROFILE), *contents.stand_in_profiles
    finders = [_Finder(contents, profile) for profile in profiles]
    for paper in contents.papers:
        made = (_grid(paper, name, finder) for name in paper.neighbours for finder in finders)
        yield from ((paper.name, grid) for grid in made if grid)


@dataclass(frozen=True)
class _Finder:
    """Looks up the answers of one profile's models."""

    contents: Contents
    profile: Profile

    @cached_property
    def rows(self) -> Mapping[Label, Mapping[str, Row]]:
        frames = profile_runs(self.contents.frames, self.profile.name)
        suites = {
            entry.suite for paper in self.contents.papers for entry in paper.neighbours.values()
        }
        here = frames.evaluations["suite"].isin(suites).to_numpy()
        return rows_by_label(frames, frames.scores[here[frames.scores["evaluation"].to_numpy()]])

    @property
    def is_paper(self) -> bool:
        return self.profile.name == PAPER_PROFILE

    def answers(self, entry: NeighbourTable) -> tuple[int | None, dict[Label, Answers | None]]:
        """The seed shown, and each model's answers to the same queries, None where there are none.

        The seed is the one that most models have been run with, in a tie the lowest.
        """
        names = StandIns.of(self.profile)
        places = (
            names.place(*pair, encoder) for encoder in entry.encoders for pair in list_pairs(entry)
        )
        labels = [Label(self.profile.name, *place, "") for place in places if place]
        every = {label: self.rows.get(label, {}).get(entry.suite) for label in labels}
        counts = Counter(seed for row in every.values() if row for seed in row.seeds)
        seed = min(counts, key=lambda number: (-counts[number], number), default=None)
        mine = {
            label: self._read(row, seed, entry) if row else None for label, row in every.items()
        }
        queries = next((answer.queries for answer in mine.values() if answer), ())
        same = {
            label: answer if answer and answer.queries == queries else None
            for label, answer in mine.items()
        }
        return seed if queries else None, same

    def pool(self, entry: NeighbourTable) -> str:
        """The captions that runs searched, with their number where there are runs."""
        rows = (suites[entry.suite] for suites in self.rows.values() if entry.suite in suites)
        cells = [row.cell(Column(entry.task, "n_texts")) for row in rows]
        size = max((int(value) for cell in cells if cell for value in cell.values), default=None)
        return (
            f"the {'' if size is None else f'{size:,} '}captions of the test images of {entry.task}"
        )

    def _read(self, row: Row, seed: int | None, entry: NeighbourTable) -> Answers | None:
        """A run's answers on the table's task; under other profiles on the first task that has any."""
        result = self.contents.result_of(row, seed)
        arrays = self.contents.arrays(result) if result else {}
        tasks = [name.task for name in arrays if name.what == "neighbours"]
        task = next(
            (candidate for candidate in tasks if candidate == entry.task or not self.is_paper), None
        )
        if task is None:
            return None
        parts = (
            arrays[ArrayName(task, what)] for what in ("queries", "neighbours", "neighbour_cosines")
        )
        queries, sentences, cosines = (part[: entry.queries] for part in parts)
        return Answers(tuple(map(str, queries)), sentences[:, : entry.top], cosines[:, : entry.top])


def _grid(paper: Paper, name: str, finder: _Finder) -> Grid | None:
    """A table; None for a profile with stand-ins unless all models, two or more, have answers."""
    entry = paper.neighbours[name]
    seed, answers = finder.answers(entry)
    full = bool(answers) and all(answers.values())
    if not finder.is_paper and not (full and len(answers) > 1):
        return None
    models = [f"{label.name} / {label.setting}" for label in answers]
    columns = list(answers.values())
    profile = finder.profile.name
    queries = next((answer.queries for answer in columns if answer), ())
    return Grid(
        *printed_name(paper, name, entry.title, profile),
        ("rank", *models),
        tuple(f"cosine, {model}" for model in models),
        (False,) * len(models),
        tuple(
            Section(query, tuple(_line(columns, at, rank) for rank in range(entry.top)))
            for at, query in enumerate(queries)
        ),
        tuple(_notes(paper, name, entry, finder, seed)),
        ()
        if full
        else (finder.contents.commands.run(profile=profile, table=f"{paper.name}:{name}"),),
        "" if seed is not None else no_run_yet(profile),
    )


def _line(answers: Sequence[Answers | None], at: int, rank: int) -> Line:
    there = [answer if answer and rank < answer.sentences.shape[1] else None for answer in answers]
    heads = [str(answer.sentences[at, rank]) if answer else ABSENT for answer in there]
    cells = [
        CellText(fixed(float(answer.cosines[at, rank]), DIGITS) if answer else ABSENT)
        for answer in there
    ]
    return Line((str(rank + 1), *heads), tuple(cells), "sentences")


def _notes(
    paper: Paper, name: str, entry: NeighbourTable, finder: _Finder, seed: int | None
) -> list[str]:
    runs = f"Runs of profile {finder.profile.name}, seed {seed}."
    queries = "Queries are drawn at random, the same for every run, since the paper's are not known"
    if not finder.is_paper:
        return [
            f"Not comparable with the paper: other data. {runs}",
            f"{queries}. A query is not its own neighbour.",
        ]
    searched = (
        f"Searched in the paper ({paper.title}, Table {name.removeprefix('T')}): {entry.pool}."
    )
    mine = [
        f"{queries}. A query is not its own neighbour.",
        f"Searched here: {finder.pool(entry)}.",
        runs,
    ]
    return [*(mine if seed is not None else ()), searched, *filter(None, [entry.note])]


class PapersSection(ReportSection):
    """The tables and figures of each paper, and the same rows and figures from other profiles."""

    order = 400
    title = "Printed and measured"
    menu = "Papers"
    overview = "overview/papers.html"
    is_shown = True

    @cached_property
    def tables(self) -> Sequence[FilledTable]:
        contents = self.contents
        given = (self.contents.papers, self.contents.frames, self.contents.commands)
        stand_ins = (tables_of(profile, *given) for profile in contents.stand_in_profiles)
        return [*contents.filled, *chain.from_iterable(stand_ins)]

    @cached_property
    def by_paper(self) -> Mapping[str, Sequence[Grid]]:
        grids: dict[str, list[Grid]] = {}
        filled = ((table.paper.name, paper_grid(table)) for table in self.tables)
        for paper, grid in chain(filled, neighbour_grids(self.contents)):
            grids.setdefault(paper, []).append(grid)
        return grids

    @cached_property
    def grids(self) -> Sequence[Grid]:
        return [grid for some in self.by_paper.values() for grid in some]

    @cached_property
    def figures(self) -> Sequence[ReportFigure]:
        figures: list[ReportFigure] = []
        for profile in dict.fromkeys([PAPER_PROFILE, *self.contents.profiles]):
            material = Material(profile, self.contents)
            drawn = (
                material.figure(paper, name)
                for paper in self.contents.papers
                for name in paper.figures
            )
            figures += [figure for figure in drawn if figure.svg or material.is_paper]
        return figures

    @cached_property
    def measured(self) -> Sequence[tuple[str, Grid]]:
        """The tables with runs, as pairs of a paper's name and a table."""
        grids = ((paper, grid) for paper, some in self.by_paper.items() for grid in some)
        return [
            (paper, grid) for paper, grid in grids if not grid.coverage or grid.coverage.measured
        ]

    @cached_property
    def without_runs(self) -> Sequence[tuple[str, str]]:
        """One line for each of the papers' tables without a run, with the command that starts its
        runs.
        """
        return [
            (
                f"{count_of(len(table.planned_rows), 'row')} of {paper_grid(table).title}",
                table.command,
            )
            for table in self.contents.filled
            if table.command and not table.coverage.measured
        ]

    def rows(self) -> Iterable[CsvFields]:
        return (fields for table in self.tables for fields in paper_rows(table))

    @property
    def legend(self) -> str:
        return verdict_note(self.contents.margin or DEFAULT_MARGIN)

    def write(self, pages: Pages) -> None:
        for paper in self.contents.papers:
            figures = [figure for figure in self.figures if figure.paper == paper.name]
            grids = self.by_paper.get(paper.name, ())
            path = f"papers/{pages.papers[paper.name]}.html"
            pages.write("paper.html", path, paper=paper, grids=grids, figures=figures)


def paper_rows(filled: FilledTable) -> Iterator[CsvFields]:
    """The rows of a paper's table."""
    table = f"{filled.paper.name} {filled.name}"
    lines = [(row.row, line) for row in filled.rows for line in (*row.released, *row.lines)]
    for row, line in lines:
        for column in filled.columns:
            cell = line.cells[column.name]
            score = cell.score or Score(column.suite, column.task, column.metric)
            yield {
                **{
                    "table": table,
                    "command": filled.command if line.due else None,
                    "part": line.part,
                },
                **score._asdict(),
                **line.label._asdict(),
                **(
                    measured_fields(cell.measured, line.against and line.against.variant)
                    if cell.measured
                    else {}
                ),
                "weakened_by": "; ".join(
                    dict.fromkeys(filter(None, map(str, line.weaknesses([column.name]))))
                ),
                **(_published(cell, cell.published, row.source) if cell.published else {}),
            }


def _published(cell: PaperCell, number: Published, source: str) -> CsvFields:
    judgement = cell.judgement
    return {
        "published": number.value,
        "published_std": number.std,
        "published_seeds": number.seeds,
        "published_star": int(number.star),
        "published_source": source,
        "minus_published": cell.difference,
        "p_published": cell.test.p if cell.test else None,
        "margin": cell.margin if cell.equivalence else None,
        "p_equivalence": cell.equivalence.p if cell.equivalence else None,
        "verdict_published": judgement.verdict if judgement else None,
        "seeds_to_decide": judgement.seeds if judgement else None,
    }
