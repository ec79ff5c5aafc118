"""Figures from scores: averages against an option, gains by subset, and alignment against
uniformity.

The option is the setting's (MCSE Figure 3, NonLing Figures 2 and 3) or the method's (KDMCSE Figure
7); gains of one variant over another are those of MCSE's Figure 4; alignment stands against
uniformity in MCSE's Figure 2 and NonLing's Figure 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import sub
from typing import Any, NamedTuple

from harness.method.naming import name_of, option_title
from harness.metrics import AVERAGE, Score, is_by_training
from harness.reporting import look
from harness.reporting.figures.kinds import (
    Drawing,
    FigureData,
    FigureKind,
    FigureRun,
    name_labels,
    name_places,
)
from harness.reporting.seeds.cells import Cell, Label, PartColumn
from harness.reporting.seeds.wording import name_suite
from harness.spec import Variant, parse_setting
from harness.stats import Summary, summarise

#: Options of a setting that take a part of its data; the setting without them comes last on the
#: axis.
PARTS = {"shot": "training pairs", "size": "training triplets"}


class CurvePoint(NamedTuple):
    """A mean over seeds at a place on an axis, and the run that it is of."""

    x: float
    run: FigureRun
    summary: Summary


#: name of a curve -> its points
Curves = Mapping[str, Sequence[CurvePoint]]


class ScaleAxis(NamedTuple):
    """An axis of a setting's options: the setting's name, the encoder, and the options by name."""

    setting: str
    encoder: str
    options: tuple[str, ...]


class ScalePanel(NamedTuple):
    """The curves over one axis. `levels` are the texts of its places; `fixed` are the options that
    have one value at all of them.
    """

    axis: ScaleAxis
    fixed: Mapping[str, str]
    levels: Sequence[str]
    #: the first option's number at each place that has one
    numbers: Mapping[float, float]
    curves: Mapping[Label, Sequence[CurvePoint]]

    @property
    def label(self) -> Label:
        """The setting that all its curves have in common, and their encoder."""
        setting = str(Variant.make(self.axis.setting, self.fixed))
        return Label("", "", setting, self.axis.encoder, "")

    @property
    def options(self) -> list[str]:
        """The options that differ between its levels."""
        return [option for option in self.axis.options if option not in self.fixed]

    @property
    def axis_title(self) -> str:
        return ", ".join(PARTS.get(option, option) for option in self.options)


def draw_data_scale(data: FigureData) -> Drawing | str:
    """The average against the options of the setting, one panel for each setting, encoder and set
    of options.

    A variant that was trained on another setting is a horizontal line in the panels of its encoder.
    """
    runs = [run for run in data.runs if run.summary(data.average)]
    axes = dict.fromkeys(filter(None, map(_find_axis, runs)))
    if not axes:
        return "no run on a part or a noisy copy of a setting yet"

    panels = [_make_scale_panel(axis, runs, data) for axis in axes]
    varied = {axis.setting for axis in axes}
    constants = [run for run in runs if parse_setting(run.label.setting).name not in varied]
    drawn_labels = list(dict.fromkeys(label for panel in panels for label in panel.curves))
    names = dict(zip(drawn_labels, _name_curves(drawn_labels), strict=True))
    entries = _choose_curve_looks(
        [(names[label], points) for panel in panels for label, points in panel.curves.items()]
    )
    titles = _name_panels(panels)
    specs = [
        _draw_scale_panel(at, title, panel, names, entries, constants, data)
        for at, (title, panel) in enumerate(zip(titles, panels, strict=True))
    ]
    text = (
        f"{name_suite(data.spec.suite)} average, mean ± SD over seeds. "
        "The values on the axis are evenly spaced."
    )
    on_curves = [
        point.run for panel in panels for points in panel.curves.values() for point in points
    ]
    encoders = {panel.axis.encoder for panel in panels}
    across = [run for run in constants if run.label.encoder in encoders]
    drawn_runs = {run.label: run for run in (*on_curves, *across)}
    return Drawing(look.join_panels(specs, share=True), text, list(drawn_runs.values()))


def _name_panels(panels: Sequence[ScalePanel]) -> list[str]:
    """The place of each panel, and its options where several panels have one place."""
    places = name_places([panel.label for panel in panels])
    titles = []
    for panel, place in zip(panels, places, strict=True):
        is_alone = places.count(place) == 1
        titles.append(place if is_alone else f"{place}: {panel.axis_title}")
    return titles


def _find_axis(run: FigureRun) -> ScaleAxis | None:
    """The axis on which a run is a point; None for a run on a setting without options."""
    setting = parse_setting(run.label.setting)
    options = tuple(name for name, _ in setting.options)
    return ScaleAxis(setting.name, run.label.encoder, options) if options else None


def _make_scale_panel(axis: ScaleAxis, runs: Sequence[FigureRun], data: FigureData) -> ScalePanel:
    """The panel of an axis, with the runs on it and those on its setting without any option.

    The setting without options comes first as `unchanged`, or last as `all` if an option takes a part of
    the data.
    """
    on_axis = [run for run in runs if _find_axis(run) == axis]
    values = {run.label.setting: dict(parse_setting(run.label.setting).options) for run in on_axis}
    fixed = _find_fixed_options(axis, list(values.values()))
    varying = [option for option in axis.options if option not in fixed]
    settings = sorted(values, key=lambda setting: _rank_level(values[setting], varying))
    texts = [", ".join(values[setting][option] for option in varying) for setting in settings]

    run_settings = {run.label.setting for run in runs if run.label.encoder == axis.encoder}
    whole = str(Variant.make(axis.setting, fixed))
    takes_part = any(option in PARTS for option in varying)
    if not takes_part and whole not in run_settings:
        # several kinds of noise at one level: unchanged is without any of them
        whole = axis.setting
    if whole in run_settings and takes_part:
        settings.append(whole)
        texts.append("all")
    elif whole in run_settings:
        settings.insert(0, whole)
        texts.insert(0, "unchanged")

    curves: dict[Label, list[CurvePoint]] = {}
    for place, setting in enumerate(settings):
        for run in runs:
            summary = run.summary(data.average)
            if summary and (run.label.setting, run.label.encoder) == (setting, axis.encoder):
                line = run.label._replace(setting="", encoder="")
                curves.setdefault(line, []).append(CurvePoint(float(place), run, summary))
    numbers = {
        value: float(place)
        for place, text in enumerate(texts)
        if (value := look.read_number(text.partition(",")[0])) is not None
    }
    return ScalePanel(axis, fixed, texts, numbers, curves)


def _find_fixed_options(axis: ScaleAxis, levels: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The options with one value at all levels, of which there are several."""
    if len(levels) == 1:
        return {}
    first = levels[0]
    return {
        option: first[option]
        for option in axis.options
        if all(level[option] == first[option] for level in levels)
    }


