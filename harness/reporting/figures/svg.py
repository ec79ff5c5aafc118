"""Line charts as small SVG elements that follow the page's colours.

Charts are built as element trees, so that all texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from harness.formatting import fixed
from harness.plaintext import visible
from harness.reporting.figures.curves import X_LABEL, Chart, Points

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 18, 12, 42
COLOURS = 6
#: Dash patterns, a second cue beside colour.
DASHES = ("", "7 3", "2 3")


def svg(chart: Chart) -> str:
    """Draw a chart as an SVG element of WIDTH x HEIGHT user units."""
    return Tree.tostring(_Drawn(chart).root, encoding="unicode")


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


class _Drawn:
    """A chart as an element tree, `root`."""

    def __init__(self, chart: Chart) -> None:
        shown = [
            points
            for one in chart.series
            for points in (one.seeds if chart.show_seeds or not one.mean else (one.mean,))
        ]
        self.xs = ticks([x for points in shown for x, _ in points], zero=True)
        self.ys = ticks([y for points in shown for _, y in points])
        self.root = Tree.Element("svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "class": "chart"})
        Tree.SubElement(self.root, "title").text = visible(f"{chart.title}: {chart.y_label} against {X_LABEL}")
        self._axes(chart.y_label)
        for series in chart.series:
            colour, dash = style(series.index)
            if chart.show_seeds and len(series.seeds) > 1:
                for points in series.seeds:
                    self._path(f"seed {colour}", points)
            self._path(f"mean {colour}", series.mean, dash)

    def _x(self, value: float) -> float:
        return LEFT + (value - self.xs[0]) / (self.xs[-1] - self.xs[0]) * (WIDTH - LEFT - RIGHT)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.ys[0]) / (self.ys[-1] - self.ys[0]) * (HEIGHT - TOP - BOTTOM)

    def _axes(self, y_label: str) -> None:
        bottom, middle = HEIGHT - BOTTOM, TOP + (HEIGHT - TOP - BOTTOM) / 2
        heights, places = list(map(self._y, self.ys)), list(map(self._x, self.xs))
        self._lines("grid", [f"M{LEFT},{height:.1f}H{WIDTH - RIGHT}" for height in heights])
        self._lines("tick", [f"M{place:.1f},{bottom}v4" for place in places])
        self._lines("axis", [f"M{LEFT},{bottom}H{WIDTH - RIGHT}"])
        for value, height in zip(self.ys, heights, strict=True):
            self._text(_tick(value, self.ys), LEFT - 6, height + 4, "end")
        for value, place in zip(self.xs, places, strict=True):
            self._text(_tick(value, self.xs), place, bottom + 17)
        self._text(X_LABEL, LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 6)
        self._text(y_label, 12, middle, transform=f"rotate(-90 12 {middle:g})")

    def _path(self, kind: str, points: Points, dash: str = "") -> None:
        places = [(f"{self._x(x):.1f}", f"{self._y(y):.1f}") for x, y in points]
        dashed = {"stroke-dasharray": dash} if dash else {}
        if len(places) == 1:
            ((x, y),) = places
            Tree.SubElement(self.root, "circle", {"cx": x, "cy": y, "r": "3", "class": f"dot {kind}", **dashed})
        elif places:
            line = "M" + " ".join(f"{x},{y}" for x, y in places)
            Tree.SubElement(self.root, "path", {"d": line, "class": kind, **dashed})

    def _lines(self, kind: str, lines: Sequence[str]) -> None:
        Tree.SubElement(self.root, "path", {"class": kind, "d": "".join(lines)})

    def _text(self, text: str, x: float, y: float, anchor: str = "middle", **more: str) -> None:
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
        Tree.SubElement(self.root, "text", {**place, **more}).text = visible(text)


def _tick(value: float, values: Sequence[float]) -> str:
    """Format a tick with the fewest decimals that distinguish ticks; thousands are grouped by a thin space."""
    step = values[1] - values[0]
    digits = next((count for count in range(7) if abs(step - round(step, count)) < step * 1e-6), 6)
    if digits == 0 and abs(value) >= 10000:
        return f"{value:,.0f}".replace(",", "\u2009")
    return fixed(value, digits)
