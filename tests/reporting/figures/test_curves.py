from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from builders import frame, over_seeds, result

from harness.reporting.figures.curves import Chart, Series, dev_charts, has_curves, loss_charts, shown_runs
from harness.reporting.figures.svg import HEIGHT, WIDTH, style, svg, ticks
from harness.reporting.seeds.summary import summary_tables

NAME = "{http://www.w3.org/2000/svg}"


def shown(results: list) -> dict:
    return shown_runs(results, summary_tables(frame(results)))


def test_the_mean_is_over_the_steps_that_all_seeds_have() -> None:
    results = [result(seed=0, dev=[10.0, 20.0, 30.0]), result(seed=1, dev=[20.0, 40.0])]
    (chart,) = dev_charts(shown(results))
    assert chart.title == "toy / toy-bert, profile tiny"
    assert chart.y_label == "Spearman × 100 on ToySTS-dev"
    (series,) = chart.series
    assert series.mean == ((50.0, 15.0), (100.0, 30.0))
    assert [len(points) for points in series.seeds] == [3, 2]


def test_a_term_that_did_not_occur_leaves_a_gap() -> None:
    results = [result("mcse", losses={"text": [3.0, 2.0], "info": [None, 5.0]})]
    text, info = loss_charts(shown(results))
    assert text.series[0].mean == ((50.0, 3.0), (100.0, 2.0))
    assert info.series[0].mean == ((100.0, 5.0),)
    assert info.y_label == "loss term info, unweighted"


def test_a_method_that_does_not_train_has_no_curve() -> None:
    results = [result("none", dev=[], losses={}, setting="none")]
    assert [*dev_charts(shown(results)), *loss_charts(shown(results))] == []
    assert not has_curves(shown(results))


def test_only_the_groups_of_the_tables_are_drawn() -> None:
    old = over_seeds("mcse", [1.0, 2.0], data="old")
    new = over_seeds("mcse", [3.0, 4.0, 5.0], data="new")
    ((_, runs),) = shown(old + new).items()
    assert {run.group for run in runs} == {new[0].group}


def test_a_variant_has_one_colour_on_the_whole_page_and_the_baseline_its_own() -> None:
    results = over_seeds("simcse", [1.0]) + over_seeds("mcse", [2.0]) + over_seeds("mcse", [2.0], setting="wiki")
    charts = dev_charts(shown(results))
    colours = {(series.name, style(series.index)) for chart in charts for series in chart.series}
    assert colours == {("simcse", ("base", "")), ("mcse", ("c0", ""))}


def test_styles_differ_while_they_can() -> None:
    assert len({style(index) for index in range(-1, 18)}) == 19


def test_svg_draws_each_seed_thin_and_the_mean_inside_the_frame() -> None:
    seeds = (((0.0, 1.0), (100.0, 3.0)), ((0.0, 3.0), (100.0, 5.0)))
    chart = Chart("<b>title</b> & more", "steps", "<script>", (Series("x", 0, ((0.0, 2.0), (100.0, 4.0)), seeds),))
    text = svg(chart)
    assert "<b>" not in text
    assert "<script>" not in text
    root = ElementTree.fromstring(text)
    paths = [path.attrib["d"] for path in root.iter("path")]
    assert [path.attrib["class"] for path in root.iter("path")] == ["seed c0", "seed c0", "mean c0"]
    points = [tuple(map(float, point.split(","))) for d in paths for point in d.removeprefix("M").split()]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    (first, last) = [tuple(map(float, point.split(","))) for point in paths[2].removeprefix("M").split()]
    assert first[0] < last[0]
    assert first[1] > last[1], "larger values are higher up"
    labels = {element.text for element in root.iter("text")}
    assert {"steps", "<script>", "0", "100"} <= labels


def test_one_point_is_drawn_as_a_dot() -> None:
    chart = Chart("t", "x", "y", (Series("x", 0, ((50.0, 2.0),), (((50.0, 2.0),),)),))
    assert [element.tag for element in ElementTree.fromstring(svg(chart)).iter("circle")] == ["circle"]


@pytest.mark.parametrize("values", [[0.0, 100.0], [40.0], [0.0], [-2.5, -2.4], [1e-7, 3e-7], [0.1, 0.30000001]])
def test_ticks_cover_the_values_in_few_round_steps(values: list[float]) -> None:
    found = ticks(values)
    assert found[0] <= min(values) + 1e-12
    assert found[-1] >= max(values) - 1e-12
    assert 2 <= len(found) <= 8
    assert len({round(b - a, 12) for a, b in pairwise(found)}) == 1