def _rank_level(options: Mapping[str, str], varying: Sequence[str]) -> list[tuple[object, ...]]:
    """The order of a level: numbers by size before other texts, option by option."""
    numbers = {option: look.read_number(options[option]) for option in varying}
    return [
        (numbers[option] is None, numbers[option] or 0.0, options[option]) for option in varying
    ]


def _name_curves(labels: Sequence[Label]) -> list[str]:
    """The names of curves that their panel's title does not tell apart."""
    return name_labels([label._replace(setting="", encoder="") for label in labels])


def _choose_curve_looks(curves: Iterable[tuple[str, Sequence[CurvePoint]]]) -> dict[str, look.Look]:
    """The look of each curve, whose name in the legend has the seeds of all its points."""
    summaries: dict[str, list[Summary]] = {}
    for name, points in curves:
        summaries.setdefault(name, []).extend(point.summary for point in points)
    return {
        name: look.choose_series_look(at, f"{name} ({look.count_seeds(summaries[name])})")
        for at, name in enumerate(summaries)
    }


def _draw_scale_panel(
    at: int,
    title: str,
    panel: ScalePanel,
    names: Mapping[Label, str],
    entries: Mapping[str, look.Look],
    constants: Sequence[FigureRun],
    data: FigureData,
) -> look.ChartSpec:
    """One panel, whose places on the axis have the texts of its levels."""
    labels = {
        "values": list(range(len(panel.levels))),
        "labelExpr": f"levels{at}[datum.value]",
        "grid": False,
    }
    x = look.encode_axis("x", panel.axis_title, axis=labels)
    printed = [
        (name, value, panel.numbers[value])
        for name, value in data.printed
        if value in panel.numbers
    ]
    curves = {names[label]: points for label, points in panel.curves.items()}
    across = [run for run in constants if run.label.encoder == panel.axis.encoder]
    return {
        "title": title,
        "params": [{"name": f"levels{at}", "value": list(panel.levels)}],
        "layer": _draw_curve_layers(curves, across, data, entries, x, printed),
    }


