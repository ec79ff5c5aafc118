"""The figures of a report as SVG and PDF: the papers' figures from the runs of a profile, and
training curves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from harness.errors import PlugInError
from harness.formatting import count_of
from harness.metrics import AVERAGE
from harness.papers.published import PAPER_PROFILE, Paper
from harness.papers.schema import FigureSpec, list_pairs
from harness.registry import convert_errors, get_instance
from harness.reporting.contents import Contents
from harness.reporting.figures.kinds import FigureData, FigureKind, FigureRun
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
        specs = (spec for paper in self.contents.papers for spec in paper.figures.values())
        variants = {variant for spec in specs for variant in spec.variants}
        frames = select_profile_runs(self.contents.frames, self.profile, variants)
        return group_rows(frames, frames.scores, frames.parts)

    def figure(self, paper: Paper, name: str) -> ReportFigure:
        """One figure of a paper. It is empty if there are no runs or its kind is broken."""
        spec = paper.figures[name]
        data = self.data(paper, name)
        key, title = name_printed(paper, name, spec.title, self.profile)
        blank = ReportFigure(key, paper.name, self.profile, title, spec.note)
        try:
            kind = get_instance("figure kind", spec.kind, FigureKind)
            blank = replace(
                blank, commands=tuple(self._commands(f"{paper.name}:{name}", data, kind.suites))
            )
            if not data.runs:
                return replace(blank, empty=f"no run of profile {self.profile} yet")
            with convert_errors("figure kind", spec.kind, "cannot draw"):
                drawing = kind.draw(data)
                if isinstance(drawing, str):
                    return replace(blank, empty=drawing)
                picture = draw_picture(title, drawing.spec)
        except PlugInError as error:
            return replace(blank, empty=str(error))
        runs = "; ".join(
            f"{run.label.name} / {run.label.place} ({count_of(len(run.rows[spec.suite].seeds), 'seed')})"
            for run in drawing.runs
        )
        end = (
            spec.note
            if self.is_paper
            else f"Drawn like the paper's figure ({spec.title}); not comparable with it."
        )
        caption = f"{drawing.text} Runs of profile {self.profile}: {runs}. {end}"
        return replace(blank, caption=caption, picture=picture)

    def data(self, paper: Paper, name: str) -> FigureData:
        spec = paper.figures[name]
        runs = list(self._runs(spec))
        alike = [
            other
            for other, figure in paper.figures.items()
            if (figure.kind, figure.metric) == (spec.kind, spec.metric)
        ]
        data = FigureData(spec, runs, self.contents.metrics, spec.task, index=alike.index(name))
        if not self.is_paper:
            tasks = (column.task for run in runs for column in run.rows[spec.suite].cells)
            return replace(data, task=next((task for task in tasks if task != AVERAGE), ""))
        published = self.contents.published
        numbers = {
            key.task: number.value
            for key, number in published.items()
            if key[:2] == (paper.name, name)
        }
        printed = [(text, numbers[task]) for task, text in spec.printed.items() if task in numbers]
        return replace(data, is_paper=True, printed=printed)

    def _commands(self, figure: str, data: FigureData, suites: Sequence[str]) -> Iterator[str]:
        """The command for the missing runs. `suites` are evaluated in addition to the figure's own."""
        spec = data.spec
        run = self.contents.commands.run
        if not self.is_paper:
            suites = list(dict.fromkeys([*suites, spec.suite]))
            drawn_variants = {run.label.variant for run in data.runs}
            missing = [variant for variant in spec.variants if variant not in drawn_variants]
            if missing:
                yield run(profile=self.profile, methods=missing, seeds=spec.seeds, suites=suites)
            return
        seeds = {run.label: len(run.rows[spec.suite].seeds) for run in data.runs}
        if any(seeds.get(label, 0) < spec.seeds for label in self._labels(spec)):
            yield run(profile=self.profile, figure=figure)

    def _labels(self, spec: FigureSpec) -> list[Label]:
        """The labels of a figure's runs; in another profile, its variants in every setting and
        encoder with runs.
        """
        if self.is_paper:
            return [
                Label(self.profile, *pair, encoder, "")
                for encoder in spec.encoders
                for pair in list_pairs(spec)
            ]
        pairs = sorted(
            {(label.setting, label.encoder) for label in self._rows if label.setting != UNTRAINED}
        )
        return [
            Label(self.profile, variant, *where, "") for where in pairs for variant in spec.variants
        ]

    def _runs(self, spec: FigureSpec) -> Iterator[FigureRun]:
        """The runs that a figure's suite has scores of; without those whose first result's file is
        damaged.
        """
        for label in self._labels(spec):
            rows = self._rows.get(label, {})
            if spec.suite in rows and (result := self.contents.result_of(rows[spec.suite])):
                yield FigureRun(label, rows, result, self.contents.arrays)
