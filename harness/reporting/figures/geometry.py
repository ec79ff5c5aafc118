"""Alignment against uniformity (MCSE Figure 2, NonLing Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.metrics import AVERAGE, Score
from harness.reporting.charts.plot import ChartSpec
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import COLOURS, INK, PRINTED, SeriesLook, axis, by_series, entry, grid, n_of, rows
from harness.stats import Summary

#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")


def draw(data: FigureData) -> Drawing | str:
    """One point for each variant and setting, coloured by the STS average."""
    points = []
    for run in data.runs:
        x, y = (run.summary(Score(data.spec.suite, data.task, what)) for what in ("uniformity", "alignment"))
        if x is not None and y is not None:
            points.append((run, x, y))
    if not points:
        return data.unevaluated
    shown = [run for run, _, _ in points]
    printed = list(_printed(shown, data))
    names = dict.fromkeys(run.label.variant for run in shown)
    seeds = {name: n_of(x for run, x, _ in points if run.label.variant == name) for name in names}
    entries = {name: entry(index, f"{name} ({seeds[name]})") for index, name in enumerate(names)}
    place = {field: axis(field, _axis_label(data, name)) for field, name in (("x", "uniformity"), ("y", "alignment"))}
    unit = f"sts average, {data.metric(COLOUR.suite, COLOUR.metric).title}"
    layers = _layers(points, printed, entries, unit, place)
    text = (
        f"Alignment against uniformity on {data.task}, mean ± standard deviation over seeds; "
        "the colour is the STS average."
    )
    if printed:
        text += " Hollow grey points are printed (KDMCSE Table 2, DALR Table 6)."
    panel = {"width": 400, "height": 300, "layer": layers}
    return Drawing(grid([panel]), text, shown)


def _layers(
    points: Sequence[tuple[FigureRun, Summary, Summary]],
    printed: Sequence[tuple[str, str, float, float]],
    entries: Mapping[str, SeriesLook],
    unit: str,
    place: dict[str, ChartSpec],
) -> list[ChartSpec]:
    """Deviations, points with their settings, and printed points."""
    values = [
        {
            "series": entries[run.label.variant].name,
            "setting": run.label.setting,
            **{"x": x.mean, "x1": x.mean - (x.std or 0.0), "x2": x.mean + (x.std or 0.0)},
            **{"y": y.mean, "y1": y.mean - (y.std or 0.0), "y2": y.mean + (y.std or 0.0)},
            "score": score.mean if (score := run.summary(COLOUR)) else None,
        }
        for run, x, y in points
    ]
    others: list[dict[str, object]] = [
        {"series": entries[variant].name, "setting": f"{setting}, printed", "x": x, "y": y}
        for variant, setting, x, y in printed
    ]
    shape = by_series(list(entries.values()), 3)["shape"]
    shape["legend"] = {"title": None, "columns": 3, "symbolFillColor": "white", "symbolStrokeColor": INK}
    fill: ChartSpec = {"value": COLOURS[0]}
    if all(row["score"] is not None for row in values):
        legend = {"orient": "right", "title": unit, "titleOrient": "right", "gradientLength": 250, "format": ".1f"}
        fill = {
            "field": "score",
            "type": "quantitative",
            "scale": {"scheme": "cividis", "zero": False},
            "legend": legend,
        }
    grey, mark = {"type": "rule", "color": "#999999"}, {"type": "point", "size": 90, "opacity": 1}
    x, y = place["x"], place["y"]
    layers = [
        {"mark": grey, "encoding": {"x": {**x, "field": "x1"}, "x2": {"field": "x2"}, "y": y}},
        {"mark": grey, "encoding": {"x": x, "y": {**y, "field": "y1"}, "y2": {"field": "y2"}}},
        {"mark": {**mark, "stroke": INK, "strokeWidth": 1}, "encoding": {**place, "shape": shape, "fill": fill}},
        _names(place, -6),
    ]
    hollow = {"mark": {**mark, "stroke": PRINTED, "fill": None}, "encoding": {**place, "shape": shape}}
    return [
        {**rows(values), "layer": layers},
        *([{**rows(others), "layer": [hollow, _names(place, 9)]}] if others else []),
    ]


def _names(place: Mapping[str, ChartSpec], below: int) -> ChartSpec:
    text = {"type": "text", "align": "left", "dx": 8, "dy": below, "fontSize": 9, "color": INK}
    return {"mark": text, "encoding": {**place, "text": {"field": "setting", "type": "nominal"}}}


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
