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


#: the points of each curve by its variant
Curves = Mapping[Label, Sequence[CurvePoint]]


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
    curves: Curves

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
    varied_settings = {axis.setting for axis in axes}
    constants = [
        run for run in runs if parse_setting(run.label.setting).name not in varied_settings
    ]

    # a variant looks alike in all panels
    curves: dict[Label, list[CurvePoint]] = {}
    for panel in panels:
        for label, points in panel.curves.items():
            curves.setdefault(label, []).extend(points)
    looks = _choose_curve_looks(curves)

    specs = []
    for at, (panel, title) in enumerate(zip(panels, _name_panels(panels), strict=True)):
        across = [run for run in constants if run.label.encoder == panel.axis.encoder]
        spec = _draw_scale_panel(f"levels{at}", panel, looks, across, data)
        specs.append({"title": title, **spec})

    text = (
        f"{name_suite(data.spec.suite)} average, mean ± SD over seeds. "
        "The values on the axis are evenly spaced."
    )
    drawn_runs = _list_drawn_runs(panels, constants)
    return Drawing(look.join_panels(specs, share=True), text, drawn_runs)


def _list_drawn_runs(
    panels: Sequence[ScalePanel], constants: Sequence[FigureRun]
) -> list[FigureRun]:
    """The runs on curves, then those of horizontal lines in any panel."""
    runs: dict[Label, FigureRun] = {}
    for panel in panels:
        for points in panel.curves.values():
            runs |= {point.run.label: point.run for point in points}

    encoders = {panel.axis.encoder for panel in panels}
    runs |= {run.label: run for run in constants if run.label.encoder in encoders}
    return list(runs.values())


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
    runs_of_encoder = [run for run in runs if run.label.encoder == axis.encoder]
    on_axis = [run.label.setting for run in runs_of_encoder if _find_axis(run) == axis]
    values = {setting: dict(parse_setting(setting).options) for setting in on_axis}
    fixed = _find_fixed_options(axis, list(values.values()))
    varying = [option for option in axis.options if option not in fixed]
    settings = sorted(values, key=lambda setting: _rank_level(values[setting], varying))
    texts = [_name_level(values[setting], varying) for setting in settings]

    run_settings = {run.label.setting for run in runs_of_encoder}
    plain = str(Variant.make(axis.setting, fixed))
    takes_part = any(option in PARTS for option in varying)
    if not takes_part and plain not in run_settings:
        # several kinds of noise at one level: unchanged is without any of them
        plain = axis.setting
    if plain in run_settings and takes_part:
        settings.append(plain)
        texts.append("all")
    elif plain in run_settings:
        settings.insert(0, plain)
        texts.insert(0, "unchanged")

    curves = _collect_curves(settings, runs_of_encoder, data.average)
    return ScalePanel(axis, fixed, texts, _find_numbers(texts), curves)


def _collect_curves(
    settings: Sequence[str], runs: Sequence[FigureRun], score: Score
) -> dict[Label, list[CurvePoint]]:
    """The points of each variant, at the places of the settings of its runs."""
    curves: dict[Label, list[CurvePoint]] = {}
    for place, setting in enumerate(settings):
        for run in runs:
            summary = run.summary(score)
            if summary and run.label.setting == setting:
                point = CurvePoint(float(place), run, summary)
                curves.setdefault(_remove_place(run.label), []).append(point)
    return curves


def _find_numbers(texts: Sequence[str]) -> dict[float, float]:
    """The places of levels by the first number in their texts, without levels that have none."""
    places = {}
    for place, text in enumerate(texts):
        value = look.read_number(text.partition(",")[0])
        if value is not None:
            places[value] = float(place)
    return places