def _draw_curve_layers(
    curves: Curves,
    constants: Sequence[FigureRun],
    data: FigureData,
    entries: Mapping[str, look.Look],
    x: look.ChartSpec,
    printed: Sequence[tuple[str, float, float]],
) -> list[look.ChartSpec]:
    """Curves, constants as horizontal lines, and printed values as vertical ones at their places."""
    points = [
        look.make_curve_point(
            entries[name].name, point.x, point.summary, source=point.run.source(data.average)
        )
        for name, curve in curves.items()
        for point in curve
    ]
    lines = []
    for run, name in zip(constants, _name_constants(constants), strict=True):
        if summary := run.summary(data.average):
            source = {"n": summary.n, **run.source(data.average)}
            text = f"{name} ({look.count_seeds([summary])})"
            lines.append(look.LineAcross(text, summary.mean, source))
    marks = [look.LineAcross(f"printed: {name}, {value:g}", at) for name, value, at in printed]
    unit = data.metric(data.spec.suite, data.spec.metric).title
    y = look.encode_axis("y", f"{name_suite(data.spec.suite)} average, {unit}")
    looks = look.encode_series(list(entries.values()))
    return [
        *look.draw_lines("y", lines, look.BLACK),
        *look.draw_lines("x", marks),
        look.draw_curves(points, x, y, looks),
    ]


def _name_constants(runs: Sequence[FigureRun]) -> list[str]:
    """The names of horizontal lines, with their settings, which are not those of the panel."""
    labels = [run.label for run in runs]
    variants = name_labels([label._replace(setting="", encoder="") for label in labels])
    return [f"{name} / {label.setting}" for name, label in zip(variants, labels, strict=True)]


def draw_margin_sweep(data: FigureData) -> Drawing | str:
    """The average against an option of the method, one curve for each method, setting and encoder.

    A curve's method has the options that its variants share.
    """
    option = next(
        (name for text in data.spec.variants for name, _ in Variant.parse(text).options), ""
    )
    by_label: dict[Label, list[CurvePoint]] = {}
    for run in data.runs:
        summary = run.summary(data.average)
        x = _read_option(run, option)
        if summary is not None and x is not None:
            by_label.setdefault(_remove_option(run.label, option), []).append(
                CurvePoint(x, run, summary)
            )
    if not any(len(points) > 1 for points in by_label.values()):
        return f"fewer than two values of {option} run in any setting yet"

    curves = {
        name: sorted(points, key=lambda point: point.x)
        for name, points in zip(name_labels([*by_label]), by_label.values(), strict=True)
    }
    printed = [(name, value, value) for name, value in data.printed]
    x_axis = look.encode_axis("x", option_title(option), axis={"grid": False})
    layers = _draw_curve_layers(
        curves, [], data, _choose_curve_looks(curves.items()), x_axis, printed
    )
    text = (
        f"{name_suite(data.spec.suite)} average against the {option_title(option)}, "
        "mean ± SD over seeds."
    )
    height = 145 + 9 * len(curves)
    return Drawing(look.join_panels([{"height": height, "layer": layers}]), text, data.runs)


def _remove_option(label: Label, option: str) -> Label:
    """A label whose variant lacks an option."""
    variant = Variant.parse(label.variant)
    rest = {name: value for name, value in variant.options if name != option}
    return label._replace(variant=str(Variant.make(variant.name, rest, variant.reading)))


def _read_option(run: FigureRun, option: str) -> float | None:
    """The value of a method's option: as the variant names it, or as the run used it."""
    used = run.result.hyperparameters.get("method", {}).get(option)
    return look.read_number(dict(Variant.parse(run.label.variant).options).get(option, str(used)))


class SubsetPair(NamedTuple):
    """The runs of two variants in one place, and the gains of the second over the first."""

    worse: FigureRun
    better: FigureRun
    gains: Mapping[PartColumn, Summary]


def draw_subset_gain(data: FigureData) -> Drawing | str:
    """The gain of the second variant over the first on each subset, one panel for each place."""
    worse, better = data.spec.variants[:2]
    by_label = {run.label: run for run in data.runs}
    pairs = []
    for run in data.runs:
        other = by_label.get(run.label._replace(variant=worse))
        if run.label.variant == better and other:
            pairs.append(SubsetPair(other, run, _compute_subset_gains(data, other, run)))
    pairs = [pair for pair in pairs if pair.gains]
    if not pairs:
        return f"no setting in which both {worse} and {better} were run yet"

    metric = data.metric(data.spec.suite, data.spec.metric)
    titles = name_places([pair.better.label for pair in pairs])
    panels = [
        _draw_bar_panel(f"names{at}", title, pair, data.spec.suite, metric.title)
        for at, (title, pair) in enumerate(zip(titles, pairs, strict=True))
    ]
    text = (
        f"{name_of(better)} minus {name_of(worse)} in {metric.title} on each subset, mean ± SD of the differences by "
        "seed, over the seeds of both."
    )
    runs = [run for pair in pairs for run in (pair.worse, pair.better)]
    return Drawing(look.join_panels(panels, share=True), text, runs)


