"""Charts of a summary table at a glance: forests of gains, heat maps of tasks by variants, and
curves of swept values.

A forest has the gain of each variant over the baseline with its 95 % interval, best first. A heat
map has the scores of tasks by variants, coloured by the difference to the baseline. A sweep has
scores against the values of one hyperparameter, for variants that differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from harness.formatting import fixed, interval_text, signed
from harness.method.naming import option_title
from harness.metrics import AVERAGE, Column
from harness.reporting import look
from harness.reporting.seeds.caveats import list_weakness_notes
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.evaluated import has_runs
from harness.reporting.seeds.gains import Forest, Gain, find_main_baseline
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import name_suite
from harness.reporting.tables.grids import format_marks, format_summary
from harness.spec import Variant
from harness.stats import CORRECTION, mean_interval

#: rows of one forest or map; further ones are in the table
MOST_ROWS = 40
#: few enough ticks that all are labelled at any width, zero too
_TICKS = {"tickCount": {"expr": "clamp(floor(width / 80), 2, 8)"}, "labelOverlap": False}
_COLOURS = {
    "better": "var(--good)",
    "worse": "var(--bad)",
    "not significant": look.SOFT,
    "equal": look.SOFT,
    "not tested": look.SOFT,
    "baseline": look.INK,
    "untrained": "var(--c3)",
    "other pooling": "var(--c3)",
}
_COLOUR = look.encode_by_name("kind", _COLOURS, _COLOURS.values())


def draw_forest(forest: Forest) -> look.Plot:
    """Draw a forest."""
    table = forest.table
    suite = name_suite(table.suite)
    gains = forest.gains[:MOST_ROWS]
    values = [_make_gain_row(forest, index, gain) for index, gain in enumerate(gains)]
    names = [f"{gain.name}{gain.row.weakness([forest.column]).marks}" for gain in gains]
    row, height, params = look.encode_names(names)

    axis = _name_gain_axis(forest)
    spec: look.ChartSpec = {
        **look.make_data(values, look.DIGITS),
        "params": params,
        "height": height,
        "description": f"{', '.join(axis)}, {forest.place}",
        "encoding": {"y": row},
        "layer": [
            *_draw_zero(forest),
            _draw_gain_intervals(),
            _draw_gain_points(axis, forest),
        ],
        "resolve": {"axis": {"x": "independent"}},
    }
    return look.Plot(
        f"forest-{table.profile}-{table.suite}{table.about}-{forest.place}",
        f"{forest.place}, profile {table.profile}: {suite} average",
        spec,
        _explain_forest(forest),
        unscripted="The sentences and tables have the same numbers.",
    )


def _name_gain_axis(forest: Forest) -> list[str]:
    """The title of the axis of gains in two lines: what is shown, and its unit."""
    metric = forest.metric
    unit = metric.title
    if not metric.larger_is_better:
        unit += ", lower is better: sign turned"
    if forest.base:
        return [f"difference to {forest.baseline}", unit]
    return [f"{name_suite(forest.table.suite)} average", unit]


def _draw_zero(forest: Forest) -> list[look.ChartSpec]:
    """The layer of a line at no difference; none without a baseline."""
    if not forest.base:
        return []
    zero = {"datum": 0, "type": "quantitative", "axis": None}
    return [look.draw_line({"x": zero, **look.UPRIGHT}, strokeWidth=1)]


def _make_gain_row(forest: Forest, index: int, gain: Gain) -> dict[str, object]:
    """The data of a row: its numbers, and the texts of its tooltip."""
    digits = forest.metric.digits
    summary = gain.cell.summary
    interval = "none"
    if gain.low < gain.high:
        interval = interval_text(gain.low, gain.high, digits, signed)
    weakness = str(gain.row.weakness([forest.column]))
    remarks = filter(None, (_describe_gain_test(forest, gain), weakness))
    is_certain = gain.row.is_trained and gain.cell.holds
    return {
        "i": index,
        "x": gain.size,
        "lo": gain.low,
        "hi": gain.high,
        "name": str(gain.name),
        "code": gain.name.code,
        "score": str(format_summary(summary, digits)),
        "seeds": summary.n,
        "size": signed(gain.size, digits) if forest.base else "–",
        "interval": interval,
        "test": "; ".join(remarks),
        "kind": gain.kind,
        "certain": is_certain or gain.kind in ("baseline", "untrained", "equal"),
    }


def _describe_gain_test(forest: Forest, gain: Gain) -> str:
    """What the test of a gain says, or why it has none."""
    if gain.kind == "other pooling":
        return "untrained, at another pooling"
    if gain.kind in ("untrained", "baseline"):
        return gain.kind
    return forest.words(gain)


def _draw_gain_intervals() -> look.ChartSpec:
    """The bars of intervals, with an axis above the rows."""
    above = {"orient": "top", "title": None, "grid": False, **_TICKS}
    ends = look.encode_interval("x", look.encode_quantity("lo", axis=above))
    return look.make_layer("rule", {**ends, "color": _COLOUR}, strokeWidth=2)


def _draw_gain_points(axis: list[str], forest: Forest) -> look.ChartSpec:
    """The points of gains, hollow where they do not hold, with the axis below the rows."""
    differences = [("size", "difference")] if forest.base else []
    tooltip = look.make_tooltip(
        ("name", "variant"),
        ("code", "code"),
        ("score", "mean ± deviation"),
        ("seeds", "seeds"),
        *differences,
        ("interval", "95 % interval"),
        ("test", "test"),
    )
    scale = {"zero": forest.base is not None, "padding": 12}
    encoding = {
        "x": look.encode_quantity("x", title=axis, scale=scale, axis=_TICKS),
        "stroke": _COLOUR,
        "fill": {"condition": {"test": "datum.certain", **_COLOUR}, "value": look.GROUND},
        "tooltip": tooltip,
    }
    return look.make_layer("point", encoding, size=80, strokeWidth=2, opacity=1)


def _explain_forest(forest: Forest) -> str:
    """How the chart is read, and which rows it lacks."""
    sentences = [f"Means over seeds with 95 % intervals (t). {_explain_missing_baseline(forest)}"]
    if forest.base is not None:
        sentences = _explain_colours(forest)
    if len(forest.gains) > MOST_ROWS:
        sentences.append(f"The best {MOST_ROWS} of {len(forest.gains)} rows.")
    return " ".join([*sentences, *forest.notes]).rstrip()


def _explain_colours(forest: Forest) -> list[str]:
    """How points and colours are read, as far as a forest has them."""
    not_tested = [gain for gain in forest.gains if gain.kind == "not tested"]
    has_no_interval = any(gain.low == gain.high for gain in not_tested)
    has_other_values = any(gain.low < gain.high for gain in not_tested)
    kinds = {gain.kind for gain in forest.gains}

    sentences = [
        f"Mean difference to {forest.baseline} with its 95 % interval (t-test).",
        "Green: better, red: worse, grey: no difference shown.",
        f"A filled point stands after {CORRECTION.name} too, or is equal; an open one does not.",
    ]
    if "untrained" in kinds:
        sentences.append("Pink: an untrained encoder.")
    if "other pooling" in kinds:
        sentences.append("Pink and open: one that is pooled otherwise than the trained rows.")
    if has_no_interval:
        sentences.append("Points without a bar have too few seeds to test.")
    if has_other_values:
        sentences.append(f"Not tested: {forest.baseline} with other values.")
    return sentences


def _explain_missing_baseline(forest: Forest) -> str:
    """Why a forest has nothing to compare its rows with."""
    trained = [row for row in forest.block.trained if forest.column in row.cells]
    if len(trained) == 1 and forest.block.is_baseline(trained[0]):
        return f"{forest.baseline} alone has been trained here."

    place = forest.block
    label = Label(forest.table.profile, place.base, place.setting, place.encoder, "")
    frames = [row.frames for row in place.rows if row.frames]
    if frames and has_runs(frames[0], label):
        return f"{forest.baseline} has no score in {name_suite(forest.table.suite)}."
    return f"There is no {forest.baseline} run to compare."


#: classes of colour, the middle one for no difference
CLASSES = 9
#: pixels of a cell with its score
CELL = 46


def draw_heat_maps(table: SummaryTable) -> Iterator[look.Plot]:
    """A heat map for each judged metric with several tasks, setting and encoder; within a metric,
    most rows first.
    """
    blocks = [block for block in table.blocks if len(block.trained) > 1]
    blocks.sort(key=lambda block: -len(block.trained))
    for name, metric in table.metrics.items():
        if metric.judged and len(table.list_tasks(name)) > 1:
            columns = [column for column in table.columns if column.metric == name]
            for block in blocks:
                yield _draw_heat_map(table, block, columns)


def _draw_heat_map(table: SummaryTable, block: Block, columns: Sequence[Column]) -> look.Plot:
    """Draw the scores of a block by row and task, each coloured by its gain."""
    metric = table.metric(columns[0])
    place = block.place
    rows = _sort_heat_rows(block, columns, metric.larger_is_better)
    middles = {column: _find_middle(block, column) for column in columns}
    values: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        values += _list_heat_values(table, block, middles, index, row)
    largest_gain = max((abs(value["d"]) for value in values), default=0.0) or 1.0

    names = [f"{row.label.name}{row.weakness(columns).marks}" for row in rows]
    row_axis, height, params = look.encode_names(names)
    above = {"orient": "top", "labelAngle": -40, **look.NO_LINES}
    task_axis = look.encode_nominal("task", sort=None, title=None, axis=above)
    text = {"text": look.encode_nominal("text")}
    spec: look.ChartSpec = {
        **look.make_data(values, look.DIGITS),
        "params": params,
        "height": height,
        "usermeta": {"narrowest": 190 + CELL * len(columns)},
        "description": f"{metric.name} by task and variant, {place}",
        "encoding": {"x": task_axis, "y": row_axis},
        "layer": [
            _draw_heat_cells(largest_gain),
            look.make_layer("text", text, fontSize=12, color=look.INK, tooltip=None),
        ],
    }

    base = find_main_baseline(block, columns[0])
    reference = base.label.name if base else "the mean of the column"
    explanation = (
        f"Means over seeds. Blue: better than {reference}, orange: worse; the deepest colour is a difference of "
        f"{fixed(largest_gain, metric.digits)}."
    )
    notes = list_weakness_notes(row.weakness(columns) for row in rows)
    lower = "" if metric.larger_is_better else ", lower is better"
    return look.Plot(
        f"heat-{table.profile}-{table.suite}{table.about}-{metric.name}-{place}",
        f"{place}: {metric.name} by task{lower}",
        spec,
        " ".join((explanation, *notes)),
    )


def _draw_heat_cells(largest_gain: float) -> look.ChartSpec:
    """The cells, coloured by gains up to the largest one on either side."""
    scale = {
        "type": "quantize",
        "domain": [-largest_gain, largest_gain],
        "range": [f"var(--d{n})" for n in range(CLASSES)],
    }
    tooltip = look.make_tooltip(
        ("name", "variant"),
        ("code", "code"),
        ("task", "task"),
        ("score", "mean ± deviation"),
        ("about", "test"),
        ("weak", "weakened by"),
    )
    colour = look.encode_quantity("d", legend=None, scale=scale)
    return look.make_layer("rect", {"color": colour, "tooltip": tooltip})


def _sort_heat_rows(block: Block, columns: Sequence[Column], larger_is_better: bool) -> list[Row]:
    """The rows with scores, by the average or else the first task."""
    main = next((column for column in columns if column.task == AVERAGE), columns[0])
    rows = [row for row in block.rows if main in row.cells]
    rows.sort(key=lambda row: row.cells[main].summary.mean, reverse=larger_is_better)
    return rows[:MOST_ROWS]


def _list_heat_values(
    table: SummaryTable, block: Block, middles: Mapping[Column, float], index: int, row: Row
) -> Iterator[dict[str, Any]]:
    """The data of a row's cells: the gain over the middle of its column, which colours each, and
    its texts.
    """
    for column, middle in middles.items():
        cell = row.cells.get(column)
        if cell is None:
            continue

        metric = table.metric(column)
        mean = cell.summary.mean
        gain = mean - middle
        test = f"{signed(gain, metric.digits)}, {block.words(row, column, metric)}"
        weakness = str(row.weakness([column]))
        # a cell has no room for two decimals; numbers of three and more need them
        digits = min(1, metric.digits) if metric.digits < 3 else metric.digits
        yield {
            "i": index,
            "task": column.task,
            "text": f"{fixed(mean, digits)}{format_marks(cell)}",
            "d": gain if metric.larger_is_better else -gain,
            "name": str(row.label.name),
            "code": row.label.name.code,
            "score": _format_score(cell, metric.digits),
            "about": "; ".join(filter(None, (test, weakness))),
        }


def _format_score(cell: Cell, digits: int) -> str:
    """The mean with its deviation and its seeds."""
    return f"{format_summary(cell.summary, digits)}, n = {cell.summary.n}"


def _find_middle(block: Block, column: Column) -> float:
    """What scores in a column are coloured against: the baseline's, or without it the mean; 0 where
    there are none.
    """
    base = find_main_baseline(block, column)
    if base:
        return base.cells[column].summary.mean
    means = [row.cells[column].summary.mean for row in block.rows if column in row.cells]
    return sum(means) / len(means) if means else 0.0


#: values of a hyperparameter that make a curve
FEWEST = 3
#: lines in a chart, those with most values first
MOST_LINES = 20
#: most values that all stand on the axis
MOST_TICKS = 8
#: largest value over smallest from which the axis is logarithmic
DECADES = 20.0
#: label -> option -> its value in the label's runs, also of options that the name leaves at their
#: default
UnnamedOptions = Mapping[Label, Mapping[str, object]]


class Sweep(NamedTuple):
    """An option that was swept in a block: the scores at each of its values, for each variant
    without it.
    """

    block: Block
    option: str
    lines: Mapping[Label, Mapping[float, Cell]]


def draw_sweeps(table: SummaryTable, defaults: UnnamedOptions) -> list[look.Plot]:
    """A chart for each option that was swept in a setting and encoder, in the first average of a
    table.
    """
    column = next((column for column in table.columns if column.task == AVERAGE), None)
    if column is None:
        return []

    sweeps: list[Sweep] = []
    for block in table.blocks:
        sweeps += _find_sweeps(block, column, defaults)
    sweeps.sort(key=lambda sweep: -max(map(len, sweep.lines.values())))
    return [_draw_sweep(table, column, sweep) for sweep in sweeps]


def _draw_sweep(table: SummaryTable, column: Column, sweep: Sweep) -> look.Plot:
    """Draw the scores at each value of an option, with a line for each variant."""
    metric = table.metric(column)
    place = sweep.block.place
    legend = []
    rows: list[dict[str, object]] = []
    for number, (label, cells) in enumerate(islice(sweep.lines.items(), MOST_LINES)):
        seeds = look.count_seeds(cell.summary for cell in cells.values())
        drawn_as = look.choose_variant_look(number)
        legend.append(look.LegendEntry(number, label.name, drawn_as, seeds))
        rows += _list_sweep_points(number, cells, metric.digits)

    text = "Means over seeds with 95 % intervals (t)."
    mean = None
    base = find_main_baseline(sweep.block, column)
    if base:
        mean = base.cells[column].summary.mean
        text += f" Dashed: {base.label.name}."
    if len(sweep.lines) > MOST_LINES:
        text += f" The {MOST_LINES} of {len(sweep.lines)} variants with most values."
    name = option_title(sweep.option)
    return look.Plot(
        f"sweep-{table.profile}-{table.suite}{table.about}-{sweep.option}-{place}",
        f"{name}: {name_suite(table.suite)} average, {place}",
        _make_sweep_spec(rows, legend, name, metric.title, mean),
        text,
        tuple(legend),
    )


def list_swept_values(label: Label) -> Iterator[tuple[str, float, Label]]:
    """Each numeric option or override of a variant: its name, its value, and the label without it."""
    variant = label.parsed
    if variant is None:
        return
    for option, text in variant.options:
        value = look.read_number(text)
        if value is not None:
            rest = {name: text for name, text in variant.options if name != option}
            plain = str(Variant.make(variant.name, rest, variant.reading))
            yield option, value, label._replace(variant=plain)

    overrides = label.overrides.split(",")
    for override in overrides:
        name, _, text = override.partition("=")
        value = look.read_number(text)
        if value is not None:
            without = ",".join(text for text in overrides if text != override)
            yield name, value, label._replace(overrides=without)


def _find_sweeps(block: Block, column: Column, defaults: UnnamedOptions) -> Iterator[Sweep]:
    """The options that were swept in a block."""
    cells_by_option: dict[str, dict[Label, dict[float, Cell]]] = {}
    for row in block.trained:
        if column not in row.cells:
            continue
        for option, value, label in list_swept_values(row.label):
            cells_by_label = cells_by_option.setdefault(option, {})
            cells_by_label.setdefault(label, {})[value] = row.cells[column]

    for option, cells_by_label in cells_by_option.items():
        # the variant that does not name the option is a point at its default
        for label, cells in cells_by_label.items():
            plain = block.by_label.get(label)
            default = look.read_number(str(defaults.get(label, {}).get(option, "")))
            if plain and default is not None and column in plain.cells:
                cells.setdefault(default, plain.cells[column])

        longest = sorted(cells_by_label.items(), key=lambda line: -len(line[1]))
        lines = {
            label: dict(sorted(cells.items())) for label, cells in longest if len(cells) >= FEWEST
        }
        if lines:
            yield Sweep(block, option, lines)


def _list_sweep_points(
    at: int, cells: Mapping[float, Cell], digits: int
) -> Iterator[dict[str, object]]:
    for value, cell in cells.items():
        interval = mean_interval(cell.summary)
        mean = cell.summary.mean
        yield {
            "v": at,
            "x": value,
            "y": mean,
            "lo": interval.low if interval else mean,
            "hi": interval.high if interval else mean,
            "score": _format_score(cell, digits),
        }


def choose_scale(values: Sequence[float]) -> look.ChartSpec:
    """A logarithmic axis, also with room for 0, if the positive values span a factor of DECADES;
    else a linear one.
    """
    positive = [value for value in values if value > 0]
    if not positive or max(positive) / min(positive) < DECADES or min(values) < 0:
        return {"type": "linear", "zero": False, "nice": False, "padding": 16}
    if min(values) > 0:
        return {"type": "log", "nice": False, "padding": 16}
    return {"type": "symlog", "constant": min(positive), "nice": False, "padding": 16}


def _make_sweep_spec(
    rows: Sequence[Mapping[str, object]],
    legend: Sequence[look.LegendEntry],
    name: str,
    score: str,
    mean: float | None,
) -> look.ChartSpec:
    """The specification; a line across is at the `mean` of the baseline, if there is one."""
    by = look.encode_variants(legend)
    params, transform = look.make_hiding(legend)
    values = sorted({float(str(row["x"])) for row in rows})
    axis: look.ChartSpec = {"grid": False}
    if len(values) <= MOST_TICKS:
        axis["values"] = values
    x = look.encode_quantity("x", title=name, scale=choose_scale(values), axis=axis)
    y = look.encode_quantity("y", title=score, scale={"zero": False})
    tooltip = look.make_tooltip(
        ("variant", "variant"), ("x", name, "~g"), ("score", "mean ± deviation")
    )
    curves: look.ChartSpec = {
        **look.make_data(rows, look.DIGITS),
        **transform,
        "encoding": {"x": x, "color": by["color"]},
        "layer": look.draw_bars_and_line(y, by, 2, 70, tooltip=tooltip),
    }

    layers = [curves]
    if mean is not None:
        at_mean = {"y": {"datum": mean, "type": "quantitative"}}
        layers.insert(0, look.draw_line(at_mean, strokeDash=[4, 4]))
    return {
        "params": params,
        "height": 240,
        "description": f"{score} against {name}",
        "layer": layers,
    }
