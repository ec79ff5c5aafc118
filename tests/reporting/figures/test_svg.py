"""Line charts as SVG: what is drawn, where, and in which style."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from harness.reporting.figures.curves import Chart, Series
from harness.reporting.figures.svg import HEIGHT, WIDTH, style, svg, ticks


def test_styles_differ_while_they_can() -> None:
    assert len({style(index) for index in range(-1, 18)}) == 19


def test_svg_draws_each_seed_thin_and_the_mean_inside_the_frame() -> None:
    seeds = (((0.0, 1.0), (100.0, 3.0)), ((0.0, 3.0), (100.0, 5.0)))
    chart = Chart("<b>title</b> & more", "<script>", (Series("x", 0, ((0.0, 2.0), (100.0, 4.0)), seeds),))
    text = svg(chart)
    assert "<b>" not in text
    assert "<script>" not in text
    root = ElementTree.fromstring(text)
    classes = [path.attrib["class"] for path in root.iter("path")]
    assert classes == ["grid", "tick", "axis", "seed c0", "seed c0", "mean c0"]
    paths = [path.attrib["d"] for path in root.iter("path")][3:]
    points = [tuple(map(float, point.split(","))) for d in paths for point in d.removeprefix("M").split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    (first, last) = [tuple(map(float, point.split(","))) for point in paths[2].removeprefix("M").split()]
    assert first[0] < last[0]
    assert first[1] > last[1], "larger values are higher up"
    labels = {element.text for element in root.iter("text")}
    assert {"optimizer steps", "<script>", "0", "100"} <= labels


def test_one_point_is_drawn_as_a_dot() -> None:
    chart = Chart("t", "y", (Series("x", 0, ((50.0, 2.0),), (((50.0, 2.0),),)),))
    assert [element.tag for element in ElementTree.fromstring(svg(chart)).iter("circle")] == ["circle"]


@pytest.mark.parametrize("values", [[0.0, 100.0], [40.0], [0.0], [-2.5, -2.4], [1e-7, 3e-7], [0.1, 0.30000001]])
def test_ticks_cover_the_values_in_few_round_steps(values: list[float]) -> None:
    found = ticks(values)
    assert found[0] <= min(values) + 1e-12
    assert found[-1] >= max(values) - 1e-12
    assert 2 <= len(found) <= 8
    assert len({round(b - a, 12) for a, b in pairwise(found)}) == 1
