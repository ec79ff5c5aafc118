"""Figures from scores: averages against an option, gains by subset, and alignment against uniformity.

The option is the setting's (MCSE Figure 3, NonLing Figures 2 and 3) or the method's (KDMCSE Figure 7); gains of one
variant over another are those of MCSE's Figure 4; alignment stands against uniformity in MCSE's Figure 2 and NonLing's
Figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.method.naming import name_of
from harness.metrics import AVERAGE, Score, is_by_training
from harness.reporting import look
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.seeds.cells import PartColumn
from harness.reporting.seeds.wording import suite_title
from harness.spec import Variant, parse_setting
from harness.stats import Summary, summarise

#: Options of a setting that take a part of its data; the setting without them comes last on the axis.
PARTS = {"shot": "training pairs", "size": "training triplets"}


@dataclass(frozen=True)
class LevelCurve:
    """Means over seeds at places on the axis. A `constant` curve is a horizontal line."""

    name: str
    constant: bool = False
    points: dict[float, Summary] = field(default_factory=dict)


@dataclass(frozen=True)
class LevelPanel:
    """An option of a setting: its values in order, as texts, and the curves over them."""

    setting: str
    option: str
    levels: list[str]
    curves: list[LevelCurve]


def data_scale(data: FigureData) -> Drawing | str:
    """The average against an option of the setting, one panel for each setting and option.

    A variant that was trained on a setting without options is a horizontal line.
    """
    shown = [run for run in data.runs if run.cell(data.average)]
    settings = [parse_setting(run.label.setting) for run in shown]
    pairs = dict.fromkeys((setting.name, option) for setting in settings for option, _ in setting.options)
    every = [_panel(shown, data.average, *pair) for pair in pairs]
    if not every:
        return "no run on a part or a noisy copy of a setting yet"

    entries = _entries([curve for panel in every for curve in panel.curves])
    panels = [_drawn(f"levels{at}", panel, data, entries) for at, panel in enumerate(every)]
    text = f"{suite_title(data.spec.suite)} average, mean ± SD over seeds. The values on the axis are evenly spaced."
    return Drawing(look.grid(panels, share=True), text, shown)


def _entries(shown: Sequence[LevelCurve]) -> dict[str, look.Look]:
    names = dict.fromkeys(curve.name for curve in shown if not curve.constant)
    points = {
        name: [point for curve in shown if curve.name == name for point in curve.points.values()] for name in names
    }
    return {name: look.of_series(at, f"{name} ({look.n_of(points[name])})") for at, name in enumerate(names)}


def _drawn(param: str, panel: LevelPanel, data: FigureData, entries: Mapping[str, look.Look]) -> look.ChartSpec:
    places = {look.number(text): float(at) for at, text in enumerate(panel.levels)}
    printed = [(name, value, places[value]) for name, value in data.printed if value in places]
    labels = {"values": list(range(len(panel.levels))), "labelExpr": f"{param}[datum.value]", "grid": False}
    x = look.axis("x", PARTS.get(panel.option, panel.option), axis=labels)
    layers = _layers(panel.curves, data, entries, x, printed)
    return {"title": panel.setting, "params": [{"name": param, "value": panel.levels}], "layer": layers}


def _layers(
    shown: Sequence[LevelCurve],
    data: FigureData,
    entries: Mapping[str, look.Look],
    x: look.ChartSpec,
    printed: Sequence[tuple[str, float, float]],
) -> list[look.ChartSpec]:
    """Curves, constants as horizontal lines, and printed values as vertical ones at their places."""
    points = [
        look.spread(entries[curve.name].name, place, point)
        for curve in shown
        if not curve.constant
        for place, point in sorted(curve.points.items())
    ]
    constant = [
        (f"{curve.name} ({look.n_of([point])})", point.mean)
        for curve in shown
        if curve.constant
        for point in curve.points.values()
    ]
    marks = [(f"printed: {name}, {value:g}", point) for name, value, point in printed]
    unit = data.metric(data.spec.suite, data.spec.metric).title
    y, looks = look.axis("y", f"{suite_title(data.spec.suite)} average, {unit}"), look.by_series(list(entries.values()))
    return [*look.lines_at("y", constant, look.BLACK), *look.lines_at("x", marks), look.curves(points, x, y, looks)]


def _panel(runs: Sequence[FigureRun], score: Score, base: str, option: str) -> LevelPanel:
    """The curves over one option of one setting.

    The setting without the option comes first as `none`, or last as `all` if the option takes a part of the data.
    """
    settings = {run.label: parse_setting(run.label.setting) for run in runs}
    values = {
        value
        for setting in settings.values()
        if setting.name == base
        for name, value in setting.options
        if name == option
    }
    levels = sorted(values, key=lambda text: (look.number(text) is None, look.number(text) or 0.0, text))
    plain = "all" if option in PARTS else "none"
    if Variant(base) in settings.values():
        levels = [*levels, plain] if option in PARTS else [plain, *levels]
    varied = {setting.name for setting in settings.values() if setting.options}
    curves: dict[str, LevelCurve] = {}
    for run in runs:
        setting, summary = settings[run.label], run.summary(score)
        if summary is None:
            continue
        if setting.name not in varied:
            name = f"{run.label.name} / {setting}"
            curves[name] = LevelCurve(name, True, {0.0: summary})
        level = dict(setting.options).get(option, "" if setting.options else plain)
        if setting.name == base and level in levels:
            curve = curves.setdefault(run.label.name.text, LevelCurve(run.label.name.text))
            curve.points[float(levels.index(level))] = summary
    return LevelPanel(base, option, levels, sorted(curves.values(), key=lambda curve: not curve.constant))


def margin_sweep(data: FigureData) -> Drawing | str:
    """The average against an option of the method, one curve for each setting and encoder."""
    option = next((name for text in data.spec.variants for name, _ in Variant.parse(text).options), "")
    curves_of: dict[str, LevelCurve] = {}
    for run in data.runs:
        summary, x = run.summary(data.average), _value(run, option)
        if summary is not None and x is not None:
            name = run.label.place
            curves_of.setdefault(name, LevelCurve(name)).points[x] = summary
    if not any(len(curve.points) > 1 for curve in curves_of.values()):
        return f"fewer than two values of {option} run in any setting yet"

    shown = list(curves_of.values())
    printed = [(name, value, value) for name, value in data.printed]
    layers = _layers(shown, data, _entries(shown), look.axis("x", option, axis={"grid": False}), printed)
    text = f"{suite_title(data.spec.suite)} average against the {option}, mean ± SD over seeds."
    return Drawing(look.grid([{"height": 145 + 9 * len(shown), "layer": layers}]), text, data.runs)


def _value(run: FigureRun, option: str) -> float | None:
    """The value of a method's option: as the variant names it, or as the run used it."""
    used = run.result.hyperparameters.get("method", {}).get(option)
    return look.number(dict(Variant.parse(run.label.variant).options).get(option, str(used)))


