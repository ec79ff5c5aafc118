"""Training curves: a line for each variant, its seeds behind it, and values on hover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from harness.reporting.charts.curves import X_LABEL, Chart, Points, SeedRuns, Series, charts, run_charts
from harness.reporting.charts.plot import (
    SOFT,
    ChartSpec,
    LegendEntry,
    Plot,
    hiding,
    look,
    rows_of,
    variant_scales,
)
from harness.store import Result

#: points of a line, and lines of single seeds in a chart: a page stays small
MOST_POINTS, MOST_SEED_LINES = 80, 60
HEIGHT = 210
#: settings and encoders on one page; pages of runs have the curves of all
MOST_PLACES = 24


class CurvePlace(NamedTuple):
    """The curves of one setting and encoder: a legend for all its charts, of dev scores and of loss terms."""

    key: str
    title: str
    legend: tuple[LegendEntry, ...]
    plots: tuple[Plot, ...]


def curve_places(runs: SeedRuns) -> list[CurvePlace]:
    """The charts of the runs in the tables, by setting and encoder, of at most MOST_PLACES of these."""
    places = sorted({(label.setting, label.encoder) for label in runs})[:MOST_PLACES]
    shown = {label: mine for label, mine in runs.items() if (label.setting, label.encoder) in places}
    found: dict[str, list[Chart]] = {}
    for chart in charts(shown):
        found.setdefault(chart.place, []).append(chart)
    return [_place(place, mine) for place, mine in found.items()]


def run_plots(result: Result) -> list[Plot]:
    """The dev scores and loss terms of one run."""
    return [_plot(chart, f"curve-{chart.term or 'dev'}", _legend([chart])) for chart in run_charts(result)]


def _place(place: str, mine: Sequence[Chart]) -> CurvePlace:
    legend = _legend(mine)
    plots = tuple(_plot(chart, f"curve-{place}-{chart.term or 'dev'}", legend) for chart in mine)
    return CurvePlace(f"curves-{place}", place + mine[0].left_out, legend, plots)


def _legend(mine: Sequence[Chart]) -> tuple[LegendEntry, ...]:
    """An entry for each variant of some charts, the baseline first."""
    series = {one.index: one for chart in mine for one in chart.series}
    return tuple(
        LegendEntry(index + 1, series[index].name, look(index), len(series[index].seeds)) for index in sorted(series)
    )


def _plot(chart: Chart, key: str, legend: Sequence[LegendEntry]) -> Plot:
    rows = [row for series in chart.series for row in _rows(series)]
    lines = sum(len(series.seeds) for series in chart.series if len(series.seeds) > 1)
    if chart.show_seeds and lines <= MOST_SEED_LINES:
        rows += [row for series in chart.series for row in _seed_rows(series)]
    title = f"Loss term {chart.term}" if chart.term else "Dev score"
    return Plot(key, title, _spec(chart, rows, legend), unscripted="The values are in the result files.")


def _rows(series: Series) -> Iterator[Mapping[str, object]]:
    """The mean at each step, and the smallest and largest seed."""
    tables = [dict(points) for points in series.seeds]
    for x, y in _thinned(series.mean):
        ys = [table[x] for table in tables]
        yield {"v": series.index + 1, "x": x, "y": y, "lo": min(ys), "hi": max(ys)}


def _seed_rows(series: Series) -> Iterator[Mapping[str, object]]:
    for seed, points in enumerate(series.seeds if len(series.seeds) > 1 else ()):
        for x, y in _thinned(points):
            yield {"v": series.index + 1, "x": x, "y": y, "s": seed}


def _thinned(points: Points) -> Points:
    """At most MOST_POINTS of a line, evenly, its last one among them."""
    step = -(-len(points) // MOST_POINTS)
    return points if step <= 1 else points[-1::-step][::-1]


def _spec(chart: Chart, rows: Sequence[Mapping[str, object]], legend: Sequence[LegendEntry]) -> ChartSpec:
    colour, dash, _ = variant_scales(legend)
    params, transform = hiding(legend)
    hover = {"type": "point", "on": "pointerover", "clear": "pointerout", "fields": ["v"], "nearest": True}
    alone = any(len(series.mean) == 1 for series in chart.series)
    shown = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 1 if alone else 0}
    whole = {"filter": "!isValid(datum.s)"}
    return {
        **rows_of(rows),
        **transform,
        "params": params,
        "height": HEIGHT,
        "description": f"{chart.y_label} against {X_LABEL}",
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": X_LABEL, "axis": {"grid": False, "tickCount": 5}},
            "y": {"field": "y", "type": "quantitative", "title": chart.y_label, "scale": {"zero": False}},
            "color": colour,
        },
        "layer": [
            *([_seeds()] if any("s" in row for row in rows) else []),
            {
                "transform": [whole],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {
                    "strokeDash": dash,
                    "opacity": {"condition": {"param": "near", "empty": True, "value": 1}, "value": 0.12},
                },
            },
            {
                "transform": [whole],
                "params": [{"name": "near", "select": hover}],
                "mark": {"type": "point", "filled": True, "size": 45, "stroke": SOFT, "strokeWidth": 0},
                "encoding": {"opacity": shown, "tooltip": _hovered(chart)},
            },
        ],
    }


def _seeds() -> ChartSpec:
    return {
        "transform": [{"filter": "isValid(datum.s)"}],
        "mark": {"type": "line", "strokeWidth": 1},
        "encoding": {
            "detail": {"field": "s", "type": "nominal"},
            "opacity": {"condition": {"param": "near", "empty": True, "value": 0.3}, "value": 0.04},
        },
    }


def _hovered(chart: Chart) -> ChartSpec:
    """The tooltip as an expression, since Vega-Lite 6.4 loses texts of the nearest point."""
    several = any(len(series.seeds) > 1 for series in chart.series)
    shown = [("step", "x", ","), ("mean over seeds" if several else "value", "y", ".4~g")]
    shown += [("smallest seed", "lo", ".4~g"), ("largest seed", "hi", ".4~g")] if several else []
    numbers = (f"'{title}': format((datum.datum || datum).{field}, '{style}')" for title, field, style in shown)
    return {"value": {"expr": f"{{'variant': (datum.datum || datum).variant, {', '.join(numbers)}}}"}}
