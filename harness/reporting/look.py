"""The look of charts and figures, as parts of Vega-Lite specifications; figures are rendered here
as SVG and PDF.

Charts are drawn by pages. Their colours are names of the style sheet (`var(--c0)`), so that they
follow the theme and print. Figures have the size and the text of 7.5 pt that they have in a paper,
a white background and the colours of Okabe and Ito (2008), which colour-blind readers can tell
apart; marks and dashes differ too, so that they can be read in grey. Texts of results stand in a
specification as data only, never in an expression. What is rendered is kept in the cache for a
week, since most figures of a report are those of the report before.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from xml.sax.saxutils import escape

from harness.caches import get_cache_folder, read_or_make_note
from harness.files import hash_text, remove_leftovers
from harness.formatting import for_csv, visible
from harness.method.naming import VariantName
from harness.sources import hash_file
from harness.stats import Summary

#: a Vega-Lite specification or a part of one
ChartSpec = dict[str, Any]
K = TypeVar("K")

#: of charts: colours of the style sheet after the ink of the baseline, dashes, shapes, and the
#: looks that differ
COLOURS = 7
DASHES = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3), (14, 4))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
LOOKS = COLOURS * len(DASHES)
INK = "var(--ink)"
SOFT = "var(--soft)"
GROUND = "var(--ground)"
#: longest line of a name beside an axis and of an axis's title, in characters
LONGEST = 30
LONGEST_TITLE = 28
#: an axis of names, which needs no lines
NO_LINES = {"domain": False, "ticks": False, "grid": False}
#: of figures: colours, shapes and dashes of series, and the colours of lines and texts
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
STROKES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2))
_DIVERGING = (
    "#f2a66f",
    "#f7c29c",
    "#fbdcc6",
    "#fdeee3",
    "#f4f4f2",
    "#e6f0f8",
    "#c8dff0",
    "#9fc8e5",
    "#74afd8",
)
PRINTED = "#6b6b6b"
BLACK = "#222222"
GRID = "#dddddd"
#: of figures, in points of PDF: widths that fit a column and the page in the style of ACL, as in
#: IEEE's; heights; text
WIDTHS = {"column": 218, "page": 452}
PANEL_HEIGHT = 160
TEXT = 7.5
AXIS = 40
LEGEND_MARK = 22
#: digits of numbers in charts
DIGITS = 6
#: of PNG files: 300 dots an inch
PNG_SCALE = 300 / 72
_PLAIN: ChartSpec = {"titleFontWeight": "normal", "titleFontSize": TEXT, "labelFontSize": TEXT}
_CONFIG: ChartSpec = {
    "font": "Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_PLAIN,
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor"), BLACK),
        "gridColor": GRID,
        "gridWidth": 0.5,
        "domainWidth": 0.5,
        "tickWidth": 0.5,
        "tickSize": 3,
    },
    "title": {
        "fontSize": TEXT,
        "fontWeight": "normal",
        "color": BLACK,
        "anchor": "middle",
        "offset": 4,
    },
    "legend": {
        **_PLAIN,
        "orient": "bottom",
        "labelLimit": 195,
        "labelColor": BLACK,
        "symbolSize": 30,
        "offset": 6,
        "titleColor": BLACK,
        "titleLimit": 0,
        "rowPadding": 1,
        "columnPadding": 8,
        "symbolStrokeWidth": 1,
        "layout": {"bottom": {"direction": "vertical", "anchor": "start", "margin": 2}},
    },
    "concat": {"spacing": 10},
}
#: colours of the style sheet as a figure has them: a reader who is colour-blind, or prints in grey,
#: can tell them apart
_ON_PAPER = {
    "ink": BLACK,
    "soft": PRINTED,
    "ground": "#ffffff",
    "hair": GRID,
    "good": PALETTE[0],
    "bad": PALETTE[1],
    **{f"c{at}": colour for at, colour in enumerate(PALETTE)},
    **{f"d{at}": colour for at, colour in enumerate(_DIVERGING)},
}
_STYLED = re.compile(r"var\(--([a-z0-9]+)\)")
_ARIA = re.compile(r'\s+aria-[a-z]+="[^"]*"')
_ID = re.compile(r'\bid="([^"]*)"')
_WIDTH = re.compile(r'width="([\d.]+)"')
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_REFERENCE = re.compile(r'(\bid="|url\(#)([^")]*)')


class Look(NamedTuple):
    """How a variant or a series is drawn; `name` is that of a figure's legend."""

    colour: str
    dash: tuple[int, ...]
    shape: str
    name: str = ""


