"""The papers' figures drawn from the runs of one profile, as SVG and PDF, with captions and with what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from harness.papers.published import Published, PublishedKey, read_papers, read_published
from harness.papers.schema import FigureSpec
from harness.reporting.figures.arrays import captions, encodings, histogram, scatter
from harness.reporting.figures.curves import Chart, dev_charts, loss_charts, shown_runs
from harness.reporting.figures.geometry import alignment_uniformity
from harness.reporting.figures.look import drawn, panels, style
from harness.reporting.figures.runs import Arrays, Material, Run
from harness.reporting.figures.scores import (
    Drawing,
    data_scale,
    margin_sweep,
    subset_gain,
)
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.tables.filled import PROFILE

if TYPE_CHECKING:
    import pandas

#: Marks on a curve of training, about.
MARKS = 10
NAMES = {"mcse": "MCSE", "kdmcse": "KDMCSE", "dalr": "DALR", "nonling": "NonLing"}


@dataclass(frozen=True)
class PaperFigure:
    """A figure, drawn or not: `empty` says why there is nothing yet, `commands` what to type to fill it.

    `svg` is an element to put into a page or a file, `pdf` a file's bytes; both are empty where nothing is drawn.
    Curves of training have no `paper`, and the `name` of their profile.
    """

    key: str
    paper: str
    name: str
    title: str
    caption: str
    svg: str = ""
    pdf: bytes = b""
    empty: str = ""
    commands: tuple[str, ...] = ()


def report_figures(results: Sequence[Any], frame: pandas.DataFrame, arrays: Arrays) -> list[PaperFigure]:
    """What a report shows of a store: the papers' figures, those drawn from other profiles, and curves of training."""
    papers = {paper.name: paper.figures for paper in read_papers()}
    published = read_published()
    others = [name for name in sorted(set(frame["profile"])) if name != PROFILE]
    shapes = [paper_figures(papers, published, results, frame, arrays, profile) for profile in others]
    curves = [training_figures(results, frame, profile) for profile in sorted({*others, PROFILE})]
    return [
        *paper_figures(papers, published, results, frame, arrays),
        *(figure for drawn in shapes for figure in drawn if figure.svg),
        *(figure for drawn in curves for figure in drawn),
    ]


def paper_figures(
    papers: Mapping[str, Mapping[str, FigureSpec]],
    published: Mapping[PublishedKey, Published],
    results: Sequence[Any],
    frame: pandas.DataFrame,
    arrays: Arrays,
    profile: str = PROFILE,
) -> list[PaperFigure]:
    """All figures of the papers from the runs of one profile, in the papers' order.

    `papers` are paper -> figure -> spec, `results` the store's and `frame` made of them, `arrays` is `Store.arrays`.
    Printed numbers stand beside runs of the profile `paper` alone; figures of another profile say which. Runs with
    `--set` are left out.
    """
    material = Material(profile, frame, results, arrays, published)
    return [_figure(paper, name, papers[paper], material) for paper in papers for name in papers[paper]]


def training_figures(results: Sequence[Any], frame: pandas.DataFrame, profile: str) -> list[PaperFigure]:
    """Dev score and loss terms against steps of the runs of a profile, one figure a panel of `curves.py`."""
    part = frame[frame["profile"] == profile]
    runs = shown_runs([one for one in results if one.profile == profile], summary_tables(part))
    charts = {"dev": dev_charts(runs), "loss": loss_charts(runs)}
    return [
        _training(profile, f"{profile}-{kind}-{number}", chart)
        for kind, some in charts.items()
        for number, chart in enumerate(some, start=1)
    ]


def _figure(paper: str, name: str, specs: Mapping[str, FigureSpec], material: Material) -> PaperFigure:
    spec = specs[name]
    key = f"{paper}-{name}" if material.is_paper else f"{paper}-{name}-{material.profile}"
    title = f"{NAMES.get(paper, paper)}, Figure {name.removeprefix('F')}: {spec.title}"
    title += "" if material.is_paper else f" (profile {material.profile})"
    runs = material.runs(spec)
    commands = material.commands(spec, runs)
    drawing = _drawing(paper, name, specs, runs, material) if runs else f"no run of profile {material.profile} yet"
    if isinstance(drawing, str):
        return PaperFigure(key, paper, name, title, spec.note, empty=drawing, commands=commands)
    caption = " ".join(_caption(spec, drawing, material))
    return PaperFigure(
        key, paper, name, title, caption, *drawn(key, title, drawing.size, drawing.draw), commands=commands
    )


def _drawing(
    paper: str, name: str, specs: Mapping[str, FigureSpec], runs: Sequence[Run], material: Material
) -> Drawing | str:
    spec = specs[name]
    lines = material.lines(paper, name, spec)
    if spec.kind == "t-sne":
        examples = [other for other, one in specs.items() if one.metric == "views"]
        return (
            encodings(spec, runs, material, examples.index(name))
            if name in examples
            else captions(spec, runs, material)
        )
    with_lines = {"histogram": histogram, "margin-sweep": margin_sweep, "data-scale": data_scale}
    if spec.kind in with_lines:
        return with_lines[spec.kind](spec, runs, material, lines)
    kinds = {
        "alignment-uniformity": alignment_uniformity,
        "subset-gain": subset_gain,
        "scatter": scatter,
    }
    return kinds[spec.kind](spec, runs, material)


def _caption(spec: FigureSpec, drawing: Drawing, material: Material) -> Iterator[str]:
    yield drawing.text
    yield f"Runs of profile {material.profile}: {'; '.join(run.told(spec.suite) for run in drawing.runs)}."
    if material.is_paper:
        yield spec.note
    else:
        yield "Not the paper's data: nothing here can be compared with what the paper shows."


def _training(profile: str, key: str, chart: Chart) -> PaperFigure:
    def draw(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        for series in chart.series:
            # the baseline is first in colour, as its index is -1
            look = style(series.index + 1)
            if len(series.seeds) > 1:
                for points in series.seeds:
                    axes.plot(*zip(*points, strict=True), color=look["color"], alpha=0.35, linewidth=0.7)
            seeds = f" (n = {len(series.seeds)})" if len(series.seeds) > 1 else ""
            look["markevery"] = max(1, len(series.mean) // MARKS)
            axes.plot(*zip(*series.mean, strict=True), label=series.name + seeds, gid=f"curve-{series.index}", **look)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.legend()

    text = "Means over seeds, at the steps that all have; thin lines are single seeds."
    return PaperFigure(key, "", profile, chart.title, text, *drawn(key, chart.title, (6.0, 4.0), draw))
