"""The look of figures, as parts of Vega-Lite specifications, and their rendering as SVG and PDF.

Colours are those of Okabe and Ito (2008), which colour-blind readers can distinguish; marks and dashes differ too, so
that figures can be read in grey. Figures have a white background on light and dark pages.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from harness.formatting import visible
from harness.reporting.charts.plot import ChartSpec, bars_and_line, by_name, quantity
from harness.stats import Summary

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
DASHES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2))
PRINTED, INK, GRID = "#6b6b6b", "#222222", "#dddddd"
#: width and height of a panel in pixels
PANEL = (300, 230)
_CONFIG: ChartSpec = {
    "font": "DejaVu Sans, Verdana, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor"), INK),
        **{"gridColor": GRID, "titleFontWeight": "normal", "titleFontSize": 12, "labelFontSize": 11},
    },
    "title": {"fontSize": 12, "fontWeight": "normal", "color": INK, "anchor": "middle"},
    "legend": {
        **{"orient": "bottom", "labelLimit": 0, "labelColor": INK, "labelFontSize": 11, "symbolSize": 60},
        **{"titleFontWeight": "normal", "titleColor": INK, "titleFontSize": 12, "titleLimit": 0},
    },
    "concat": {"spacing": 25},
}
_ARIA = re.compile(r'\s+aria-[a-z]+="[^"]*"')
_ID, _REFERENCE = re.compile(r'\bid="([^"]*)"'), re.compile(r'(\bid="|url\(#)([^")]*)')


class SeriesLook(NamedTuple):
    """A name of the legend, and how it is drawn."""

    name: str
    colour: str
    shape: str
    dash: Sequence[int] = DASHES[0]


def entry(index: int, name: str) -> SeriesLook:
    """The look of a series by its index; the pairs of colour and mark repeat after 49."""
    turn = index // len(COLOURS)
    shape = SHAPES[(index + turn) % len(SHAPES)]
    return SeriesLook(name, COLOURS[index % len(COLOURS)], shape, DASHES[index % len(DASHES)])


def by_series(entries: Sequence[SeriesLook], columns: int = 2) -> dict[str, ChartSpec]:
    """The encodings of colour, mark and dash by `series`, with one legend."""
    names = [visible(series.name) for series in entries]
    legend: ChartSpec = {"columns": columns, "title": None, "symbolOpacity": 1}
    return {
        "color": by_name("series", names, [series.colour for series in entries], legend),
        "shape": by_name("series", names, [series.shape for series in entries], legend),
        "strokeDash": by_name("series", names, [list(series.dash) for series in entries]),
    }


def rows(values: Iterable[Mapping[str, object]]) -> ChartSpec:
    """The data of a layer, with all digits; control characters in texts are escaped."""
    cleaned = [
        {key: visible(value) if isinstance(value, str) else value for key, value in row.items()} for row in values
    ]
    return {"data": {"values": cleaned}}


def axis(field: str, title: str, **more: object) -> ChartSpec:
    """The encoding of a numeric axis that need not begin at 0."""
    return quantity(field, visible(title), scale={"zero": False, "padding": 12}) | more


def spread(series: str, x: float, summary: Summary) -> dict[str, object]:
    """A mean over seeds as a row of `curves`, with its deviation."""
    std = summary.std or 0.0
    return {"series": series, "x": x, "y": summary.mean, "lo": summary.mean - std, "hi": summary.mean + std}


def lines_at(channel: str, lines: Sequence[tuple[str, float]], colour: str = PRINTED) -> list[ChartSpec]:
    """Straight lines across a panel at places on the axis `channel`, with a legend of their names; none without any."""
    names = list(dict.fromkeys(visible(name) for name, _ in lines))
    dashes = [[4 + 3 * at, 2 + at] for at in range(len(names))]
    stroke = {"symbolType": "stroke", "symbolStrokeColor": colour, "symbolSize": 200}
    dash = by_name("line", names, dashes, {"columns": 2, "title": None, **stroke})
    encoding = {channel: {"field": "at", "type": "quantitative"}, "strokeDash": dash}
    layer = {**rows({"at": at, "line": name} for name, at in lines), "mark": {"type": "rule", "color": colour}}
    return [{**layer, "encoding": encoding}] if lines else []


def curves(
    values: Iterable[Mapping[str, object]], x: ChartSpec, y: ChartSpec, encodings: dict[str, ChartSpec]
) -> ChartSpec:
    """Lines through means `y`, with bars from `lo` to `hi`, by `series`."""
    layers = bars_and_line(y, encodings["strokeDash"], encodings["shape"], 1.5, 40)
    return {**rows(values), "encoding": {"x": x, "color": encodings["color"]}, "layer": layers}


def grid(panels: Sequence[ChartSpec], columns: int = 1, *, share: bool = False) -> ChartSpec:
    """Panels in rows of at most `columns`; `share` gives all of them one vertical scale. Names of params are unique."""
    params = [param for panel in panels for param in panel.get("params", ())]  # allowed at the top level only
    apart = {"resolve": {"scale": {"strokeDash": "independent"}}}  # lines across have dashes and names of their own
    sized = [{"width": PANEL[0], "height": PANEL[1], **panel, **apart, "params": []} for panel in panels]
    resolve = {"resolve": {"scale": {"y": "shared"}}} if share else {}
    return {"concat": sized, "columns": columns, "params": params, **resolve}


def n_of(summaries: Iterable[Summary]) -> str:
    """The number of seeds of some means: `n = 5`, or `n = 2 to 5` if it differs."""
    counts = sorted({summary.n for summary in summaries})
    return f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"


def drawn(title: str, spec: ChartSpec) -> tuple[str, bytes]:
    """Render a figure as an SVG element and a PDF file."""
    import vl_convert

    lines = textwrap.wrap(visible(title), 80)
    heading = {"text": lines, "fontSize": 13, "fontWeight": "bold", "anchor": "middle", "offset": 15}
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "title": heading, "background": "white"}
    svg = vl_convert.vegalite_to_svg({**whole, **spec, "config": _CONFIG, "padding": 10}, vl_version="6.4")
    head, end, rest = _numbered(svg).partition(">")
    titled = f'{head} role="img"{end}<title>{escape(visible(title))}</title>{rest}'
    return _ARIA.sub("", titled), vl_convert.svg_to_pdf(svg)


def _numbered(svg: str) -> str:
    """An SVG whose ids are counted from 0: Vega counts those of all figures of a process."""
    ids = {name: f"id{at}" for at, name in enumerate(dict.fromkeys(_ID.findall(svg)))}
    return _REFERENCE.sub(lambda match: match[1] + ids.get(match[2], match[2]), svg)