class LegendEntry(NamedTuple):
    """An entry of a legend: a variant's number in the specification, its name, its look, and the
    seeds of its points in words.

    A `hidden` one is drawn only after a click.
    """

    number: int
    name: VariantName
    look: Look
    seeds: str
    hidden: bool = False


@dataclass(frozen=True)
class Plot:
    """A chart. `key` is its id on a page, `text` says how to read it, `unscripted` where else its
    numbers are, as text.

    `legend` entries hide and show their variants.
    """

    key: str
    title: str
    spec: ChartSpec
    text: str = ""
    legend: tuple[LegendEntry, ...] = ()
    unscripted: str = "The numbers stand in the tables."


def choose_variant_look(index: int) -> Look:
    """The look of a variant by its index; -1 is the baseline, in ink. No two of the first LOOKS
    look alike.
    """
    if index < 0:
        return Look(INK, DASHES[0], "circle")
    # each turn of the colours shifts the shapes, so that no pair of both repeats
    turn = index // COLOURS
    return Look(
        f"var(--c{index % COLOURS})",
        DASHES[turn % len(DASHES)],
        SHAPES[(index + turn) % len(SHAPES)],
    )


def choose_series_look(index: int, name: str) -> Look:
    """The look of a figure's series by its index; the pairs of colour and mark repeat after 49."""
    # each turn of the colours shifts the marks, so that no pair of both repeats
    turn = index // len(PALETTE)
    shape = MARKS[(index + turn) % len(MARKS)]
    return Look(PALETTE[index % len(PALETTE)], STROKES[index % len(STROKES)], shape, name)


def choose_looks(names: Iterable[str]) -> list[Look]:
    """The looks of a figure's series, in the order of their names."""
    return [choose_series_look(at, name) for at, name in enumerate(names)]


def choose_counted_looks(
    summaries: Mapping[K, Sequence[Summary]], names: Iterable[object]
) -> dict[K, Look]:
    """The look of each series by its key; its name in the legend has the seeds of its means."""
    looks = {}
    for at, (key, name) in enumerate(zip(summaries, names, strict=True)):
        looks[key] = choose_series_look(at, f"{name} ({count_seeds(summaries[key])})")
    return looks


def encode_looks(
    field: str, names: Sequence[object], looks: Sequence[Look], legend: ChartSpec | None = None
) -> dict[str, ChartSpec]:
    """The encodings of colour, mark and dash by a field, with one legend of colours and marks."""
    return {
        "color": encode_by_name(field, names, [drawn.colour for drawn in looks], legend),
        "shape": encode_by_name(field, names, [drawn.shape for drawn in looks], legend),
        "strokeDash": encode_by_name(field, names, [list(drawn.dash) for drawn in looks]),
    }


def encode_series(looks: Sequence[Look]) -> dict[str, ChartSpec]:
    """The encodings of a figure by `series`, with a legend of as many columns as a column of a
    paper has room for.
    """
    names = [series.name for series in looks]
    legend = {**_make_column_legend(names), "symbolOpacity": 1}
    return encode_looks("series", list(map(visible, names)), looks, legend)


