"""The figures of a report as SVG and PDF: the papers' figures from the runs of a profile, and training curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.errors import PlugInError
from harness.papers.published import Paper
from harness.registry import errors_of, get_instance
from harness.reporting.figures.curves import Chart, dev_charts, loss_charts
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind
from harness.reporting.figures.look import drawn, panels, style
from harness.reporting.figures.material import Material
from harness.reporting.seeds.groups import Label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from harness.store import Result

#: About how many marks a training curve has.
MARKS = 10


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a paper, or a chart of training curves (`paper` is empty).

    `svg` is an element for a page or file and `pdf` a file's content. Both are empty if nothing is drawn; `empty` then
    says why. `commands` run what is missing.
    """

    key: str
    paper: str
    profile: str
    title: str
    caption: str
    svg: str = ""
    pdf: bytes = b""
    empty: str = ""
    commands: tuple[str, ...] = ()


def paper_figures(papers: Sequence[Paper], material: Material) -> list[ReportFigure]:
    """All figures of the papers from the runs of one profile, in the papers' order."""
    return [paper_figure(paper, name, material) for paper in papers for name in paper.figures]


def training_figures(profile: str, runs: Mapping[Label, Sequence[Result]]) -> list[ReportFigure]:
    """Dev scores and loss terms against steps, one figure for each chart of `curves.py`."""
    charts = {"dev": dev_charts(runs), "loss": loss_charts(runs)}
    return [
        _training(profile, f"{profile}-{kind}-{number}", chart)
        for kind, some in charts.items()
        for number, chart in enumerate(some, start=1)
    ]


def paper_figure(paper: Paper, name: str, material: Material) -> ReportFigure:
    """One figure of a paper from the runs of one profile."""
    spec, data = paper.figures[name], material.data(paper, name)
    key = f"{paper.name}-{name}" + ("" if material.is_paper else f"-{material.profile}")
    title = f"{paper.short or paper.name}, Figure {name.removeprefix('F')}: {spec.title}"
    title += "" if material.is_paper else f" (profile {material.profile})"
    blank = ReportFigure(key, paper.name, material.profile, title, spec.note)
    try:
        kind = get_instance("figure kind", spec.kind, FigureKind)
        blank = replace(blank, commands=tuple(material.commands(data, kind.suites)))
        if not data.runs:
            return replace(blank, empty=f"no run of profile {material.profile} yet")
        with errors_of("figure kind", spec.kind, "cannot draw"):
            drawing = kind.draw(data)
            if isinstance(drawing, str):
                return replace(blank, empty=drawing)
            svg, pdf = drawn(key, title, drawing.size, drawing.draw)
    except PlugInError as error:  # a broken kind costs its own figures only
        return replace(blank, empty=str(error))
    return replace(blank, caption=" ".join(_caption(data, drawing, material)), svg=svg, pdf=pdf)


def _caption(data: FigureData, drawing: Drawing, material: Material) -> Iterator[str]:
    yield drawing.text
    yield f"Runs of profile {material.profile}: {'; '.join(run.describe(data.spec.suite) for run in drawing.runs)}."
    yield data.spec.note if material.is_paper else "Other data than the paper's: not comparable with the paper."


def _training(profile: str, key: str, chart: Chart) -> ReportFigure:
    def on(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        for series in chart.series:
            look = style(series.index + 1)  # the index of the baseline is -1
            if len(series.seeds) > 1:
                for points in series.seeds:
                    axes.plot(*zip(*points, strict=True), color=look["color"], alpha=0.35, linewidth=0.7)
            seeds = f" (n = {len(series.seeds)})" if len(series.seeds) > 1 else ""
            look["markevery"] = max(1, len(series.mean) // MARKS)
            axes.plot(*zip(*series.mean, strict=True), label=series.name + seeds, gid=f"curve-{series.index}", **look)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.legend()

    text = "Means over seeds at the steps that all seeds have; thin lines are single seeds."
    return ReportFigure(key, "", profile, chart.title, text, *drawn(key, chart.title, (6.0, 4.0), on))
