"""Line charts as small SVG elements that follow the page's colours.

Charts are built as element trees, so that all texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as Tree

from harness.formatting import fixed
from harness.reporting.figures.curves import Chart, Points, Series

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 12, 42
COLOURS = 6
#: Dash patterns, a second cue beside colour.
DASHES = ("", "7 3", "2 3")


def svg(chart: Chart) -> str:
    """Draw a chart as an SVG element of WIDTH x HEIGHT user units."""
    seeds = [
        points for one in chart.series for points in (one.seeds if one.show_seeds or not one.mean else (one.mean,))
    ]
    xs = ticks([x for points in seeds for x, _ in points], zero=True)
    ys = ticks([y for points in seeds for _, y in points])
    root = Tree.Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "class": "chart"})
    Tree.SubElement(root, "title").text = f"{chart.title}: {chart.y_label} against {chart.x_label}"
    _axes(root, chart, xs, ys)
    for series in chart.series:
        _draw(root, series, xs, ys)
    return Tree.tostring(root, encoding="unicode")


def style(index: int) -> tuple[str, str]:
    """Colour class and dash pattern of a series; the baseline, index -1, has the colour of the text."""
    if index < 0:
        return "base", ""
    return f"c{index % COLOURS}", DASHES[(index + index // COLOURS) % len(DASHES)]


def ticks(values: Sequence[float], *, zero: bool = False, about: int = 5) -> list[float]:
    """Round numbers that cover the values, and 0 if `zero` is set."""
    low, high = min([*values, 0.0] if zero else values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def _x(value: float, xs: Sequence[float]) -> float:
    return LEFT + (value - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)


def _y(value: float, ys: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - (value - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM)


def _axes(root: Tree.Element, chart: Chart, xs: Sequence[float], ys: Sequence[float]) -> None:
    bottom, middle = HEIGHT - BOTTOM, TOP + (HEIGHT - TOP - BOTTOM) / 2
    for value in ys:
        height = _y(value, ys)
        _line(root, "grid", LEFT, height, WIDTH - RIGHT, height)
        _text(root, _tick(value, ys), LEFT - 6, height + 4, "end")
    for value in xs:
        _line(root, "tick", _x(value, xs), bottom, _x(value, xs), bottom + 4)
        _text(root, _tick(value, xs), _x(value, xs), bottom + 17, "middle")
    _line(root, "axis", LEFT, bottom, WIDTH - RIGHT, bottom)
    _text(root, chart.x_label, LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 6, "middle")
    label = _text(root, chart.y_label, 12, middle, "middle")
    label.set("transform", f"rotate(-90 12 {middle:g})")


def _draw(root: Tree.Element, series: Series, xs: Sequence[float], ys: Sequence[float]) -> None:
    colour, dash = style(series.index)
    if series.show_seeds and len(series.seeds) > 1:
        for points in series.seeds:
            _path(root, f"seed {colour}", points, xs, ys)
    mean = _path(root, f"mean {colour}", series.mean, xs, ys)
    if mean is not None and dash:
        mean.set("stroke-dasharray", dash)


def _path(
    root: Tree.Element, kind: str, points: Points, xs: Sequence[float], ys: Sequence[float]
) -> Tree.Element | None:
    places = [(f"{_x(x, xs):.1f}", f"{_y(y, ys):.1f}") for x, y in points]
    if not places:
        return None
    if len(places) == 1:
        (x, y) = places[0]
        return Tree.SubElement(root, "circle", {"cx": x, "cy": y, "r": "3", "class": f"dot {kind}"})
    return Tree.SubElement(root, "path", {"d": "M" + " ".join(f"{x},{y}" for x, y in places), "class": kind})


def _line(root: Tree.Element, kind: str, *ends: float) -> None:
    names = zip(("x1", "y1", "x2", "y2"), ends, strict=True)
    Tree.SubElement(root, "line", {"class": kind, **{name: f"{value:.1f}" for name, value in names}})


def _text(root: Tree.Element, text: str, x: float, y: float, anchor: str) -> Tree.Element:
    element = Tree.SubElement(root, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor})
    element.text = text
    return element


def _tick(value: float, all_values: Iterable[float]) -> str:
    """Format a tick with the fewest decimals that distinguish ticks; thousands are grouped by a thin space."""
    values = sorted(all_values)
    step = values[1] - values[0]
    digits = next((count for count in range(7) if abs(step - round(step, count)) < step * 1e-6), 6)
    if digits == 0 and abs(value) >= 10000:
        return f"{value:,.0f}".replace(",", "\u2009")
    return fixed(value, digits)