def _compute_subset_gains(
    data: FigureData, worse: FigureRun, better: FigureRun
) -> dict[PartColumn, Summary]:
    """Differences by subset and task; by task if no task has subsets."""
    before = _select_subset_cells(data, worse)
    after = _select_subset_cells(data, better)
    pairs = {at: cell.pairs(before[at]) for at, cell in after.items() if at in before}
    summaries = {at: summarise([*map(sub, *both)]) for at, both in pairs.items() if both[0]}
    return {at: gain for at, gain in summaries.items() if at[0]} or summaries


def _select_subset_cells(data: FigureData, run: FigureRun) -> dict[PartColumn, Cell]:
    """The scores of subsets and whole tasks in the figure's metric, without those of seen and
    unseen pairs.
    """
    row = run.rows[data.spec.suite]
    subsets = {at: cell for at, cell in row.parts.items() if not is_by_training(at[0])}
    whole = {("", column): cell for column, cell in row.cells.items() if column.task != AVERAGE}
    every = {**subsets, **whole}.items()
    return {at: cell for at, cell in every if at[1].metric == data.spec.metric}


def _draw_bar_panel(
    param: str, title: str, pair: SubsetPair, suite: str, metric: str
) -> look.ChartSpec:
    bars = pair.gains
    unit = f"gain, {metric} ({look.count_seeds(bars.values())})"
    tasks = dict.fromkeys(column.task for _, column in bars)
    entries = [look.choose_series_look(index, task) for index, task in enumerate(tasks)]
    names = [part or column.task for part, column in bars]
    values = []
    for place, ((part, column), gain) in enumerate(bars.items()):
        source = pair.better.source(Score(suite, *column), part)
        source["against"] = pair.worse.label.variant
        values.append(look.make_curve_point(column.task, place, gain, source))
    labels = {
        "title": None,
        "labelExpr": f"{param}[datum.value]",
        "labelAngle": -50,
        "labelLimit": 0,
        "grid": False,
    }
    x = {"field": "x", "type": "ordinal", "axis": labels}
    ends = {"y": look.encode_axis("lo", unit), "y2": {"field": "hi"}}
    return {
        "title": title,
        **{"width": look.WIDTHS["column" if len(bars) < 9 else "page"], "height": 190},
        "params": [{"name": param, "value": names}],
        **look.make_data(values),
        "encoding": {"x": x},
        "layer": [
            look.make_layer(
                "bar",
                {"y": look.encode_axis("y", unit), "color": look.encode_series(entries)["color"]},
            ),
            look.make_layer("rule", ends, color=look.BLACK),
            look.draw_line({"x": None, "y": {"datum": 0}}, color=look.BLACK),
        ],
    }


#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")
#: lines between two names beside points, as a share of the axis
NAME_GAP = 0.12
_NAMES = {"align": "left", "dx": 5, "dy": -5, "fontSize": look.TEXT, "color": look.BLACK}


class GeometryPoint(NamedTuple):
    """The two losses of a run."""

    run: FigureRun
    uniformity: Summary
    alignment: Summary


def draw_alignment_uniformity(data: FigureData) -> Drawing | str:
    """One point for each variant, setting and encoder, coloured by the STS average."""
    points = []
    for run in data.runs:
        uniformity = run.summary(Score(data.spec.suite, data.task, "uniformity"))
        alignment = run.summary(Score(data.spec.suite, data.task, "alignment"))
        if uniformity is not None and alignment is not None:
            points.append(GeometryPoint(run, uniformity, alignment))
    if not points:
        return data.unevaluated

    entries = _choose_geometry_looks(points)
    axes = {
        field: look.encode_axis(field, _name_axis(data, name))
        for field, name in (("x", "uniformity"), ("y", "alignment"))
    }
    layers = _draw_geometry_layers(data, points, entries, axes)
    text = f"Alignment against uniformity on {data.task}, mean ± SD over seeds; the colour is the STS average."
    height = 190 + 9 * len(entries)
    runs = [point.run for point in points]
    return Drawing(look.join_panels([{"height": height, "layer": layers}]), text, runs)


