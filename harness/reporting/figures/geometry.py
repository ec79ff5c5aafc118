"""Alignment against uniformity (MCSE Figure 2, NonLing Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.metrics import AVERAGE, Score
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import COLOURS, INK, MARKERS, PRINTED, legend_below, n_of, panels
from harness.stats import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")


class _Point(NamedTuple):
    run: FigureRun
    x: Summary
    y: Summary
    colour: Summary | None


def draw(data: FigureData) -> Drawing | str:
    """One point for each variant and setting, coloured by the STS average."""
    points = []
    for run in data.runs:
        x, y = (run.summary(Score(data.spec.suite, data.task, what)) for what in ("uniformity", "alignment"))
        if x is not None and y is not None:
            points.append(_Point(run, x, y, run.summary(COLOUR)))
    if not points:
        return data.unevaluated
    shown = [point.run for point in points]
    printed = list(_printed(shown, data))
    marks = {
        name: MARKERS[n % len(MARKERS)] for n, name in enumerate(dict.fromkeys(run.label.variant for run in shown))
    }

    def on(figure: Figure) -> None:
        (axes,) = panels(figure, 1)
        _points(figure, axes, points, marks, f"sts average, {data.metric(COLOUR.suite, COLOUR.metric).title}")
        for variant, setting, at_x, at_y in printed:
            axes.scatter([at_x], [at_y], facecolors="none", edgecolors=PRINTED, marker=marks[variant], s=60, zorder=3)
            _name(axes, f"{setting}, printed", at_x, at_y, -9)
        for variant, shape in marks.items():
            name = f"{variant} ({n_of(one.x for one in points if one.run.label.variant == variant)})"
            axes.scatter([], [], color="white", edgecolors=INK, marker=shape, label=name)
        axes.margins(0.2)
        axes.set(xlabel=_axis_label(data, "uniformity"), ylabel=_axis_label(data, "alignment"))
        legend_below(figure, 3)

    text = (
        f"Alignment against uniformity on {data.task}, mean ± standard deviation over seeds; "
        "the colour is the STS average."
    )
    if printed:
        text += " Hollow grey points are printed (KDMCSE Table 2, DALR Table 6)."
    return Drawing(on, (6.4, 4.6), text, shown)


def _points(figure: Figure, axes: Axes, points: Sequence[_Point], marks: Mapping[str, str], label: str) -> None:
    values = [point.colour.mean for point in points if point.colour is not None]
    scale: dict[str, Any] = {}
    if len(values) == len(points):
        low, high = min(values), max(values)
        room = 0.0 if high > low else 1.0
        scale = {"cmap": "cividis", "vmin": low - room, "vmax": high + room}
    for row, (run, x, y, _) in enumerate(points):
        axes.errorbar(x.mean, y.mean, xerr=x.std or None, yerr=y.std or None, color="#999999", linewidth=0.8, zorder=2)
        look = {"c": [values[row]], **scale} if scale else {"color": COLOURS[0]}
        look |= {"s": 60, "edgecolors": INK, "marker": marks[run.label.variant], "zorder": 3, "gid": f"point-{row}"}
        made = axes.scatter([x.mean], [y.mean], **look)
        _name(axes, run.label.setting, x.mean, y.mean, 4)
    if scale:
        figure.colorbar(made, ax=axes, label=label)


def _name(axes: Axes, text: str, x: float, y: float, above: int) -> None:
    axes.annotate(text, (x, y), xytext=(7, above), textcoords="offset points", fontsize=7)


def _axis_label(data: FigureData, name: str) -> str:
    """`uniformity, STS-B-dev (lower is better)`."""
    metric = data.metric(data.spec.suite, name)
    return f"{metric.name}, {data.task}" + ("" if metric.larger_is_better else " (lower is better)")


def _printed(shown: Sequence[FigureRun], data: FigureData) -> Iterator[tuple[str, str, float, float]]:
    """Variant, setting, uniformity and alignment printed for the same runs."""
    places = {run.label[1:4] for run in shown}
    for key, number in data.published.items():
        alignment = data.published.get(key._replace(benchmark="alignment"))
        variant = f"{key.method}[{key.variant}]" if key.variant else key.method
        is_own = (key.benchmark, key.source) == ("uniformity", "own")
        if is_own and alignment and (variant, key.setting, key.encoder) in places:
            yield variant, key.setting, number.value, alignment.value


KIND = FigureKind(draw, suites=(COLOUR.suite,))
