"""Training curves: dev scores and loss terms of a run, or of the runs in the tables with means over
seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from harness.method.naming import VariantName
from harness.reporting import look
from harness.reporting.seeds.cells import Label
from harness.reporting.seeds.summary import SummaryTable
from harness.spec import BASELINE, UNTRAINED
from harness.store import Result

P = TypeVar("P")
#: steps and values
Points = Sequence[tuple[float, float]]
#: a loss term, "" for the dev score, and the label of the y axis
ChartKey = tuple[str, str]
#: rows of frames by label, in order of seeds
SeedRuns = Mapping[Label, Sequence[int]]
#: reads the result of a row; None if its file is damaged
ReadRun = Callable[[int], Result | None]
#: Profiles with more runs than this show means only; single seeds are on the pages of the runs.
MOST_SEEDS = 400
#: Variants in one chart; more cannot be told apart.
MOST_VARIANTS = 30
#: points of a line, and lines of single seeds in a chart: a page stays small
MOST_POINTS = 80
MOST_SEED_LINES = 60
HEIGHT = 210
#: settings and encoders on one page; pages of runs have the curves of all
MOST_PLACES = 24
X_LABEL = "optimizer steps"
#: rows of means, which are of no single seed
IS_MEAN = "!isValid(datum.s)"


#: a chart: the curves of each variant, one for each seed
Chart = Mapping[Label, Sequence[Points]]
#: the number of each variant in a specification: the baseline has 0
Numbers = Mapping[Label, int]


def select_shown_runs(tables: Sequence[SummaryTable]) -> SeedRuns:
    """The runs that the rows of tables show; other groups of runs are left out."""
    numbered: dict[Label, set[tuple[int, int]]] = {}
    for table in tables:
        for row in table.rows:
            numbered.setdefault(row.label, set()).update(zip(row.seeds, row.runs, strict=True))
    return {label: [run for _, run in sorted(numbered[label])] for label in sorted(numbered)}


def draw_curve_places(runs: SeedRuns, read: ReadRun) -> Iterator[dict[str, Any]]:
    """The charts of one profile's runs in the tables, for at most MOST_PLACES pairs of setting and
    encoder, one after the other, since they are large.

    Each pair has its `key`, its `title`, a `legend` for all its `plots`, and in these a chart for
    each dev task, each unweighted loss term and its share of the gradient. Of more than
    MOST_VARIANTS variants, only the baseline, the methods and the first others are drawn; of more
    than MOST_SEEDS runs, only the means.
    """
    labels_by_place = _group_by_place(runs)
    drawn_by_place = {
        place: _select_drawn_variants(labels) for place, labels in labels_by_place.items()
    }

    # a variant looks alike in all places, unless there are more variants than looks
    all_numbers = _assign_numbers(list(chain.from_iterable(drawn_by_place.values())))
    has_enough_looks = max(all_numbers.values(), default=0) < look.LOOKS
    all_labels = chain.from_iterable(labels_by_place.values())
    shows_seeds = sum(len(runs[label]) for label in all_labels) <= MOST_SEEDS

    for place, labels in drawn_by_place.items():
        charts = _collect_charts(runs, read, labels)
        if not charts:
            continue
        numbers = all_numbers if has_enough_looks else _assign_numbers(labels)
        legend = _make_curve_legend(charts.values(), numbers)
        plots = [
            _draw_curve_plot(place, key, chart, numbers, legend, shows_seeds)
            for key, chart in charts.items()
        ]
        title = place
        variants = len(labels_by_place[place])
        if len(labels) < variants:
            title += f" ({len(labels)} of {variants} variants)"
        yield {"key": f"curves-{place}", "title": title, "legend": legend, "plots": tuple(plots)}


def _group_by_place(runs: SeedRuns) -> dict[str, list[Label]]:
    """The labels of trained runs in the first MOST_PLACES pairs of setting and encoder."""
    labels = [label for label in runs if label.setting != UNTRAINED]
    pairs = sorted({(label.setting, label.encoder) for label in labels})[:MOST_PLACES]
    by_place: dict[str, list[Label]] = {}
    for label in labels:
        if (label.setting, label.encoder) in pairs:
            by_place.setdefault(label.place, []).append(label)
    return by_place


def _select_drawn_variants(labels: Sequence[Label]) -> list[Label]:
    """The first MOST_VARIANTS in their order; the baseline goes before methods, these before others."""

    def rank_label(label: Label) -> tuple[bool, bool]:
        return label.variant != BASELINE or bool(label.overrides), not label.is_method

    first = sorted(labels, key=rank_label)[:MOST_VARIANTS]
    return [label for label in labels if label in first]


def _collect_charts(
    runs: SeedRuns, read: ReadRun, labels: Sequence[Label]
) -> dict[ChartKey, Chart]:
    """The charts of a place, dev scores first. Reads each result once."""
    charts: dict[ChartKey, dict[Label, list[Points]]] = {}
    for label in labels:
        for result in filter(None, map(read, runs[label])):
            for key, points in _list_curves(result):
                charts.setdefault(key, {}).setdefault(label, []).append(points)
    return dict(sorted(charts.items(), key=lambda item: item[0][0] != ""))


def _list_curves(result: Result) -> Iterator[tuple[ChartKey, Points]]:
    """The dev scores, the loss terms and the shares of the gradient of a run that has them."""
    dev = result.dev
    if dev.scores:
        yield ("", f"{dev.metric} on {dev.task}"), _make_points(dev.steps, dev.scores)

    losses = result.losses
    for term, values in losses.terms.items():
        points = _make_points(losses.steps, values)
        if points:
            yield (term, f"loss term {term}, unweighted"), points

    for stream, measured in result.gradients.items():
        steps = [point.step for point in measured]
        terms = dict.fromkeys(chain.from_iterable(point.shares for point in measured))
        # the share of a term alone is 1
        if len(terms) == 1:
            continue
        for term in terms:
            points = _make_points(steps, [point.shares.get(term) for point in measured])
            if points:
                yield (f"{term} in {stream}, part of the gradient", "share of the gradient"), points


def _assign_numbers(labels: Sequence[Label]) -> Numbers:
    """The number of every variant, the same in each setting and encoder; the baseline has 0."""
    names = dict.fromkeys([BASELINE, *map(str, labels)])
    number_of = {name: number for number, name in enumerate(names)}
    return {label: number_of[str(label)] for label in labels}


def _make_points(steps: Sequence[float], values: Sequence[float | None]) -> Points:
    return tuple(
        (float(step), float(value))
        for step, value in zip(steps, values, strict=True)
        if value is not None
    )


def list_run_curves(result: Result) -> Iterator[tuple[ChartKey, Points]]:
    """The dev scores and loss terms of one run, thinned."""
    return ((chart, _sample_points(points)) for chart, points in _list_curves(result))


def make_run_spec(variants: int = 1) -> look.ChartSpec:
    """The specification of a curve of one run, or of the means and seeds of several variants,
    without its points.
    """
    unnamed = VariantName("", "")
    legend = [
        look.LegendEntry(at + 1, unnamed, look.choose_variant_look(at), "")
        for at in range(variants)
    ]
    several = variants > 1
    spec = _make_curve_spec("", [], legend, several=several, has_seed_lines=several)
    return {**spec, "data": {"values": []}}


def _make_curve_legend(charts: Collection[Chart], numbers: Numbers) -> tuple[look.LegendEntry, ...]:
    """An entry for each variant of some charts, the baseline first. Variants of methods are hidden
    until a click.
    """
    seeds: dict[Label, list[int]] = {}
    never_hidden: set[Label] = set()
    for chart in charts:
        for label, curves in chart.items():
            seeds.setdefault(label, []).append(len(curves))
        # a chart without methods shows variants at once: it would be empty otherwise
        if not any(label.is_method for label in chart):
            never_hidden.update(chart)

    entries = []
    for label in sorted(seeds, key=lambda label: numbers[label]):
        number = numbers[label]
        drawn_as = look.choose_variant_look(number - 1)
        is_hidden = not label.is_method and label not in never_hidden
        counts = look.format_counts(seeds[label])
        entries.append(look.LegendEntry(number, label.name, drawn_as, counts, is_hidden))
    return tuple(entries)


def _draw_curve_plot(
    place: str,
    key: ChartKey,
    chart: Chart,
    numbers: Numbers,
    legend: Sequence[look.LegendEntry],
    shows_seeds: bool,
) -> look.Plot:
    """A chart of means over seeds, and of single seeds if these are not too many."""
    means: list[Mapping[str, object]] = []
    has_single_point = False
    for label, seeds in chart.items():
        points = list(_list_mean_points(numbers[label], seeds))
        means += points
        has_single_point = has_single_point or len(points) == 1

    several = {label: seeds for label, seeds in chart.items() if len(seeds) > 1}
    seed_points: list[Mapping[str, object]] = []
    if shows_seeds and sum(map(len, several.values())) <= MOST_SEED_LINES:
        for label, seeds in several.items():
            seed_points += _list_seed_points(numbers[label], seeds)

    term, y_label = key
    spec = _make_curve_spec(
        y_label,
        [*means, *seed_points],
        legend,
        several=bool(several),
        has_seed_lines=bool(seed_points),
        has_single_point=has_single_point,
    )
    unscripted = "The values are in the result files."
    return look.Plot(
        f"curve-{place}-{term or 'dev'}", name_curve(term), spec, unscripted=unscripted
    )


def name_curve(term: str) -> str:
    """The heading of the dev scores, or of a loss term."""
    return f"Loss term {term}" if term else "Dev score"


def _list_mean_points(number: int, seeds: Sequence[Points]) -> Iterator[Mapping[str, object]]:
    """The mean at each step that all seeds have, and the smallest and largest value of any seed."""
    values_by_step: dict[float, list[float]] = {}
    for points in seeds:
        for step, value in dict(points).items():
            values_by_step.setdefault(step, []).append(value)
    common = [
        (step, values) for step, values in values_by_step.items() if len(values) == len(seeds)
    ]
    for x, ys in _sample_points(common):
        yield {"v": number, "x": x, "y": sum(ys) / len(ys), "lo": min(ys), "hi": max(ys)}


def _list_seed_points(number: int, seeds: Sequence[Points]) -> Iterator[Mapping[str, object]]:
    for seed, points in enumerate(seeds):
        for x, y in _sample_points(points):
            yield {"v": number, "x": x, "y": y, "s": seed}


def _sample_points(points: Sequence[P]) -> Sequence[P]:
    """At most MOST_POINTS points of a line, evenly spaced, with the last one."""
    step = math.ceil(len(points) / MOST_POINTS)
    if step <= 1:
        return points
    # counted from the last one, which is where training ended
    return points[::-step][::-1]


def _make_curve_spec(
    y_label: str,
    rows: Sequence[Mapping[str, object]],
    legend: Sequence[look.LegendEntry],
    *,
    several: bool,
    has_seed_lines: bool,
    has_single_point: bool = False,
) -> look.ChartSpec:
    """The specification of a chart. Rows are means of `several` seeds, and those with `s` single
    ones; a single point, which has no line, is shown as a mark.
    """
    by = look.encode_variants(legend)
    params, transform = look.make_hiding(legend)
    tooltip = _make_curve_tooltip(several=several)
    layers = [
        _draw_mean_lines(by["strokeDash"]),
        _draw_near_points(tooltip, 1 if has_single_point else 0),
    ]
    if has_seed_lines:
        layers.insert(0, _draw_seed_lines())
    return {
        **look.make_data(rows, look.DIGITS),
        **transform,
        "params": params,
        "height": HEIGHT,
        "description": f"{y_label} against {X_LABEL}",
        "encoding": {
            "x": look.encode_quantity("x", title=X_LABEL, axis={"grid": False, "tickCount": 5}),
            "y": look.encode_quantity("y", title=y_label, scale={"zero": False}),
            "color": by["color"],
        },
        "layer": layers,
    }


def _draw_seed_lines() -> look.ChartSpec:
    encoding = {"detail": look.encode_nominal("s"), "opacity": _make_opacity(0.3, 0.04)}
    return {**_filter_rows("isValid(datum.s)"), **look.make_layer("line", encoding, strokeWidth=1)}


def _draw_mean_lines(dash: look.ChartSpec) -> look.ChartSpec:
    encoding = {"strokeDash": dash, "opacity": _make_opacity(1, 0.12)}
    return {**_filter_rows(IS_MEAN), **look.make_layer("line", encoding, strokeWidth=2.2)}


def _draw_near_points(tooltip: look.ChartSpec, otherwise: int) -> look.ChartSpec:
    """The points of the line that the pointer is near, with the tooltip; others have the opacity
    `otherwise`.
    """
    near = {
        "type": "point",
        "on": "pointerover",
        "clear": "pointerout",
        "fields": ["v"],
        "nearest": True,
    }
    encoding = {"opacity": _make_opacity(1, otherwise, empty=False), "tooltip": tooltip}
    return {
        **_filter_rows(IS_MEAN),
        "params": [{"name": "near", "select": near}],
        **look.make_layer("point", encoding, filled=True, size=45, stroke=look.SOFT, strokeWidth=0),
    }


def _filter_rows(condition: str) -> look.ChartSpec:
    return {"transform": [{"filter": condition}]}


def _make_opacity(value: float, otherwise: float, *, empty: bool = True) -> look.ChartSpec:
    """The opacity of a line: `otherwise` while the pointer is near another one; `empty` says whether
    it is near every line before it has been near any.
    """
    return {"condition": {"param": "near", "empty": empty, "value": value}, "value": otherwise}


def _make_curve_tooltip(*, several: bool) -> look.ChartSpec:
    """The tooltip as an expression, since Vega-Lite 6.4 loses texts of the nearest point."""
    lines = [("step", "x", ","), ("mean over seeds" if several else "value", "y", ".4~g")]
    if several:
        lines += [("smallest seed", "lo", ".4~g"), ("largest seed", "hi", ".4~g")]

    row = "(datum.datum || datum)"
    parts = [f"'variant': {row}.variant"]
    for title, field, number_format in lines:
        parts.append(f"'{title}': format({row}.{field}, '{number_format}')")
    return {"value": {"expr": f"{{{', '.join(parts)}}}"}}
