"""Curves of docs/grounding.md, each a figure and its table: over weights, pictures, minutes of
pretraining, and steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from grounding_runs import (
    CAPTIONS,
    LAST,
    METHOD,
    PROFILE,
    SHUFFLED,
    SPEARMAN,
    STUDENT,
    UNTRAINED_STUDENT,
    find_row,
    format_mean_of,
    make_label,
    select_main_runs,
    select_untuned_runs,
)
from reference_runs import (
    find_column,
    find_table,
    format_difference,
    format_interval,
    format_table,
)
from scipy.stats import linregress

from harness.formatting import fixed, p_value, signed
from harness.metrics import AVERAGE, Column
from harness.reporting import look
from harness.reporting.seeds.cells import Cell, Row, compare_rows, correct_family
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.spec import BASELINE, Variant, parse_setting
from harness.stats import one_sample_t_test

#: the pictures of the setting, and parts of them: 1, 3, 10 and 30 %
PICTURES = 6000
SHOTS = ",".join(f"{CAPTIONS}[shot={number}]" for number in (60, 180, 600, 1800))
#: minutes of pretraining, by student
MINUTES = {f"{STUDENT}-0": 0, f"{STUDENT}-10": 10, STUDENT: 40}
#: the file of the dev curves, and the variants on it
DEV_FILE = "grounding-dev.svg"
DEV_VARIANTS = (METHOD, BASELINE, SHUFFLED, "mcse[images=untrained]", "mcse[images=noise]")

#: a place on the axis of a curve, and MCSE's row there in its block
Point = tuple[float, Block, Row]


def list_weights(table: SummaryTable) -> Iterator[Point]:
    """Values of lambda."""
    values = {}
    for run in select_untuned_runs():
        values[str(run.spec.variant)] = run.hyperparameters["method"]

    for block in table.blocks:
        if (block.setting, block.encoder) != (CAPTIONS, STUDENT):
            continue
        for row in block.trained:
            variant = row.label.variant
            is_plain = "@" not in variant and not row.label.overrides
            if is_plain and row.label.method == METHOD and _has_only(row.label.parsed, "lambda"):
                yield float(str(values[variant]["lambda"])), block, row


def list_pictures(table: SummaryTable) -> Iterator[Point]:
    """Numbers of pictures."""
    for block in table.blocks:
        if block.encoder != STUDENT or not block.trained:
            continue
        setting = parse_setting(block.setting)
        row = find_row(block, METHOD)
        if row and setting.name == CAPTIONS and _has_only(setting, "shot"):
            yield int(dict(setting.options).get("shot", PICTURES)), block, row


def list_minutes(table: SummaryTable) -> Iterator[Point]:
    """Minutes of the student's pretraining."""
    for block in table.blocks:
        if block.setting != CAPTIONS or block.encoder not in MINUTES:
            continue
        row = find_row(block, METHOD)
        if row:
            yield MINUTES[block.encoder], block, row


def _has_only(name: Variant | None, option: str) -> bool:
    """Whether a variant or a setting has no option but this one."""
    return name is not None and {key for key, _ in name.options} <= {option}


#: what is on the axis of a curve -> its points
CURVES = {"lambda": list_weights, "pictures": list_pictures, "minutes": list_minutes}
#: the words of the command for them
COMMANDS = {
    "lambda": "--methods 'mcse[lambda=0.01|0.03|0.1|0.3|3]' --encoders text-bert=FOLDER",
    "pictures": f"--methods simcse,mcse --settings '{SHOTS}' --encoders text-bert=FOLDER",
    "minutes": "--methods 'none[pooling=mean],simcse,mcse' --encoders text-bert-10=FOLDER",
}


def sort_points(table: SummaryTable, axis: str) -> list[Point]:
    """The points of a curve in their order; none of a single one."""
    points = sorted(CURVES[axis](table), key=lambda point: point[0])
    return points if len(points) > 1 else []


def show_curve(axis: str) -> Iterator[str]:
    """A figure and its table: the untrained student, SimCSE and MCSE at each point, and MCSE's
    gain.
    """
    table = find_table(PROFILE, "sts")
    column = find_column(table, AVERAGE)
    points = sort_points(table, axis)
    if not points:
        return
    bars = "bars are 95 % intervals of the means"
    yield f"![SimCSE and MCSE against {axis}; {bars}]({_name_file(axis)})"
    yield ""

    differences = [format_difference(table, row, column) for _, _, row in points]
    family = "Holm's p"
    # points in places of their own are in as many families of the tables: here they are one
    places = {(block.setting, block.encoder) for _, block, _ in points}
    if len(places) > 1:
        differences = list(_correct_over_points(axis, column, points))
        family = f"Holm's p over the {len(points)} points"

    lines = []
    for (place, block, row), size in zip(points, differences, strict=True):
        rows = (find_row(block, UNTRAINED_STUDENT), find_row(block, BASELINE), row)
        means = [format_mean_of(shown_row, column) for shown_row in rows]
        lines.append([f"{place:,g}", *means, size])

    head = [axis, "untrained", "`simcse`", "`mcse`", f"`mcse` less `simcse` (95 %), {family}"]
    yield from format_table(head, lines)
    yield ""
    yield from _describe_trend(column, points)
    if axis == "lambda":
        yield from _describe_smallest_weight(column, points)


def _correct_over_points(axis: str, column: Column, points: Sequence[Point]) -> Iterator[str]:
    """The difference at each point, corrected over all of them."""
    tests = [row.cells[column].test for _, _, row in points]
    ps = [test.p for test in tests if test]
    corrected = iter(correct_family(f"points against {axis}", ps))
    for test in tests:
        if test is None:
            yield "–"
        else:
            size = format_interval(test, SPEARMAN.digits)
            yield f"{size}, {p_value(next(corrected).p)}"