def _choose_geometry_looks(points: Sequence[GeometryPoint]) -> Mapping[Label, look.Look]:
    """The look of each variant, by its label without a place."""
    summaries: dict[Label, list[Summary]] = {}
    for point in points:
        summaries.setdefault(_make_variant_label(point.run), []).append(point.uniformity)
    names = name_labels([*summaries])
    return {
        label: look.choose_series_look(at, f"{name} ({look.count_seeds(summaries[label])})")
        for at, (label, name) in enumerate(zip(summaries, names, strict=True))
    }


def _make_variant_label(run: FigureRun) -> Label:
    return run.label._replace(setting="", encoder="")


def _draw_geometry_layers(
    data: FigureData,
    points: Sequence[GeometryPoint],
    entries: Mapping[Label, look.Look],
    axes: dict[str, look.ChartSpec],
) -> list[look.ChartSpec]:
    """Deviations, and points with their places."""
    values: list[dict[str, Any]] = []
    places = name_places([point.run.label for point in points])
    for (run, x, y), place in zip(points, places, strict=True):
        score = run.summary(COLOUR)
        values.append(
            {
                "series": entries[_make_variant_label(run)].name,
                "place": place,
                **{"x": x.mean, "x1": x.mean - (x.std or 0.0), "x2": x.mean + (x.std or 0.0)},
                **{"y": y.mean, "y1": y.mean - (y.std or 0.0), "y2": y.mean + (y.std or 0.0)},
                "score": score.mean if score else None,
                "n": x.n,
                **run.label._asdict(),
                "suite": data.spec.suite,
                "task": data.task,
            }
        )
    _set_name_heights(values)
    shape = look.encode_series(list(entries.values()))["shape"]
    shape["legend"] |= {"symbolFillColor": "white", "symbolStrokeColor": look.BLACK}
    fill: look.ChartSpec = {"value": look.PALETTE[0]}
    if all(row["score"] is not None for row in values):
        unit = data.metric(COLOUR.suite, COLOUR.metric).title
        legend = {
            "orient": "top",
            "title": f"STS average, {unit}",
            "gradientLength": 120,
            "gradientThickness": 6,
            "format": ".1f",
        }
        scale = {"scheme": "cividis", "zero": False}
        fill = {"field": "score", "type": "quantitative", "scale": scale, "legend": legend}
    across = axes["x"]
    upward = axes["y"]
    filled = {**axes, "shape": shape, "fill": fill}
    beside = {"y": {**upward, "field": "name_y"}}
    layers = [
        look.make_layer(
            "rule",
            {"x": {**across, "field": "x1"}, "x2": {"field": "x2"}, "y": upward},
            color="#999999",
        ),
        look.make_layer(
            "rule",
            {"x": across, "y": {**upward, "field": "y1"}, "y2": {"field": "y2"}},
            color="#999999",
        ),
        look.make_layer("point", filled, size=35, opacity=1, strokeWidth=0.7, stroke=look.BLACK),
        look.make_layer("text", {**axes, **beside, "text": look.encode_nominal("place")}, **_NAMES),
    ]
    return [{**look.make_data(values), "layer": layers}]


def _set_name_heights(points: Sequence[dict[str, Any]]) -> None:
    """Set `name_y`, the height of each point's name, so that names of points beside each other
    stand apart.
    """
    xs, ys = ([point[axis] for point in points] for axis in "xy")
    wide = 0.4 * (max(xs) - min(xs))
    gap = NAME_GAP * (max(ys) - min(ys))
    placed: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point["y"]):
        below = [other["name_y"] + gap for other in placed if abs(other["x"] - point["x"]) <= wide]
        point["name_y"] = max([point["y"], *below])
        placed.append(point)


def _name_axis(data: FigureData, name: str) -> str:
    metric = data.metric(data.spec.suite, name)
    return f"{metric.name}, {data.task}" + ("" if metric.larger_is_better else " (lower is better)")


DATA_SCALE = FigureKind(draw_data_scale)
MARGIN_SWEEP = FigureKind(draw_margin_sweep)
SUBSET_GAIN = FigureKind(draw_subset_gain)
ALIGNMENT_UNIFORMITY = FigureKind(draw_alignment_uniformity, suites=(COLOUR.suite,))
