"""The papers' tables and figures, printed and measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from harness.formatting import count_of
from harness.metrics import Score
from harness.papers.published import PAPER_PROFILE, Published
from harness.reporting.figures.papers import Material, ReportFigure
from harness.reporting.files.csv import CsvFields, measured_fields
from harness.reporting.pages import Pages
from harness.reporting.sections.base import ReportSection
from harness.reporting.tables.cells import FilledTable, PaperCell
from harness.reporting.tables.filled import stand_in_tables
from harness.reporting.tables.grids import Grid
from harness.reporting.tables.neighbours import neighbour_grids
from harness.reporting.tables.worded import paper_grid, verdict_note


class PapersSection(ReportSection):
    """The tables and figures of each paper, and the same rows and figures from other profiles."""

    place = 400
    title = "Printed and measured"
    menu = "Papers"
    overview = "overview/papers.html"
    is_shown = True

    @cached_property
    def tables(self) -> Sequence[FilledTable]:
        """The papers' tables, then their stand-ins."""
        contents = self.contents
        stand_ins = stand_in_tables(
            contents.papers,
            contents.paper_frame,
            contents.stand_in_profiles,
            contents.teacher_options,
            contents.commands,
        )
        return [*contents.filled, *stand_ins]

    @cached_property
    def by_paper(self) -> Mapping[str, Sequence[Grid]]:
        """The tables of each paper by its name."""
        contents, found = self.contents, dict[str, list[Grid]]()
        for table in self.tables:
            found.setdefault(table.paper.name, []).append(paper_grid(table))
        neighbours = neighbour_grids(
            contents.papers,
            contents.results,
            contents.paper_frame,
            contents.arrays,
            contents.stand_in_profiles,
            contents.teacher_options,
            contents.commands,
        )
        for paper, more in neighbours.items():
            found.setdefault(paper, []).extend(more)
        return found

    @cached_property
    def grids(self) -> Sequence[Grid]:
        """The tables of all papers."""
        return [grid for some in self.by_paper.values() for grid in some]

    @cached_property
    def figures(self) -> Sequence[ReportFigure]:
        """The papers' figures, and those drawn from other profiles."""
        found: list[ReportFigure] = []
        for profile in dict.fromkeys([PAPER_PROFILE, *self.contents.profiles]):
            material = Material(profile, self.contents, self.contents.papers, self.contents.published)
            drawn = (material.figure(paper, name) for paper in self.contents.papers for name in paper.figures)
            found += [figure for figure in drawn if figure.svg or material.is_paper]
        return found

    @cached_property
    def measured(self) -> Sequence[tuple[str, Grid]]:
        """The tables with runs, each after the name of its paper."""
        grids = ((paper, grid) for paper, some in self.by_paper.items() for grid in some)
        return [(paper, grid) for paper, grid in grids if not grid.coverage or grid.coverage.measured]

    @cached_property
    def without_runs(self) -> Sequence[tuple[str, str]]:
        """The papers' tables without a run in one line each, with the command that runs them."""
        return [
            (
                f"{count_of(len(table.planned_rows), 'row')} of {paper_grid(table).title}",
                table.whole,
            )
            for table in self.contents.filled
            if table.planned_rows and not table.coverage.measured
        ]

    def rows(self) -> Iterable[CsvFields]:
        """The cells of all tables."""
        return (fields for table in self.tables for fields in paper_rows(table))

    @property
    def legend(self) -> str:
        """What the verdicts mean."""
        return verdict_note(self.contents.margin)

    def write(self, pages: Pages) -> None:
        """Write a page for each paper."""
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
            score = line.scores.get(column.name, Score(column.suite, column.task, column.metric))
            cell = line.cells[column.name]
            yield {
                **{"table": table, "profile": filled.profile, "command": line.command},
                **score._asdict(),
                "part": line.part,
                **line.place._asdict(),
                **(measured_fields(cell.measured, line.against) if cell.measured else {}),
                "weakened_by": "; ".join(dict.fromkeys(filter(None, map(str, line.weaknesses([column.name]))))),
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