def subset_gain(data: FigureData) -> Drawing | str:
    """The gain of the second variant over the first on each subset, one panel for each setting."""
    worse, better = data.spec.variants[:2]
    by_label = {run.label: run for run in data.runs}
    pairs = [
        (by_label[other], run)
        for run in data.runs
        if run.label.variant == better and (other := run.label._replace(variant=worse)) in by_label
    ]
    gains = [(second.label.setting, _gains(data, first, second)) for first, second in pairs]
    if not any(bars for _, bars in gains):
        return f"no setting in which both {worse} and {better} were run yet"

    metric = data.metric(data.spec.suite, data.spec.metric)
    panels = [
        _bar_panel(f"names{at}", setting, bars, f"gain, {metric.title} ({look.n_of(bars.values())})")
        for at, (setting, bars) in enumerate(gains)
        if bars
    ]
    text = (
        f"{name_of(better)} minus {name_of(worse)} in {metric.title} on each subset, mean ± SD of the differences by "
        "seed, over the seeds of both."
    )
    return Drawing(look.grid(panels, share=True), text, [run for pair in pairs for run in pair])


def _gains(data: FigureData, worse: FigureRun, better: FigureRun) -> dict[PartColumn, Summary]:
    """Differences by subset and task; by task if no task has subsets."""
    before, after = _cells(data, worse), _cells(data, better)
    gains = {
        at: [cell[seed] - before[at][seed] for seed in sorted(before[at].keys() & cell.keys())]
        for at, cell in after.items()
        if at in before
    }
    summaries = {at: summarise(values) for at, values in gains.items() if values}
    return {at: gain for at, gain in summaries.items() if at[0]} or summaries


def _cells(data: FigureData, run: FigureRun) -> dict[PartColumn, dict[int, float]]:
    """The scores by seed of subsets and whole tasks in the figure's metric, without those of seen and unseen pairs."""
    row = run.rows[data.spec.suite]
    subsets = {at: cell for at, cell in row.parts.items() if not is_by_training(at[0])}
    whole = {("", column): cell for column, cell in row.cells.items() if column.task != AVERAGE}
    every = {**subsets, **whole}.items()
    return {at: cell.by_seed for at, cell in every if at[1].metric == data.spec.metric}


def _bar_panel(param: str, setting: str, bars: Mapping[PartColumn, Summary], unit: str) -> look.ChartSpec:
    tasks = dict.fromkeys(column.task for _, column in bars)
    entries = [look.of_series(index, task) for index, task in enumerate(tasks)]
    names = [part or column.task for part, column in bars]
    values = [
        {"part": names[place], **look.spread(column.task, place, gain)}
        for place, ((_, column), gain) in enumerate(bars.items())
    ]
    labels = {"title": None, "labelExpr": f"{param}[datum.value]", "labelAngle": -50, "labelLimit": 0, "grid": False}
    x = {"field": "x", "type": "ordinal", "axis": labels}
    ends = {"y": look.axis("lo", unit), "y2": {"field": "hi"}}
    return {
        "title": setting,
        **{"width": look.WIDTHS["column" if len(bars) < 9 else "page"], "height": 190},
        "params": [{"name": param, "value": names}],
        **look.rows_of(values),
        "encoding": {"x": x},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {"y": look.axis("y", unit), "color": look.by_series(entries)["color"]},
            },
            {"mark": {"type": "rule", "color": look.BLACK}, "encoding": ends},
            look.line_at({"x": None, "y": {"datum": 0}}, color=look.BLACK),
        ],
    }