def _find_fixed_options(axis: ScaleAxis, levels: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The options with one value at all levels, of which there are several."""
    fixed: dict[str, str] = {}
    if len(levels) == 1:
        return fixed
    for option in axis.options:
        values = {level[option] for level in levels}
        if len(values) == 1:
            fixed[option] = levels[0][option]
    return fixed


def _name_level(options: Mapping[str, str], varying: Sequence[str]) -> str:
    return ", ".join(options[option] for option in varying)


def _rank_level(options: Mapping[str, str], varying: Sequence[str]) -> list[tuple[object, ...]]:
    """The order of a level: numbers by size before other texts, option by option."""
    ranks: list[tuple[object, ...]] = []
    for option in varying:
        text = options[option]
        number = look.read_number(text)
        ranks.append((number is None, number or 0.0, text))
    return ranks


def _remove_place(label: Label) -> Label:
    """The label of a variant wherever it was trained."""
    return label._replace(setting="", encoder="")


def _choose_curve_looks(curves: Curves) -> dict[Label, look.Look]:
    """The look of each curve, whose name in the legend has the seeds of all its points."""
    summaries = {}
    for label, points in curves.items():
        summaries[label] = [point.summary for point in points]
    return look.choose_counted_looks(summaries, name_labels(list(curves)))


def _draw_scale_panel(
    param: str,
    panel: ScalePanel,
    looks: Mapping[Label, look.Look],
    across: Sequence[FigureRun],
    data: FigureData,
) -> look.ChartSpec:
    """One panel; the parameter `param` has the texts of its levels, which stand on the axis."""
    labels = {
        "values": list(range(len(panel.levels))),
        "labelExpr": f"{param}[datum.value]",
        "grid": False,
    }
    x = look.encode_axis("x", panel.axis_title, axis=labels)
    marks = [
        _make_printed_mark(name, value, panel.numbers[value])
        for name, value in data.printed
        if value in panel.numbers
    ]
    return {
        "params": [{"name": param, "value": list(panel.levels)}],
        "layer": _draw_curve_layers(panel.curves, across, data, looks, x, marks),
    }


def _make_printed_mark(name: str, value: float, place: float) -> look.LineAcross:
    """The line of a printed value at its place on an axis."""
    return look.LineAcross(f"printed: {name}, {value:g}", place)


def _draw_curve_layers(
    curves: Curves,
    constants: Sequence[FigureRun],
    data: FigureData,
    looks: Mapping[Label, look.Look],
    x: look.ChartSpec,
    marks: Sequence[look.LineAcross],
) -> list[look.ChartSpec]:
    """Curves, constants as horizontal lines, and marks of printed values as vertical ones."""
    points = []
    for label, curve in curves.items():
        for point in curve:
            source = point.run.source(data.average)
            points.append(look.make_curve_point(looks[label].name, point.x, point.summary, source))

    lines = []
    for run, name in zip(constants, _name_constants(constants), strict=True):
        summary = run.summary(data.average)
        if summary:
            source = {"n": summary.n, **run.source(data.average)}
            text = f"{name} ({look.count_seeds([summary])})"
            lines.append(look.LineAcross(text, summary.mean, source))

    unit = data.metric(data.spec.suite, data.spec.metric).title
    y = look.encode_axis("y", f"{name_suite(data.spec.suite)} average, {unit}")
    by = look.encode_series(list(looks.values()))
    return [
        *look.draw_lines("y", lines, look.BLACK),
        *look.draw_lines("x", marks),
        look.draw_curves(points, x, y, by),
    ]


def _name_constants(runs: Sequence[FigureRun]) -> list[str]:
    """The names of horizontal lines, with their settings, which are not those of the panel."""
    variants = name_labels([_remove_place(run.label) for run in runs])
    return [f"{name} / {run.label.setting}" for name, run in zip(variants, runs, strict=True)]


def draw_margin_sweep(data: FigureData) -> Drawing | str:
    """The average against an option of the method, one curve for each method, setting and encoder.

    A curve's method has the options that its variants share.
    """
    option = _find_first_option(data.spec.variants)
    curves: dict[Label, list[CurvePoint]] = {}
    for run in data.runs:
        summary = run.summary(data.average)
        x = _read_option(run, option)
        if summary is not None and x is not None:
            points = curves.setdefault(_remove_option(run.label, option), [])
            points.append(CurvePoint(x, run, summary))
    if not any(len(points) > 1 for points in curves.values()):
        return f"fewer than two values of {option} run in any setting yet"

    for points in curves.values():
        points.sort(key=lambda point: point.x)
    title = option_title(option)
    x_axis = look.encode_axis("x", title, axis={"grid": False})
    marks = [_make_printed_mark(name, value, value) for name, value in data.printed]
    layers = _draw_curve_layers(curves, [], data, _choose_curve_looks(curves), x_axis, marks)
    panel = {"height": 145 + 9 * len(curves), "layer": layers}
    text = f"{name_suite(data.spec.suite)} average against the {title}, mean ± SD over seeds."
    return Drawing(look.join_panels([panel]), text, data.runs)


def _find_first_option(variants: Iterable[str]) -> str:
    """The first option that any of some variants names; empty if none does."""
    for variant in variants:
        for name, _ in Variant.parse(variant).options:
            return name
    return ""


def _remove_option(label: Label, option: str) -> Label:
    """A label whose variant lacks an option."""
    variant = Variant.parse(label.variant)
    rest = {name: value for name, value in variant.options if name != option}
    return label._replace(variant=str(Variant.make(variant.name, rest, variant.reading)))


def _read_option(run: FigureRun, option: str) -> float | None:
    """The value of a method's option: as the variant names it, or as the run used it."""
    used = run.result.hyperparameters.get("method", {}).get(option)
    return look.read_number(dict(Variant.parse(run.label.variant).options).get(option, str(used)))


#: fewest bars that need the whole page
FEWEST_WIDE = 9


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
        worse_run = by_label.get(run.label._replace(variant=worse))
        if run.label.variant != better or worse_run is None:
            continue
        gains = _compute_subset_gains(data, worse_run, run)
        if gains:
            pairs.append(SubsetPair(worse_run, run, gains))
    if not pairs:
        return f"no setting in which both {worse} and {better} were run yet"

    metric = data.metric(data.spec.suite, data.spec.metric)
    titles = name_places([pair.better.label for pair in pairs])
    panels = []
    runs = []
    for at, (title, pair) in enumerate(zip(titles, pairs, strict=True)):
        panel = _draw_bar_panel(f"names{at}", pair, data.spec.suite, metric.title)
        panels.append({"title": title, **panel})
        runs += [pair.worse, pair.better]
    text = (
        f"{name_of(better)} minus {name_of(worse)} in {metric.title} on each subset, mean ± SD of the differences by "
        "seed, over the seeds of both."
    )
    return Drawing(look.join_panels(panels, share=True), text, runs)


def _compute_subset_gains(
    data: FigureData, worse: FigureRun, better: FigureRun
) -> dict[PartColumn, Summary]:
    """Differences by subset and task; by task if no task has subsets."""
    worse_cells = _select_subset_cells(data, worse)
    gains = {}
    for place, cell in _select_subset_cells(data, better).items():
        if place in worse_cells:
            scores, worse_scores = cell.pairs(worse_cells[place])
            if scores:
                gains[place] = summarise(list(map(sub, scores, worse_scores)))

    of_subsets = {place: gain for place, gain in gains.items() if place[0]}
    return of_subsets or gains


def _select_subset_cells(data: FigureData, run: FigureRun) -> dict[PartColumn, Cell]:
    """The scores of subsets and whole tasks in the figure's metric, without those of seen and
    unseen pairs.
    """
    row = run.rows[data.spec.suite]
    subsets = {place: cell for place, cell in row.parts.items() if not is_by_training(place[0])}
    tasks = {("", column): cell for column, cell in row.cells.items() if column.task != AVERAGE}
    cells = {**subsets, **tasks}
    return {place: cell for place, cell in cells.items() if place[1].metric == data.spec.metric}


def _draw_bar_panel(param: str, pair: SubsetPair, suite: str, metric: str) -> look.ChartSpec:
    """Bars of gains with their deviations; the parameter `param` has the names below them."""
    gains = pair.gains
    names = [part or column.task for part, column in gains]
    values = []
    for at, ((part, column), gain) in enumerate(gains.items()):
        source = pair.better.source(Score(suite, *column), part)
        source["against"] = pair.worse.label.variant
        values.append(look.make_curve_point(column.task, at, gain, source))

    labels = {
        "title": None,
        "labelExpr": f"{param}[datum.value]",
        "labelAngle": -50,
        "labelLimit": 0,
        "grid": False,
    }
    x = {"field": "x", "type": "ordinal", "axis": labels}
    y = look.encode_axis("y", f"gain, {metric} ({look.count_seeds(gains.values())})")
    tasks = dict.fromkeys(column.task for _, column in gains)
    colour = look.encode_series(look.choose_looks(tasks))["color"]
    return {
        "width": look.WIDTHS["column" if len(gains) < FEWEST_WIDE else "page"],
        "height": 190,
        "params": [{"name": param, "value": names}],
        **look.make_data(values),
        "encoding": {"x": x},
        "layer": [
            look.make_layer("bar", {"y": y, "color": colour}),
            look.make_layer("rule", look.encode_interval("y", y), color=look.BLACK),
            look.draw_line({"x": None, "y": {"datum": 0}}, color=look.BLACK),
        ],
    }


#: The score that colours the points.
COLOUR = Score("sts", AVERAGE, "spearman")
#: width of a name beside a point, and lines between two of them, as shares of the axes
NAME_WIDTH = 0.4
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

    looks = _choose_geometry_looks(points)
    panel = {"height": 190 + 9 * len(looks), "layer": [_draw_geometry(data, points, looks)]}
    text = f"Alignment against uniformity on {data.task}, mean ± SD over seeds; the colour is the STS average."
    return Drawing(look.join_panels([panel]), text, [point.run for point in points])


def _choose_geometry_looks(points: Sequence[GeometryPoint]) -> Mapping[Label, look.Look]:
    """The look of each variant, by its label without a place."""
    summaries: dict[Label, list[Summary]] = {}
    for point in points:
        summaries.setdefault(_remove_place(point.run.label), []).append(point.uniformity)
    return look.choose_counted_looks(summaries, name_labels(list(summaries)))


def _draw_geometry(
    data: FigureData, points: Sequence[GeometryPoint], looks: Mapping[Label, look.Look]
) -> look.ChartSpec:
    """Deviations, and points with their places."""
    values: list[dict[str, Any]] = []
    places = name_places([point.run.label for point in points])
    for point, place in zip(points, places, strict=True):
        series = looks[_remove_place(point.run.label)].name
        values.append(_make_geometry_row(data, point, series, place))
    _set_name_heights(values)

    x = look.encode_axis("x", _name_axis(data, "uniformity"))
    y = look.encode_axis("y", _name_axis(data, "alignment"))
    x_deviation = {**look.encode_interval("x", x, "x1", "x2"), "y": y}
    y_deviation = {"x": x, **look.encode_interval("y", y, "y1", "y2")}
    shape = look.encode_series(list(looks.values()))["shape"]
    shape["legend"] |= {"symbolFillColor": "white", "symbolStrokeColor": look.BLACK}
    point_encoding = {"x": x, "y": y, "shape": shape, "fill": _encode_fill(data, values)}
    name = {"x": x, "y": {**y, "field": "name_y"}, "text": look.encode_nominal("place")}
    layers = [
        look.make_layer("rule", x_deviation, color="#999999"),
        look.make_layer("rule", y_deviation, color="#999999"),
        look.make_layer(
            "point", point_encoding, size=35, opacity=1, strokeWidth=0.7, stroke=look.BLACK
        ),
        look.make_layer("text", name, **_NAMES),
    ]
    return {**look.make_data(values), "layer": layers}


def _make_geometry_row(
    data: FigureData, point: GeometryPoint, series: str, place: str
) -> dict[str, Any]:
    """The data of a point: means, the ends of deviations, the score that colours it, and what they
    are from.
    """
    score = point.run.summary(COLOUR)
    x = point.uniformity
    y = point.alignment
    x_deviation = x.std or 0.0
    y_deviation = y.std or 0.0
    return {
        "series": series,
        "place": place,
        "x": x.mean,
        "x1": x.mean - x_deviation,
        "x2": x.mean + x_deviation,
        "y": y.mean,
        "y1": y.mean - y_deviation,
        "y2": y.mean + y_deviation,
        "score": score.mean if score else None,
        "n": x.n,
        **point.run.label._asdict(),
        "suite": data.spec.suite,
        "task": data.task,
    }


def _encode_fill(data: FigureData, values: Sequence[Mapping[str, Any]]) -> look.ChartSpec:
    """The colour of points by their scores; one colour where a point has none."""
    if any(row["score"] is None for row in values):
        return {"value": look.PALETTE[0]}

    unit = data.metric(COLOUR.suite, COLOUR.metric).title
    legend = {
        "orient": "top",
        "title": f"STS average, {unit}",
        "gradientLength": 120,
        "gradientThickness": 6,
        "format": ".1f",
    }
    scale = {"scheme": "cividis", "zero": False}
    return look.encode_quantity("score", scale=scale, legend=legend)


def _set_name_heights(points: Sequence[dict[str, Any]]) -> None:
    """Set `name_y`, the height of each point's name, so that names of points beside each other
    stand apart.
    """
    xs = [point["x"] for point in points]
    ys = [point["y"] for point in points]
    name_width = NAME_WIDTH * (max(xs) - min(xs))
    gap = NAME_GAP * (max(ys) - min(ys))

    placed: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point["y"]):
        height = point["y"]
        for lower in placed:
            if abs(lower["x"] - point["x"]) <= name_width:
                height = max(height, lower["name_y"] + gap)
        point["name_y"] = height
        placed.append(point)


def _name_axis(data: FigureData, name: str) -> str:
    metric = data.metric(data.spec.suite, name)
    remark = "" if metric.larger_is_better else " (lower is better)"
    return f"{metric.name}, {data.task}{remark}"


DATA_SCALE = FigureKind(draw_data_scale)
MARGIN_SWEEP = FigureKind(draw_margin_sweep)
SUBSET_GAIN = FigureKind(draw_subset_gain)
ALIGNMENT_UNIFORMITY = FigureKind(draw_alignment_uniformity, suites=(COLOUR.suite,))
