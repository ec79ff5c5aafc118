"""Forest plots: what each variant gains over the baseline, with 95 % intervals, best first."""

from __future__ import annotations

from harness.formatting import signed
from harness.reporting.charts.plot import (
    GROUND,
    INK,
    SOFT,
    ChartSpec,
    Plot,
    by_name,
    line_at,
    named_axis,
    rows_of,
    tooltip,
)
from harness.reporting.seeds.forest import Forest, Gain
from harness.reporting.seeds.words import judged
from harness.reporting.tables.grids import summary_text

#: variants in one plot; further ones are in the table
MOST_ROWS = 40
#: so few ticks that all have a label, zero too, at any width
_TICKS = {"tickCount": {"expr": "clamp(floor(width / 80), 2, 8)"}, "labelOverlap": False}
_COLOURS = {
    "better": "var(--good)",
    "worse": "var(--bad)",
    "not significant": SOFT,
    "not tested": SOFT,
    "baseline": INK,
    "untrained": "var(--c3)",
    "other pooling": "var(--c3)",
}
_COLOUR = by_name("kind", _COLOURS, _COLOURS.values())


def forest_plot(forest: Forest) -> Plot:
    """Draw a forest."""
    metric, base = forest.table.metric(forest.column), forest.base
    shown = forest.gains[:MOST_ROWS]
    unit = metric.title + ("" if metric.larger_is_better else ", lower is better: sign turned")
    axis = [f"difference to {forest.baseline}" if base else f"{forest.table.suite} average", unit]
    row, height, params = named_axis([f"{gain.name}{gain.row.weakness([forest.column]).marks}" for gain in shown])
    zero: ChartSpec = {"x": {"datum": 0, "type": "quantitative", "axis": None}, "y": None}
    spec: ChartSpec = {
        **rows_of([_values(forest, index, gain) for index, gain in enumerate(shown)]),
        "params": params,
        "height": height,
        "description": f"{', '.join(axis)}, {forest.place}",
        "encoding": {"y": row},
        "layer": [*([line_at(zero, strokeWidth=1)] if base else []), _interval(), _points(axis, forest)],
        "resolve": {"axis": {"x": "independent"}},
    }
    key = f"forest-{forest.table.profile}-{forest.table.suite}{forest.table.about}-{forest.place}"
    title = f"{forest.place}, profile {forest.table.profile}: {forest.table.suite} average"
    return Plot(key, title, spec, _text(forest), unscripted="The sentences and tables have the same numbers.")


def _values(forest: Forest, index: int, gain: Gain) -> dict[str, object]:
    digits, summary = forest.table.metric(forest.column).digits, gain.cell.summary
    interval = f"{signed(gain.low, digits)} to {signed(gain.high, digits)}" if gain.low < gain.high else "none"
    return {
        "i": index,
        "x": gain.size,
        "lo": gain.low,
        "hi": gain.high,
        "name": str(gain.name),
        "code": gain.name.code,
        "score": str(summary_text(summary, digits)),
        "seeds": summary.n,
        "size": signed(gain.size, digits) if forest.base else "–",
        "interval": interval,
        "test": "; ".join(filter(None, (_tested(gain), str(gain.row.weakness([forest.column]))))),
        "kind": gain.kind,
        "certain": gain.certain or gain.kind in ("baseline", "untrained"),
    }


def _tested(gain: Gain) -> str:
    if not judged(gain.cell) or not gain.row.is_trained:
        return "untrained, at another pooling" if gain.kind == "other pooling" else gain.kind
    return judged(gain.cell)


def _interval() -> ChartSpec:
    above = {"orient": "top", "title": None, "grid": False, **_TICKS}
    ends = {"x": {"field": "lo", "type": "quantitative", "axis": above}, "x2": {"field": "hi"}}
    return {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": ends | {"color": _COLOUR}}


def _points(axis: list[str], forest: Forest) -> ChartSpec:
    scale: ChartSpec = {"zero": forest.base is not None, "padding": 12}
    lines = tooltip(
        ("name", "variant"),
        ("code", "code"),
        ("score", "mean ± deviation"),
        ("seeds", "seeds"),
        *([("size", "difference")] if forest.base else []),
        ("interval", "95 % interval"),
        ("test", "test"),
    )
    fill = {"condition": {"test": "datum.certain", **_COLOUR}, "value": GROUND}
    return {
        "mark": {"type": "point", "size": 80, "strokeWidth": 2, "opacity": 1},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": axis, "scale": scale, "axis": _TICKS},
            "stroke": _COLOUR,
            "fill": fill,
            "tooltip": lines,
        },
    }


def _text(forest: Forest) -> str:
    left_out = len(forest.gains) - MOST_ROWS
    more = f" The best {MOST_ROWS} of {len(forest.gains)} rows." if left_out > 0 else ""
    more = " ".join((more, *forest.notes)).rstrip()
    if forest.base is None:
        return f"Means over seeds with 95 % intervals (t). There is no {forest.baseline} run to compare." + more
    alone = [gain for gain in forest.gains if gain.kind == "not tested"]
    few = " Points without a bar have too few seeds to test." if any(one.low == one.high for one in alone) else ""
    other = f" Not tested: {forest.baseline} with other values." if any(one.low < one.high for one in alone) else ""
    kinds = {gain.kind for gain in forest.gains}
    untrained = " Pink: untrained." if "untrained" in kinds else ""
    untrained += " Hollow pink: untrained, at another pooling than the trained." if "other pooling" in kinds else ""
    return (
        f"Mean difference to {forest.baseline} with its 95 % interval (t-test). Green: better, red: worse, grey: not "
        f"significant. Filled: also after Holm's correction; hollow: alone.{untrained}{few}{other}{more}"
    )