def _make_column_legend(names: Sequence[str]) -> ChartSpec:
    """A legend without a title, of as many columns as fit into a column of a paper."""
    longest = max(map(len, names), default=0)
    entry_width = LEGEND_MARK + 0.5 * TEXT * longest
    columns = int(WIDTHS["column"] // entry_width)
    return {"columns": max(1, columns), "title": None}


def encode_variants(entries: Sequence[LegendEntry]) -> dict[str, ChartSpec]:
    """The encodings of a chart by a variant's number `v`."""
    numbers = [entry.number for entry in entries]
    return encode_looks("v", numbers, [entry.look for entry in entries])


def make_data(values: Iterable[Mapping[str, object]], digits: int | None = None) -> ChartSpec:
    """The data of a specification or a layer; numbers are rounded to `digits`, to keep pages small."""
    return {"data": {"values": [_clean_row(row, digits) for row in values]}}


def _clean_row(row: Mapping[str, object], digits: int | None) -> dict[str, object]:
    return {key: clean_value(value, digits) for key, value in row.items()}


def clean_value(value: object, digits: int | None = DIGITS) -> object:
    """A number rounded to so many digits; a text with its control characters escaped."""
    if isinstance(value, float) and digits is not None:
        return float(f"{value:.{digits}g}")
    return visible(value) if isinstance(value, str) else value


def read_number(text: str) -> float | None:
    """A text as a finite number; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def encode_quantity(field: str, **more: object) -> ChartSpec:
    """The encoding of a field of numbers."""
    return {"field": field, "type": "quantitative", **more}


def encode_interval(
    channel: str, axis: ChartSpec, low: str = "lo", high: str = "hi"
) -> dict[str, ChartSpec]:
    """The encodings of a bar on the axis of a channel, x or y, from one field to another."""
    return {channel: {**axis, "field": low}, f"{channel}2": {"field": high}}


def encode_nominal(field: str, **more: object) -> ChartSpec:
    """The encoding of a field of names."""
    return {"field": field, "type": "nominal", **more}


def make_layer(mark: str, encoding: Mapping[str, object], **shown: object) -> ChartSpec:
    """A layer of marks, such as points or rules, with their look."""
    return {"mark": {"type": mark, **shown}, "encoding": encoding}


def make_data_layer(
    values: Iterable[Mapping[str, object]],
    mark: str,
    encoding: Mapping[str, object],
    **shown: object,
) -> ChartSpec:
    """A layer of marks that has data of its own."""
    return {**make_data(values), **make_layer(mark, encoding, **shown)}


def encode_axis(field: str, title: str, **more: object) -> ChartSpec:
    """The encoding of a numeric axis that need not begin at 0."""
    lines = textwrap.wrap(visible(title), LONGEST_TITLE)
    axis = encode_quantity(field, title=lines, scale={"zero": False, "padding": 8})
    return {**axis, **more}


def encode_names(names: Sequence[str]) -> tuple[ChartSpec, int, list[ChartSpec]]:
    """The encoding of a row for each name, the height of all rows, and the parameter that holds the
    names.

    Rows are the numbers `i` of the data.
    """
    lines = [wrap_name(name) for name in names]
    most_lines = max(map(len, lines))
    row_height = 13 + 12 * most_lines

    labels = {"title": None, "labelExpr": "names[datum.value]", "labelLimit": 0, **NO_LINES}
    rows = {"domain": list(range(len(names)))}
    row = encode_nominal("i", sort=None, scale=rows, axis=labels)
    return row, len(names) * row_height, [{"name": "names", "value": lines}]


def wrap_name(name: str) -> list[str]:
    """A name in at most two lines of LONGEST characters."""
    lines = textwrap.wrap(visible(name), LONGEST, break_on_hyphens=False) or [""]
    return lines if len(lines) <= 2 else [lines[0], lines[1][: LONGEST - 1] + "…"]


def encode_by_name(
    field: str, names: Iterable[object], values: Iterable[object], legend: ChartSpec | None = None
) -> ChartSpec:
    """The encoding of colour, dash or shape with a value for each name that the field has."""
    scale = {"domain": list(names), "range": list(values)}
    return encode_nominal(field, legend=legend, scale=scale)


#: the ends of an upright line across a panel, whatever places the panel has
UPRIGHT: ChartSpec = {"y": {"value": 0}, "y2": {"value": "height"}}


def draw_line(encoding: ChartSpec, **shown: object) -> ChartSpec:
    """The layer of a straight line across a panel, in ink unless `shown` says otherwise."""
    return make_data_layer([{}], "rule", encoding, **{"color": INK, **shown})


def draw_bars_and_line(
    y: ChartSpec, by: Mapping[str, ChartSpec], width: float, size: int, **more: object
) -> list[ChartSpec]:
    """Layers of bars from `lo` to `hi`, a line through means `y`, and their points, with `more`
    encodings.
    """
    line = {"y": y, "strokeDash": by["strokeDash"]}
    point = {"y": y, "shape": by["shape"], **more}
    return [
        make_layer("rule", encode_interval("y", y), strokeWidth=1.5),
        make_layer("line", line, strokeWidth=width),
        make_layer("point", point, filled=True, size=size, opacity=1),
    ]


def make_hiding(entries: Sequence[LegendEntry]) -> tuple[list[ChartSpec], ChartSpec]:
    """The parameters with the hidden variants and their names, and the transforms that apply them."""
    hidden = [entry.number for entry in entries if entry.hidden]
    last = max((entry.number for entry in entries), default=0)
    names = [""] * (last + 1)
    for entry in entries:
        names[entry.number] = visible(str(entry.name))

    params: list[ChartSpec] = [
        {"name": "hidden", "value": hidden},
        {"name": "names", "value": names},
    ]
    transforms = [
        {"filter": "indexof(hidden, datum.v) < 0"},
        {"calculate": "names[datum.v]", "as": "variant"},
    ]
    return params, {"transform": transforms}


def make_tooltip(*fields: tuple[str, str] | tuple[str, str, str]) -> list[ChartSpec]:
    """The lines of a tooltip: field, heading, and the format of a number."""
    lines: list[ChartSpec] = []
    for field, title, *number_format in fields:
        line: ChartSpec = {"field": field, "title": title}
        if number_format:
            line["format"] = number_format[0]
        line["type"] = "quantitative" if number_format else "nominal"
        lines.append(line)
    return lines


def make_curve_point(
    series: str, x: float, summary: Summary, source: Mapping[str, object]
) -> dict[str, object]:
    """A mean over seeds as a row of `draw_curves`, with its deviation, its seeds and what it is from."""
    std = summary.std or 0.0
    return {
        "series": series,
        "x": x,
        "y": summary.mean,
        "lo": summary.mean - std,
        "hi": summary.mean + std,
        "n": summary.n,
        **source,
    }


class LineAcross(NamedTuple):
    """A straight line across a panel, at a place on an axis; a measured one is from a `source`."""

    name: str
    at: float
    source: Mapping[str, object] = MappingProxyType({})


def draw_lines(channel: str, lines: Sequence[LineAcross], colour: str = PRINTED) -> list[ChartSpec]:
    """Lines across a panel at places on the axis `channel`, with a legend of their names; none
    without any.
    """
    if not lines:
        return []

    names = list(dict.fromkeys(visible(line.name) for line in lines))
    # each dash is longer than the one before
    dashes = [[4 + 3 * at, 2 + at] for at in range(len(names))]
    symbol = {"symbolType": "stroke", "symbolStrokeColor": colour, "symbolSize": 200}
    dash = encode_by_name("line", names, dashes, {**_make_column_legend(names), **symbol})

    encoding = {channel: encode_quantity("at"), "strokeDash": dash}
    rows = [{"at": line.at, "line": line.name, **line.source} for line in lines]
    return [make_data_layer(rows, "rule", encoding, color=colour)]


def draw_curves(
    values: Iterable[Mapping[str, object]], x: ChartSpec, y: ChartSpec, by: Mapping[str, ChartSpec]
) -> ChartSpec:
    """Lines through means `y`, with bars from `lo` to `hi`, by `series`."""
    layers = draw_bars_and_line(y, by, 1.5, 40)
    return {**make_data(values), "encoding": {"x": x, "color": by["color"]}, "layer": layers}


def join_panels(panels: Sequence[ChartSpec], *, share: bool = False) -> ChartSpec:
    """One panel as wide as a column unless it says otherwise, or several across the page; names of
    params are unique.

    `share` gives all of them one vertical scale.
    """
    # lines across have dashes and names of their own
    apart = {"resolve": {"scale": {"strokeDash": "independent"}}}
    if len(panels) == 1:
        fitted = {"autosize": {"type": "fit", "contains": "padding"}, "width": WIDTHS["column"]}
        return {**fitted, "height": PANEL_HEIGHT, **panels[0], **apart}

    columns = 3 if len(panels) == 3 else 2
    size = {"width": WIDTHS["page"] / columns - AXIS, "height": 0.6 * PANEL_HEIGHT}
    params: list[ChartSpec] = []
    placed = []
    for panel in panels:
        # params are allowed at the top level only
        params += panel.get("params", ())
        placed.append({**panel, **size, **apart, "params": []})

    joined: ChartSpec = {"concat": placed, "columns": columns, "params": params}
    if share:
        joined["resolve"] = {"scale": {"y": "shared"}}
    return joined


def count_seeds(summaries: Iterable[Summary]) -> str:
    """The number of seeds of some means: `n = 5`, or `n = 2 to 5` if it differs."""
    return format_counts(summary.n for summary in summaries)


def format_counts(counts: Iterable[int]) -> str:
    """Some numbers of seeds in words: `n = 5`, or `n = 2 to 5` if they differ."""
    fewest, *others = sorted(set(counts))
    return f"n = {fewest} to {others[-1]}" if others else f"n = {fewest}"


def make_paper_spec(plot: Plot, width: str = "page") -> ChartSpec:
    """The specification of a page's chart as that of a figure, as wide as a column or the page of a
    paper, in the colours of figures and with a legend of its own.
    """
    text = _STYLED.sub(lambda name: _ON_PAPER[name[1]], json.dumps(plot.spec))
    figure: ChartSpec = json.loads(text)

    other_width = "wide" if width == "column" else "narrow"
    layers = figure.get("layer", [])
    figure["layer"] = [
        layer for layer in layers if not layer.get("name", "").startswith(other_width)
    ]
    if plot.legend:
        _add_legend(figure)
    figure |= {"width": WIDTHS[width], "autosize": {"type": "fit-x", "contains": "padding"}}
    return figure


def _add_legend(part: Any) -> None:
    """Give the colours of variants, which a page explains beside its chart, a legend with their
    names.
    """
    inner_parts = part if isinstance(part, list) else []
    if isinstance(part, dict):
        colour = part.get("color")
        if isinstance(colour, dict) and colour.get("field") == "v":
            colour["legend"] = {"title": None, "labelExpr": "names[datum.value]", "columns": 2}
        inner_parts = list(part.values())

    for inner in inner_parts:
        _add_legend(inner)


class Picture(NamedTuple):
    """A rendered figure: an SVG element, files of PDF and PNG, and its data as CSV."""

    svg: str = ""
    pdf: bytes = b""
    png: bytes = b""
    data: str = ""

    @property
    def files(self) -> dict[str, bytes]:
        """The content of each of its files by suffix."""
        return {
            "pdf": self.pdf,
            "svg": self.svg.encode(),
            "png": self.png,
            "csv": self.data.encode(),
        }


def draw_picture(title: str, spec: ChartSpec) -> Picture:
    """Render a figure. The title is not drawn, which a caption has; it is the name of the SVG
    element.
    """
    # whatever the files depend on but the fonts of the machine
    drawn_by = [version("vl-convert-python"), hash_file(Path(__file__))]
    key = hash_text(json.dumps([*drawn_by, spec]))
    then = "the figure will be drawn again"
    files = read_or_make_note(f"{_FIGURES}/{key}.json", then, lambda: _draw_files(spec))

    head, end, rest = files["svg"].partition(">")
    titled = f'{head} role="img"{end}<title>{escape(visible(title))}</title>{rest}'
    pdf = b64decode(files["pdf"])
    png = b64decode(files["png"])
    return Picture(_ARIA.sub("", titled), pdf, png, make_data_table(spec))


#: the folder of rendered figures in the cache, and for how long they are kept
_FIGURES = "figures"
_KEPT_S = 7 * 24 * 3600


def _draw_files(spec: ChartSpec) -> dict[str, str]:
    """The files of a figure by suffix: the SVG without a title, and PDF and PNG in base64."""
    import vl_convert

    remove_leftovers(get_cache_folder() / _FIGURES, "*.json", _KEPT_S)
    svg = _render(spec)
    panels = spec.get("concat")
    if panels:
        # the width of the axes is known only now; the panels get what is left of the page
        width = float(_WIDTH.findall(svg)[0])
        widening = (WIDTHS["page"] - width) / min(spec["columns"], len(panels))
        wider = [{**panel, "width": panel["width"] + widening} for panel in panels]
        svg = _render({**spec, "concat": wider})

    pdf = vl_convert.svg_to_pdf(svg)
    png = vl_convert.svg_to_png(svg, scale=PNG_SCALE)
    files = {"pdf": b64encode(pdf).decode(), "png": b64encode(png).decode()}
    return {"svg": _replace_ids(svg), **files}


def _render(spec: ChartSpec) -> str:
    """A specification as SVG, in the look of figures."""
    import vl_convert

    figure = {"$schema": _SCHEMA, "background": "white", **spec, "config": _CONFIG, "padding": 2}
    svg: str = vl_convert.vegalite_to_svg(figure, vl_version="6.4")
    return svg


def make_data_table(spec: ChartSpec) -> str:
    """The data of a figure as CSV, row by row of its panels and layers."""
    import pandas

    rows: list[dict[str, object]] = []
    for panel in spec.get("concat", [spec]):
        for row in _list_data_rows(panel):
            texts = {key: for_csv(value) for key, value in row.items()}
            rows.append({"panel": panel.get("title", ""), **texts})
    return pandas.DataFrame(rows, dtype=object).to_csv(index=False, lineterminator="\n")


def _list_data_rows(part: ChartSpec) -> Iterator[Mapping[str, object]]:
    yield from filter(None, part.get("data", {}).get("values", ()))
    for layer in part.get("layer", ()):
        yield from _list_data_rows(layer)


def _replace_ids(svg: str) -> str:
    """An SVG whose ids are counted from 0: Vega counts those of all figures of a process."""
    names = dict.fromkeys(_ID.findall(svg))
    ids = {name: f"id{at}" for at, name in enumerate(names)}
    return _REFERENCE.sub(lambda match: match[1] + ids.get(match[2], match[2]), svg)
