"""The class of a chart on a page, and the parts that several charts share.

Texts of results stand in a specification as data only, never in an expression. Colours are names of the page's style
sheet (`var(--c0)`), so that a chart follows the theme and print.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.formatting import visible
from harness.method.naming import VariantName

#: a Vega-Lite specification or a part of one
ChartSpec = dict[str, Any]

#: colours of the style sheet, after the ink of the baseline
COLOURS = 7
DASHES = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3), (14, 4))
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
#: looks that differ
LOOKS = COLOURS * len(DASHES)
INK, SOFT, HAIR, GROUND = "var(--ink)", "var(--soft)", "var(--rule)", "var(--ground)"
#: longest line of a name beside an axis, in characters
LONGEST = 30


class Look(NamedTuple):
    """How the line of a variant is drawn."""

    colour: str
    dash: tuple[int, ...]
    shape: str


class LegendEntry(NamedTuple):
    """An entry of a legend: a variant's number in the specification, its name, look and number of seeds.

    A `hidden` one is drawn only after a click.
    """

    number: int
    name: VariantName
    look: Look
    seeds: int
    hidden: bool = False


@dataclass(frozen=True)
class Plot:
    """A chart. `key` is its id on a page, `text` says how to read it, `unscripted` where else its numbers are, as text.

    `legend` entries hide and show their variants.
    """

    key: str
    title: str
    spec: ChartSpec
    text: str = ""
    legend: tuple[LegendEntry, ...] = ()
    unscripted: str = "The numbers stand in the tables."


def look(index: int) -> Look:
    """The look of a variant by its index; -1 is the baseline, in ink. No two of the first LOOKS look alike."""
    if index < 0:
        return Look(INK, DASHES[0], "circle")
    turn = index // COLOURS
    return Look(f"var(--c{index % COLOURS})", DASHES[turn % len(DASHES)], SHAPES[(index + turn) % len(SHAPES)])


def rows_of(values: Sequence[Mapping[str, object]]) -> ChartSpec:
    """The data of a specification."""
    return {"data": {"values": [{key: plain(value) for key, value in row.items()} for row in values]}}


def plain(value: object) -> object:
    """A number rounded to six digits, to keep pages small; a text with its control characters escaped."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return visible(value) if isinstance(value, str) else value


def number(text: str) -> float | None:
    """A text as a finite number; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def quantity(field: str, title: object, **more: object) -> ChartSpec:
    """The encoding of a field of numbers."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def named_axis(names: Sequence[str]) -> tuple[ChartSpec, int, list[ChartSpec]]:
    """The encoding of a row for each name, the height of all rows, and the parameter that holds the names.

    Rows are the numbers `i` of the data.
    """
    lines = [_wrapped(name) for name in names]
    axis = {"title": None, "labelExpr": "names[datum.value]", "labelLimit": 0, "domain": False, "ticks": False}
    scale = {"domain": list(range(len(names)))}
    row = {"field": "i", "type": "nominal", "sort": None, "scale": scale, "axis": axis | {"grid": False}}
    return row, len(names) * (13 + 12 * max(map(len, lines))), [{"name": "names", "value": lines}]


def _wrapped(name: str) -> list[str]:
    lines = textwrap.wrap(visible(name), LONGEST, break_on_hyphens=False) or [""]
    return lines if len(lines) <= 2 else [lines[0], lines[1][: LONGEST - 1] + "…"]


def by_name(
    field: str, names: Iterable[object], values: Iterable[object], legend: ChartSpec | None = None
) -> ChartSpec:
    """The encoding of colour, dash or shape with a value for each name that the field has."""
    scale = {"domain": list(names), "range": list(values)}
    return {"field": field, "type": "nominal", "legend": legend, "scale": scale}


def line_at(encoding: ChartSpec, **look: object) -> ChartSpec:
    """The layer of a straight line across a panel."""
    return {"data": {"values": [{}]}, "mark": {"type": "rule", "color": INK, **look}, "encoding": encoding}


def bars_and_line(
    y: ChartSpec, dash: ChartSpec, shape: ChartSpec, width: float, size: int, **more: object
) -> list[ChartSpec]:
    """Layers of bars from `lo` to `hi`, a line through means `y`, and their points, with `more` encodings."""
    return [
        {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {"y": {**y, "field": "lo"}, "y2": {"field": "hi"}}},
        {"mark": {"type": "line", "strokeWidth": width}, "encoding": {"y": y, "strokeDash": dash}},
        {
            "mark": {"type": "point", "filled": True, "size": size, "opacity": 1},
            "encoding": {"y": y, "shape": shape, **more},
        },
    ]


def variant_scales(entries: Sequence[LegendEntry]) -> tuple[ChartSpec, ChartSpec, ChartSpec]:
    """The encodings of colour, dash and shape by a variant's number `v`."""
    numbers, looks = [entry.number for entry in entries], [entry.look for entry in entries]
    return (
        by_name("v", numbers, [drawn.colour for drawn in looks]),
        by_name("v", numbers, [list(drawn.dash) for drawn in looks]),
        by_name("v", numbers, [drawn.shape for drawn in looks]),
    )


def hiding(entries: Sequence[LegendEntry]) -> tuple[list[ChartSpec], ChartSpec]:
    """The parameters with the hidden variants and their names, and the transforms that apply them."""
    names: list[str] = [""] * (1 + max((entry.number for entry in entries), default=0))
    for entry in entries:
        names[entry.number] = visible(str(entry.name))
    params: list[ChartSpec] = [
        {"name": "hidden", "value": [entry.number for entry in entries if entry.hidden]},
        {"name": "names", "value": names},
    ]
    transforms = [
        {"filter": "indexof(hidden, datum.v) < 0"},
        {"calculate": "names[datum.v]", "as": "variant"},
    ]
    return params, {"transform": transforms}


def tooltip(*fields: tuple[str, str] | tuple[str, str, str]) -> list[ChartSpec]:
    """The lines of a tooltip: field, heading, and the format of a number."""
    kinds = {2: "nominal", 3: "quantitative"}
    return [
        {"field": field[0], "title": field[1], "type": kinds[len(field)]}
        | ({"format": field[2]} if len(field) > 2 else {})
        for field in fields
    ]