#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")
#: lines between two names beside points, as a share of the axis
NAME_GAP = 0.12


def alignment_uniformity(data: FigureData) -> Drawing | str:
    """One point for each variant and setting, coloured by the STS average."""
    points = []
    for run in data.runs:
        x, y = (run.summary(Score(data.spec.suite, data.task, what)) for what in ("uniformity", "alignment"))
        if x is not None and y is not None:
            points.append((run, x, y))
    if not points:
        return data.unevaluated
    shown = [run for run, _, _ in points]
    names = dict.fromkeys(run.label.variant for run in shown)
    seeds = {name: look.n_of(x for run, x, _ in points if run.label.variant == name) for name in names}
    entries = {name: look.of_series(index, f"{name_of(name)} ({seeds[name]})") for index, name in enumerate(names)}
    axes = {
        field: look.axis(field, _axis_label(data, name)) for field, name in (("x", "uniformity"), ("y", "alignment"))
    }
    unit = f"STS average, {data.metric(COLOUR.suite, COLOUR.metric).title}"
    layers = _geometry_layers(points, entries, unit, axes)
    text = f"Alignment against uniformity on {data.task}, mean ± SD over seeds; the colour is the STS average."
    return Drawing(look.grid([{"height": 190 + 9 * len(entries), "layer": layers}]), text, shown)


def _geometry_layers(
    points: Sequence[tuple[FigureRun, Summary, Summary]],
    entries: Mapping[str, look.Look],
    unit: str,
    axes: dict[str, look.ChartSpec],
) -> list[look.ChartSpec]:
    """Deviations, and points with their settings."""
    values: list[dict[str, Any]] = [
        {
            "series": entries[run.label.variant].name,
            "setting": run.label.setting,
            **{"x": x.mean, "x1": x.mean - (x.std or 0.0), "x2": x.mean + (x.std or 0.0)},
            **{"y": y.mean, "y1": y.mean - (y.std or 0.0), "y2": y.mean + (y.std or 0.0)},
            "score": score.mean if (score := run.summary(COLOUR)) else None,
        }
        for run, x, y in points
    ]
    _place_names(values)
    shape = look.by_series(list(entries.values()))["shape"]
    shape["legend"] |= {"symbolFillColor": "white", "symbolStrokeColor": look.BLACK}
    fill: look.ChartSpec = {"value": look.PALETTE[0]}
    if all(row["score"] is not None for row in values):
        legend = {"orient": "top", "title": unit, "gradientLength": 120, "gradientThickness": 6, "format": ".1f"}
        fill = {
            "field": "score",
            "type": "quantitative",
            "scale": {"scheme": "cividis", "zero": False},
            "legend": legend,
        }
    grey, mark = {"type": "rule", "color": "#999999"}, {"type": "point", "size": 35, "opacity": 1, "strokeWidth": 0.7}
    x, y = axes["x"], axes["y"]
    layers = [
        {"mark": grey, "encoding": {"x": {**x, "field": "x1"}, "x2": {"field": "x2"}, "y": y}},
        {"mark": grey, "encoding": {"x": x, "y": {**y, "field": "y1"}, "y2": {"field": "y2"}}},
        {"mark": {**mark, "stroke": look.BLACK}, "encoding": {**axes, "shape": shape, "fill": fill}},
        _setting_names(axes),
    ]
    return [{**look.rows_of(values), "layer": layers}]


def _place_names(points: Sequence[dict[str, Any]]) -> None:
    """Set `name_y`, the height of each point's name, so that names of points beside each other stand apart."""
    xs, ys = ([point[axis] for point in points] for axis in "xy")
    wide, gap = 0.4 * (max(xs) - min(xs)), NAME_GAP * (max(ys) - min(ys))
    placed: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point["y"]):
        below = [other["name_y"] + gap for other in placed if abs(other["x"] - point["x"]) <= wide]
        point["name_y"] = max([point["y"], *below])
        placed.append(point)


def _setting_names(axes: Mapping[str, look.ChartSpec]) -> look.ChartSpec:
    text = {"type": "text", "align": "left", "dx": 5, "dy": -5, "fontSize": look.TEXT, "color": look.BLACK}
    y = {**axes["y"], "field": "name_y"}
    return {"mark": text, "encoding": {**axes, "y": y, "text": {"field": "setting", "type": "nominal"}}}


def _axis_label(data: FigureData, name: str) -> str:
    metric = data.metric(data.spec.suite, name)
    return f"{metric.name}, {data.task}" + ("" if metric.larger_is_better else " (lower is better)")


DATA_SCALE = FigureKind(data_scale)
MARGIN_SWEEP = FigureKind(margin_sweep)
SUBSET_GAIN = FigureKind(subset_gain)
ALIGNMENT_UNIFORMITY = FigureKind(alignment_uniformity, suites=(COLOUR.suite,))
