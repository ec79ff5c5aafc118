"""Alignment against uniformity (MCSE Figure 2, NonLing Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.metrics import AVERAGE, Score
from harness.papers.published import PublishedKey
from harness.papers.schema import FigureSpec
from harness.reporting.figures.look import COLOURS, INK, MARKERS, PRINTED, legend_below, panels
from harness.reporting.figures.runs import Material, Run
from harness.reporting.figures.scores import POINTS, Drawing, n_of
from harness.stats import Summary

_STS = Score("sts", AVERAGE, "spearman")


@dataclass(frozen=True)
class _Point:
    variant: str
    setting: str
    x: Summary
    y: Summary
    sts: Summary | None


def alignment_uniformity(spec: FigureSpec, runs: Sequence[Run], material: Material) -> Drawing | str:
    """One point for each variant and setting, coloured by the average STS."""
    task = material.task(spec, runs)
    points, shown = [], []
    for run in runs:
        x, y = (run.summary(Score(spec.suite, task, what)) for what in ("uniformity", "alignment"))
        if x is not None and y is not None:
            points.append(_Point(run.label.variant, run.label.setting, x, y, run.summary(_STS)))
            shown.append(run)
    if not points:
        return "no run has been evaluated by the suite geometry yet"
    printed = list(_printed(shown, material))
    marks = {name: MARKERS[n % len(MARKERS)] for n, name in enumerate(dict.fromkeys(one.variant for one in points))}

    def draw(figure: Figure) -> None:
        (axes,) = panels(figure, 1, 1)
        _points(figure, axes, points, marks)
        for variant, setting, x, y in printed:
            axes.scatter([x], [y], facecolors="none", edgecolors=PRINTED, marker=marks[variant], s=60, zorder=3)
            _name(axes, f"{setting}, printed", x, y, -9)
        for variant, shape in marks.items():
            name = f"{variant} ({n_of(one.x for one in points if one.variant == variant)})"
            axes.scatter([], [], color="white", edgecolors=INK, marker=shape, label=name)
        axes.margins(0.2)
        axes.set_xlabel(f"uniformity, {task} (lower is better)")
        axes.set_ylabel(f"alignment, {task} (lower is better)")
        legend_below(figure, 3)

    text = f"Alignment against uniformity on {task}, means over seeds with their deviations; colour is the average STS."
    if printed:
        text += " Hollow grey points are printed (KDMCSE Table 2, DALR Table 6)."
    return Drawing(draw, (6.4, 4.6), text, shown)


def _points(figure: Figure, axes: Axes, points: Sequence[_Point], marks: Mapping[str, str]) -> None:
    values = [point.sts.mean for point in points if point.sts is not None]
    scale: dict[str, Any] = {}
    if len(values) == len(points):
        low, high = min(values), max(values)
        room = 0.0 if high > low else 1.0
        scale = {"cmap": "cividis", "vmin": low - room, "vmax": high + room}
    for row, point in enumerate(points):
        x, y = point.x, point.y
        axes.errorbar(x.mean, y.mean, xerr=x.std or None, yerr=y.std or None, color="#999999", linewidth=0.8, zorder=2)
        look = {"c": [values[row]], **scale} if scale else {"color": COLOURS[0]}
        made = axes.scatter(
            [x.mean], [y.mean], s=60, edgecolors=INK, marker=marks[point.variant], zorder=3, gid=f"point-{row}", **look
        )
        _name(axes, point.setting, x.mean, y.mean, 4)
    if scale:
        figure.colorbar(made, ax=axes, label=f"average STS, {POINTS}")


def _name(axes: Axes, text: str, x: float, y: float, above: int) -> None:
    axes.annotate(text, (x, y), xytext=(7, above), textcoords="offset points", fontsize=7)


def _printed(shown: Sequence[Run], material: Material) -> Iterator[tuple[str, str, float, float]]:
    """Variant, setting, uniformity and alignment that a paper prints for the very run."""
    places = {run.label[1:4] for run in shown} if material.is_paper else set()
    for key, number in material.published.items():
        other = material.published.get(key._replace(benchmark="alignment"))
        if key.benchmark == "uniformity" and key.source == "own" and other is not None and _place(key) in places:
            yield _place(key)[0], key.setting, number.value, other.value


def _place(key: PublishedKey) -> tuple[str, str, str]:
    return (f"{key.method}[{key.variant}]" if key.variant else key.method, key.setting, key.encoder)
