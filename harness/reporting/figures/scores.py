"""Figures from scores: averages against an option, gains by subset, and alignment against
uniformity.

The option is the setting's (MCSE Figure 3, NonLing Figures 2 and 3) or the method's (KDMCSE Figure
7); gains of one variant over another are those of MCSE's Figure 4; alignment stands against
uniformity in MCSE's Figure 2 and NonLing's Figure 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import sub
from typing import Any

from harness.method.naming import name_of
from harness.metrics import AVERAGE, Score, is_by_training
from harness.reporting import look
from harness.reporting.figures.kinds import Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.seeds.cells import Cell, PartColumn
from harness.reporting.seeds.wording import suite_title
from harness.spec import Variant, parse_setting
from harness.stats import Summary, summarise

#: Options of a setting that take a part of its data; the setting without them comes last on the
#: axis.
PARTS = {"shot": "training pairs", "size": "training triplets"}


#: name of a curve -> place on the axis -> mean over seeds
LevelCurves = Mapping[str, Mapping[float, Summary]]


def data_scale(data: FigureData) -> Drawing | str:
    """The average against an option of the setting, one panel for each setting and option.

    A variant that was trained on a setting without options is a horizontal line.
    """
    summaries = [
        (run, parse_setting(run.label.setting), run.summary(data.average)) for run in data.runs
    ]
    shown = [(run, setting, summary) for run, setting, summary in summaries if summary]
    pairs = dict.fromkeys(
        (setting.name, option) for _, setting, _ in shown for option, _ in setting.options
    )
    if not pairs:
        return "no run on a part or a noisy copy of a setting yet"

    varied = {name for name, _ in pairs}
    constants = {
        f"{run.label.name} / {setting}": mean
        for run, setting, mean in shown
        if setting.name not in varied
    }
    curves = [_curves(shown, *pair) for pair in pairs]
    entries = _entries(lines for _, lines in curves)
    panels = []
    for at, ((setting, option), (levels, lines)) in enumerate(zip(pairs, curves, strict=True)):
        places = {look.number(text): float(place) for place, text in enumerate(levels)}
        printed = [(name, value, places[value]) for name, value in data.printed if value in places]
        labels = {
            "values": list(range(len(levels))),
            "labelExpr": f"levels{at}[datum.value]",
            "grid": False,
        }
        x = look.axis("x", PARTS.get(option, option), axis=labels)
        layers = _layers(lines, constants, data, entries, x, printed)
        panels.append(
            {
                "title": setting,
                "params": [{"name": f"levels{at}", "value": levels}],
                "layer": layers,
            }
        )
    text = f"{suite_title(data.spec.suite)} average, mean ± SD over seeds. The values on the axis are evenly spaced."
    return Drawing(look.grid(panels, share=True), text, [run for run, _, _ in shown])


def _entries(every: Iterable[LevelCurves]) -> dict[str, look.Look]:
    points: dict[str, list[Summary]] = {}
    for name, curve in (item for curves in every for item in curves.items()):
        points.setdefault(name, []).extend(curve.values())
    return {
        name: look.of_series(at, f"{name} ({look.n_of(points[name])})")
        for at, name in enumerate(points)
    }


def _layers(
    curves: LevelCurves,
    constants: Mapping[str, Summary],
    data: FigureData,
    entries: Mapping[str, look.Look],
    x: look.ChartSpec,
    printed: Sequence[tuple[str, float, float]],
) -> list[look.ChartSpec]:
    """Curves, constants as horizontal lines, and printed values as vertical ones at their places."""
    points = [
        look.spread(entries[name].name, place, point)
        for name, curve in curves.items()
        for place, point in sorted(curve.items())
    ]
    lines = [(f"{name} ({look.n_of([point])})", point.mean) for name, point in constants.items()]
    marks = [(f"printed: {name}, {value:g}", point) for name, value, point in printed]
    unit = data.metric(data.spec.suite, data.spec.metric).title
    y, looks = (
        look.axis("y", f"{suite_title(data.spec.suite)} average, {unit}"),
        look.by_series(list(entries.values())),
    )
    return [
        *look.lines_at("y", lines, look.BLACK),
        *look.lines_at("x", marks),
        look.curves(points, x, y, looks),
    ]


def _curves(
    shown: Sequence[tuple[FigureRun, Variant, Summary]], base: str, option: str
) -> tuple[list[str], LevelCurves]:
    """The values of one option of one setting in order, as texts, and the curves over their places.

    The setting without the option comes first as `none`, or last as `all` if the option takes a
    part of the data.
    """
    mine = [
        (run.label.name.text, setting, summary)
        for run, setting, summary in shown
        if setting.name == base
    ]
    values = {value for _, setting, _ in mine for name, value in setting.options if name == option}
    levels = sorted(
        values, key=lambda text: (look.number(text) is None, look.number(text) or 0.0, text)
    )
    plain = "all" if option in PARTS else "none"
    if any(not setting.options for _, setting, _ in mine):
        levels = [*levels, plain] if option in PARTS else [plain, *levels]
    curves: dict[str, dict[float, Summary]] = {}
    for name, setting, summary in mine:
        level = dict(setting.options).get(option, "" if setting.options else plain)
        if level in levels:
            curves.setdefault(name, {})[float(levels.index(level))] = summary
    return levels, curves


def margin_sweep(data: FigureData) -> Drawing | str:
    """The average against an option of the method, one curve for each setting and encoder."""
    option = next(
        (name for text in data.spec.variants for name, _ in Variant.parse(text).options), ""
    )
    curves: dict[str, dict[float, Summary]] = {}
    for run in data.runs:
        summary, x = run.summary(data.average), _value(run, option)
        if summary is not None and x is not None:
            curves.setdefault(run.label.place, {})[x] = summary
    if not any(len(points) > 1 for points in curves.values()):
        return f"fewer than two values of {option} run in any setting yet"

    printed = [(name, value, value) for name, value in data.printed]
    x_axis = look.axis("x", option, axis={"grid": False})
    layers = _layers(curves, {}, data, _entries([curves]), x_axis, printed)
    text = f"{suite_title(data.spec.suite)} average against the {option}, mean ± SD over seeds."
    return Drawing(look.grid([{"height": 145 + 9 * len(curves), "layer": layers}]), text, data.runs)


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
        _bar_panel(
            f"names{at}", setting, bars, f"gain, {metric.title} ({look.n_of(bars.values())})"
        )
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
    pairs = {at: cell.pairs(before[at]) for at, cell in after.items() if at in before}
    summaries = {at: summarise([*map(sub, *both)]) for at, both in pairs.items() if both[0]}
    return {at: gain for at, gain in summaries.items() if at[0]} or summaries


def _cells(data: FigureData, run: FigureRun) -> dict[PartColumn, Cell]:
    """The scores of subsets and whole tasks in the figure's metric, without those of seen and
    unseen pairs.
    """
    row = run.rows[data.spec.suite]
    subsets = {at: cell for at, cell in row.parts.items() if not is_by_training(at[0])}
    whole = {("", column): cell for column, cell in row.cells.items() if column.task != AVERAGE}
    every = {**subsets, **whole}.items()
    return {at: cell for at, cell in every if at[1].metric == data.spec.metric}


def _bar_panel(
    param: str, setting: str, bars: Mapping[PartColumn, Summary], unit: str
) -> look.ChartSpec:
    tasks = dict.fromkeys(column.task for _, column in bars)
    entries = [look.of_series(index, task) for index, task in enumerate(tasks)]
    names = [part or column.task for part, column in bars]
    values = [
        {"part": names[place], **look.spread(column.task, place, gain)}
        for place, ((_, column), gain) in enumerate(bars.items())
    ]
    labels = {
        "title": None,
        "labelExpr": f"{param}[datum.value]",
        "labelAngle": -50,
        "labelLimit": 0,
        "grid": False,
    }
    x = {"field": "x", "type": "ordinal", "axis": labels}
    ends = {"y": look.axis("lo", unit), "y2": {"field": "hi"}}
    return {
        "title": setting,
        **{"width": look.WIDTHS["column" if len(bars) < 9 else "page"], "height": 190},
        "params": [{"name": param, "value": names}],
        **look.rows_of(values),
        "encoding": {"x": x},
        "layer": [
            look.layer(
                "bar", {"y": look.axis("y", unit), "color": look.by_series(entries)["color"]}
            ),
            look.layer("rule", ends, color=look.BLACK),
            look.line_at({"x": None, "y": {"datum": 0}}, color=look.BLACK),
        ],
    }


#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")
#: lines between two names beside points, as a share of the axis
NAME_GAP = 0.12
_NAMES = {"align": "left", "dx": 5, "dy": -5, "fontSize": look.TEXT, "color": look.BLACK}


def alignment_uniformity(data: FigureData) -> Drawing | str:
    """One point for each variant and setting, coloured by the STS average."""
    points = []
    for run in data.runs:
        x, y = (
            run.summary(Score(data.spec.suite, data.task, what))
            for what in ("uniformity", "alignment")
        )
        if x is not None and y is not None:
            points.append((run, x, y))
    if not points:
        return data.unevaluated
    shown = [run for run, _, _ in points]
    names = dict.fromkeys(run.label.variant for run in shown)
    seeds = {
        name: look.n_of(x for run, x, _ in points if run.label.variant == name) for name in names
    }
    entries = {
        name: look.of_series(index, f"{name_of(name)} ({seeds[name]})")
        for index, name in enumerate(names)
    }
    axes = {
        field: look.axis(field, _axis_label(data, name))
        for field, name in (("x", "uniformity"), ("y", "alignment"))
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
        legend = {
            "orient": "top",
            "title": unit,
            "gradientLength": 120,
            "gradientThickness": 6,
            "format": ".1f",
        }
        scale = {"scheme": "cividis", "zero": False}
        fill = {"field": "score", "type": "quantitative", "scale": scale, "legend": legend}
    x, y = axes["x"], axes["y"]
    filled, beside = {**axes, "shape": shape, "fill": fill}, {"y": {**y, "field": "name_y"}}
    layers = [
        look.layer(
            "rule", {"x": {**x, "field": "x1"}, "x2": {"field": "x2"}, "y": y}, color="#999999"
        ),
        look.layer(
            "rule", {"x": x, "y": {**y, "field": "y1"}, "y2": {"field": "y2"}}, color="#999999"
        ),
        look.layer("point", filled, size=35, opacity=1, strokeWidth=0.7, stroke=look.BLACK),
        look.layer("text", {**axes, **beside, "text": look.nominal("setting")}, **_NAMES),
    ]
    return [{**look.rows_of(values), "layer": layers}]


def _place_names(points: Sequence[dict[str, Any]]) -> None:
    """Set `name_y`, the height of each point's name, so that names of points beside each other
    stand apart.
    """
    xs, ys = ([point[axis] for point in points] for axis in "xy")
    wide, gap = 0.4 * (max(xs) - min(xs)), NAME_GAP * (max(ys) - min(ys))
    placed: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point["y"]):
        below = [other["name_y"] + gap for other in placed if abs(other["x"] - point["x"]) <= wide]
        point["name_y"] = max([point["y"], *below])
        placed.append(point)


def _axis_label(data: FigureData, name: str) -> str:
    metric = data.metric(data.spec.suite, name)
    return f"{metric.name}, {data.task}" + ("" if metric.larger_is_better else " (lower is better)")


DATA_SCALE = FigureKind(data_scale)
MARGIN_SWEEP = FigureKind(margin_sweep)
SUBSET_GAIN = FigureKind(subset_gain)
ALIGNMENT_UNIFORMITY = FigureKind(alignment_uniformity, suites=(COLOUR.suite,))
