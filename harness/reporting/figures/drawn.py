"""The figures of a report as SVG and PDF: the papers' figures from the runs of a profile, and
training curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from harness.errors import PlugInError
from harness.formatting import count_of
from harness.metrics import AVERAGE
from harness.papers.published import PAPER_PROFILE, Paper
from harness.papers.schema import FigureSpec, list_pairs
from harness.registry import convert_errors, get_instance
from harness.reporting.contents import Contents
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.look import Picture, draw_picture
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import group_rows, select_profile_runs
from harness.reporting.seeds.wording import name_printed
from harness.spec import UNTRAINED


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a paper, or of a section.

    `picture` is empty if nothing is drawn; `empty` then says why. `commands` start the missing
    runs.
    """

    key: str
    paper: str
    profile: str
    title: str
    caption: str
    picture: Picture = field(default_factory=Picture)
    empty: str = ""
    commands: tuple[str, ...] = ()

    @property
    def svg(self) -> str:
        return self.picture.svg


@dataclass(frozen=True)
class Material:
    """What figures of one profile are drawn from. Runs with `--set` are left out.

    Printed numbers stand only beside results of the paper profile that this package ships.
    """

    profile: str
    contents: Contents

    @property
    def is_paper(self) -> bool:
        return self.profile == PAPER_PROFILE

    @cached_property
    def _rows(self) -> Mapping[Label, Mapping[str, Row]]:
        """The rows of all runs that a figure may show, by label and suite."""
        variants: set[str] = set()
        for paper in self.contents.papers:
            for spec in paper.figures.values():
                variants.update(spec.variants)
        frames = select_profile_runs(self.contents.frames, self.profile, variants)
        return group_rows(frames, frames.scores, frames.parts)

    def draw_figure(self, paper: Paper, name: str) -> ReportFigure:
        """One figure of a paper. It is empty if there are no runs or its kind is broken."""
        spec = paper.figures[name]
        data = self.collect_data(paper, name)
        key, title = name_printed(paper, name, spec.title, self.profile)
        figure = ReportFigure(key, paper.name, self.profile, title, spec.note)

        try:
            kind = get_instance("figure kind", spec.kind, FigureKind)
            commands = tuple(self._list_commands(f"{paper.name}:{name}", data, kind.suites))
            figure = replace(figure, commands=commands)
            if not data.runs:
                return replace(figure, empty=f"no run of profile {self.profile} yet")
            with convert_errors("figure kind", spec.kind, "cannot draw"):
                drawing = kind.draw(data)
                if isinstance(drawing, str):
                    return replace(figure, empty=drawing)
                picture = draw_picture(title, drawing.spec)
        except PlugInError as error:
            return replace(figure, empty=str(error))
        return replace(figure, caption=self._caption_figure(spec, drawing), picture=picture)

    def _caption_figure(self, spec: FigureSpec, drawing: Drawing) -> str:
        """What is drawn, the runs with their seeds, and how this compares with the paper."""
        runs = []
        for run in drawing.runs:
            seeds = count_of(len(run.rows[spec.suite].seeds), "seed")
            runs.append(f"{run.label.name} / {run.label.place} ({seeds})")

        end = f"Drawn like the paper's figure ({spec.title}); not comparable with it."
        if self.is_paper:
            end = spec.note
        return f"{drawing.text} Runs of profile {self.profile}: {'; '.join(runs)}. {end}"

    def collect_data(self, paper: Paper, name: str) -> FigureData:
        """What a figure of a paper is drawn from."""
        spec = paper.figures[name]
        runs = list(self._list_runs(spec))
        alike = [
            alike_name
            for alike_name, figure in paper.figures.items()
            if (figure.kind, figure.metric) == (spec.kind, spec.metric)
        ]
        data = FigureData(spec, runs, self.contents.metrics, spec.task, index=alike.index(name))
        if self.is_paper:
            return replace(data, is_paper=True, printed=self._list_printed(paper, name))

        tasks = (column.task for run in runs for column in run.rows[spec.suite].cells)
        first_task = next((task for task in tasks if task != AVERAGE), "")
        return replace(data, task=first_task)

    def _list_printed(self, paper: Paper, name: str) -> list[tuple[str, float]]:
        """The printed numbers that a figure's file asks for, with their names."""
        number_of_task = {
            key.task: number.value
            for key, number in self.contents.published.items()
            if key[:2] == (paper.name, name)
        }
        printed = paper.figures[name].printed
        return [
            (text, number_of_task[task]) for task, text in printed.items() if task in number_of_task
        ]

    def _list_commands(self, figure: str, data: FigureData, suites: Sequence[str]) -> Iterator[str]:
        """The command for the missing runs. `suites` are evaluated in addition to the figure's own."""
        spec = data.spec
        run = self.contents.commands.run
        if self.is_paper:
            seeds = {run.label: len(run.rows[spec.suite].seeds) for run in data.runs}
            if any(seeds.get(label, 0) < spec.seeds for label in self._list_labels(spec)):
                yield run(profile=self.profile, figure=figure)
            return

        drawn_variants = {run.label.variant for run in data.runs}
        missing = [variant for variant in spec.variants if variant not in drawn_variants]
        if missing:
            suites = list(dict.fromkeys([*suites, spec.suite]))
            yield run(profile=self.profile, methods=missing, seeds=spec.seeds, suites=suites)

    def _list_labels(self, spec: FigureSpec) -> list[Label]:
        """The labels of a figure's runs; in another profile, its variants in every setting and
        encoder with runs.
        """
        if self.is_paper:
            pairs = product(spec.encoders, list_pairs(spec))
            return [Label(self.profile, *pair, encoder, "") for encoder, pair in pairs]

        places = {(label.setting, label.encoder) for label in self._rows}
        trained = sorted(place for place in places if place[0] != UNTRAINED)
        rows = product(trained, spec.variants)
        return [Label(self.profile, variant, *place, "") for place, variant in rows]

    def _list_runs(self, spec: FigureSpec) -> Iterator[FigureRun]:
        """The runs that a figure's suite has scores of; without those whose first result's file is
        damaged.
        """
        for label in self._list_labels(spec):
            rows = self._rows.get(label, {})
            row = rows.get(spec.suite)
            result = self.contents.result_of(row) if row else None
            if result:
                yield FigureRun(label, rows, result, self.contents.arrays)