def _describe_trend(column: Column, points: Sequence[Point]) -> Iterator[str]:
    """The trend of the gains over SimCSE, by seed, over all points."""
    places = []
    gains = []
    for place, point in enumerate(points):
        for gain in _list_gains(column, point):
            places.append(place)
            gains.append(gain)
    if len(gains) <= len(points):
        return

    trend = linregress(places, gains)
    yield (
        f"- Trend of the gain over all {len(points)} points and {len(gains)} pairs of seeds: "
        f"{signed(trend.slope, 2)} from one point to the next, {p_value(trend.pvalue)}."
    )


def _list_gains(column: Column, point: Point) -> list[float]:
    """MCSE's gain over SimCSE at a point, by seed."""
    _, block, row = point
    baseline = find_row(block, BASELINE)
    if baseline is None:
        return []
    pairs = row.cells[column].pairs(baseline.cells[column])
    return [mcse - simcse for mcse, simcse in zip(*pairs, strict=True)]


def _describe_smallest_weight(column: Column, points: Sequence[Point]) -> Iterator[str]:
    """The share of the gain at the profile's own weight, 1, that the smallest weight has."""
    places = [place for place, *_ in points]
    gain_at_one = mean(_list_gains(column, points[places.index(1)]))
    _, block, row = points[0]
    baseline = find_row(block, BASELINE)
    test = compare_rows(row, baseline, column, SPEARMAN).test if baseline else None
    if test is None or gain_at_one <= 0:
        return

    share = fixed(100 * test.difference / gain_at_one, 0)
    low = fixed(100 * test.low / gain_at_one, 0)
    high = fixed(100 * test.high / gain_at_one, 0)
    yield (
        f"- The gain at the smallest weight is {share} % of that at weight 1; its 95 % interval "
        f"reaches from {low} to {high} %."
    )


def draw_figures() -> Iterator[tuple[str, str]]:
    """The name and the SVG of each curve with runs."""
    if not select_main_runs():
        return

    table = find_table(PROFILE, "sts")
    for axis in CURVES:
        points = sort_points(table, axis)
        if points:
            yield _name_file(axis), _draw_curve(axis, find_column(table, AVERAGE), points)
    rows = find_dev_rows()
    if rows:
        yield DEV_FILE, draw_dev_curves(rows)


def _name_file(axis: str) -> str:
    return f"grounding-{axis}.svg"


def _draw_curve(axis: str, column: Column, points: Sequence[Point]) -> str:
    """The means of SimCSE and MCSE at each point."""
    simcse = [find_row(block, BASELINE) for _, block, _ in points]
    mcse = [row for *_, row in points]
    rows_by_series: Mapping[str, Sequence[Row | None]] = {"SimCSE": simcse, "MCSE": mcse}
    values = []
    for series, rows in rows_by_series.items():
        for at, row in enumerate(rows):
            if row:
                values.append(_make_mean(series, at, row.cells[column]))

    x = look.encode_axis("x", axis, axis=_make_axis([f"{place:,g}" for place, *_ in points]))
    y = look.encode_axis("y", "Avg of 7 STS, Spearman x 100")
    return _draw(f"SimCSE and MCSE against {axis}", rows_by_series, values, x, y)


def find_dev_rows() -> dict[str, Row]:
    """The variants whose dev scores are drawn, by name: those of the best weights, which have the
    most seeds, else those of the last ones, whose curves are the same.
    """
    rows = {row.label: row for row in find_table(PROFILE, "sts").rows}
    dev_rows = {}
    for variant in DEV_VARIANTS:
        label = make_label(PROFILE, variant)
        row = rows.get(label) or rows.get(label._replace(overrides=LAST))
        if row and row.frames:
            dev_rows[row.label._replace(overrides="").name.text] = row
    return dev_rows


def draw_dev_curves(rows: Mapping[str, Row]) -> str:
    """The mean dev score of each variant at each step, with 95 % intervals."""
    values = []
    steps = list[int]()
    for name, row in rows.items():
        assert row.frames
        curves = [row.frames.result(run).dev for run in row.runs]
        steps = curves[0].steps
        for at in range(len(steps)):
            scores = dict(enumerate(curve.scores[at] for curve in curves))
            values.append(_make_mean(name, at, Cell.of(scores)))

    x = look.encode_axis("x", "step", axis=_make_axis([f"{step:,}" for step in steps]))
    y = look.encode_axis("y", "dev score (STS-B)")
    return _draw("Dev scores by step", rows, values, x, y)


def _make_mean(series: str, at: int, cell: Cell) -> Mapping[str, object]:
    """A mean as a row of `look.draw_curves`, with its 95 % interval where there are several seeds."""
    center = cell.summary.mean
    test = one_sample_t_test(cell.values, 0.0)
    low = test.low if test else center
    high = test.high if test else center
    return {"series": series, "x": at, "y": center, "lo": low, "hi": high}


def _make_axis(labels: Sequence[str]) -> Mapping[str, object]:
    """An axis of places at equal distances, with their labels."""
    expression = f"{json.dumps(labels)}[datum.value]"
    return {"values": list(range(len(labels))), "labelExpr": expression, "grid": False}


def _draw(
    title: str,
    series: Iterable[str],
    values: Sequence[Mapping[str, object]],
    x: dict[str, Any],
    y: dict[str, Any],
) -> str:
    colors = look.encode_series(look.choose_looks(series))
    panel = {"layer": [look.draw_curves(values, x, y, colors)]}
    return look.draw_picture(title, look.join_panels([panel])).svg
