"""Charts of a summary table at a glance: forests of gains, heat maps of tasks by variants, and
curves of swept values.

A forest has the gain of each variant over the baseline with its 95 % interval, best first. A heat
map has the scores of tasks by variants, coloured by the difference to the baseline. A sweep has
scores against the values of one hyperparameter, for variants that differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    metric = forest.table.metric(forest.column)
    base = forest.base
    shown = forest.gains[:MOST_ROWS]
    unit = metric.title + ("" if metric.larger_is_better else ", lower is better: sign turned")
    axis = [
        f"difference to {forest.baseline}" if base else f"{name_suite(forest.table.suite)} average",
        unit,
    ]
    row, height, params = look.encode_names(
        [f"{gain.name}{gain.row.weakness([forest.column]).marks}" for gain in shown]
    )
    zero: look.ChartSpec = {"x": {"datum": 0, "type": "quantitative", "axis": None}, **look.UPRIGHT}
    spec: look.ChartSpec = {
        **look.make_data(
            [_make_gain_row(forest, index, gain) for index, gain in enumerate(shown)], look.DIGITS
        ),
        "params": params,
        "height": height,
        "description": f"{', '.join(axis)}, {forest.place}",
        "encoding": {"y": row},
        "layer": [
            *([look.draw_line(zero, strokeWidth=1)] if base else []),
            _draw_gain_intervals(),
            _draw_gain_points(axis, forest),
        ],
        "resolve": {"axis": {"x": "independent"}},
    }
    key = f"forest-{forest.table.profile}-{forest.table.suite}{forest.table.about}-{forest.place}"
    title = (
        f"{forest.place}, profile {forest.table.profile}: {name_suite(forest.table.suite)} average"
    )
    return look.Plot(
        key,
        title,
        spec,
        _explain_forest(forest),
        unscripted="The sentences and tables have the same numbers.",
    )


def _make_gain_row(forest: Forest, index: int, gain: Gain) -> dict[str, object]:
    digits = forest.table.metric(forest.column).digits
    summary = gain.cell.summary
    interval = (
        interval_text(gain.low, gain.high, digits, signed) if gain.low < gain.high else "none"
    )
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
        "test": "; ".join(
            filter(
                None, (_describe_gain_test(forest, gain), str(gain.row.weakness([forest.column])))
            )
        ),
        "kind": gain.kind,
        "certain": (gain.row.is_trained and gain.cell.holds)
        or gain.kind in ("baseline", "untrained", "equal"),
    }


def _describe_gain_test(forest: Forest, gain: Gain) -> str:
    if gain.kind == "other pooling":
        return "untrained, at another pooling"
    if gain.kind in ("untrained", "baseline"):
        return gain.kind
    return forest.words(gain)


def _draw_gain_intervals() -> look.ChartSpec:
    above = {"orient": "top", "title": None, "grid": False, **_TICKS}
    ends = {"x": {"field": "lo", "type": "quantitative", "axis": above}, "x2": {"field": "hi"}}
    return look.make_layer("rule", ends | {"color": _COLOUR}, strokeWidth=2)


def _draw_gain_points(axis: list[str], forest: Forest) -> look.ChartSpec:
    scale: look.ChartSpec = {"zero": forest.base is not None, "padding": 12}
    lines = look.make_tooltip(
        ("name", "variant"),
        ("code", "code"),
        ("score", "mean ± deviation"),
        ("seeds", "seeds"),
        *([("size", "difference")] if forest.base else []),
        ("interval", "95 % interval"),
        ("test", "test"),
    )
    fill = {"condition": {"test": "datum.certain", **_COLOUR}, "value": look.GROUND}
    x = look.encode_quantity("x", axis, scale=scale, axis=_TICKS)
    encoding = {"x": x, "stroke": _COLOUR, "fill": fill, "tooltip": lines}
    return look.make_layer("point", encoding, size=80, strokeWidth=2, opacity=1)


def _explain_forest(forest: Forest) -> str:
    left_out = len(forest.gains) - MOST_ROWS
    more = f" The best {MOST_ROWS} of {len(forest.gains)} rows." if left_out > 0 else ""
    more = " ".join((more, *forest.notes)).rstrip()
    if forest.base is None:
        return (
            f"Means over seeds with 95 % intervals (t). {_explain_missing_baseline(forest)}{more}"
        )
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
    return " ".join(sentences) + more


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


def draw_heat_maps(table: SummaryTable) -> list[look.Plot]:
    """A heat map for each judged metric with several tasks, setting and encoder; within a metric,
    most rows first.
    """
    plots = []
    for metric in table.metrics:
        columns = [column for column in table.columns if column.metric == metric]
        if table.metrics[metric].judged and sum(column.task != AVERAGE for column in columns) > 1:
            several = (block for block in table.blocks if len(block.trained) > 1)
            blocks = sorted(several, key=lambda block: -len(block.trained))
            plots += [_draw_heat_map(table, block, columns) for block in blocks]
    return plots


def _draw_heat_map(table: SummaryTable, block: Block, columns: Sequence[Column]) -> look.Plot:
    metric = table.metric(columns[0])
    place = block.place
    rows = _sort_heat_rows(block, columns, metric.larger_is_better)
    values = [
        value
        for index, row in enumerate(rows)
        for value in _list_heat_values(table, block, columns, index, row)
    ]
    most = max((abs(value["d"]) for value in values), default=0.0) or 1.0
    row, height, params = look.encode_names(
        [f"{row.label.name}{row.weakness(columns).marks}" for row in rows]
    )
    above = {"orient": "top", "labelAngle": -40, "domain": False, "ticks": False, "grid": False}
    scale = {
        "type": "quantize",
        "domain": [-most, most],
        "range": [f"var(--d{n})" for n in range(CLASSES)],
    }
    colour = {"field": "d", "type": "quantitative", "legend": None, "scale": scale}
    lines = look.make_tooltip(
        ("name", "variant"),
        ("code", "code"),
        ("task", "task"),
        ("score", "mean ± deviation"),
        ("about", "test"),
        ("weak", "weakened by"),
    )
    spec: look.ChartSpec = {
        **look.make_data(values, look.DIGITS),
        "params": params,
        "height": height,
        "usermeta": {"narrowest": 190 + CELL * len(columns)},
        "description": f"{metric.name} by task and variant, {place}",
        "encoding": {"x": look.encode_nominal("task", sort=None, title=None, axis=above), "y": row},
        "layer": [
            look.make_layer("rect", {"color": colour, "tooltip": lines}),
            look.make_layer(
                "text",
                {"text": look.encode_nominal("text")},
                fontSize=12,
                color=look.INK,
                tooltip=None,
            ),
        ],
    }
    key = f"heat-{table.profile}-{table.suite}{table.about}-{metric.name}-{place}"
    lower = "" if metric.larger_is_better else ", lower is better"
    base = find_main_baseline(block, columns[0])
    against = base.label.name if base else "the mean of the column"
    text = (
        f"Means over seeds. Blue: better than {against}, orange: worse; the deepest colour is a difference of "
        f"{fixed(most, metric.digits)}."
    )
    text = " ".join((text, *list_weakness_notes(row.weakness(columns) for row in rows)))
    return look.Plot(key, f"{place}: {metric.name} by task{lower}", spec, text)


def _sort_heat_rows(block: Block, columns: Sequence[Column], larger_is_better: bool) -> list[Row]:
    """The rows with scores, by the average or else the first task."""
    by = next((column for column in columns if column.task == AVERAGE), columns[0])
    rows = [row for row in block.rows if by in row.cells]
    return sorted(rows, key=lambda row: row.cells[by].summary.mean, reverse=larger_is_better)[
        :MOST_ROWS
    ]


def _list_heat_values(
    table: SummaryTable, block: Block, columns: Sequence[Column], index: int, row: Row
) -> Iterator[dict[str, Any]]:
    for column in columns:
        cell = row.cells.get(column)
        if cell is None:
            continue
        metric = table.metric(column)
        base = find_main_baseline(block, column)
        middle = [
            row.cells[column].summary.mean
            for row in ([base] if base else block.rows)
            if column in row.cells
        ]
        gain = cell.summary.mean - sum(middle) / len(middle)
        about = f"{signed(gain, metric.digits)}, {block.words(row, column, metric)}"
        yield {
            "i": index,
            "task": column.task,
            "text": fixed(
                cell.summary.mean, min(1, metric.digits) if metric.digits < 3 else metric.digits
            )
            + format_marks(cell),
            "d": gain if metric.larger_is_better else -gain,
            "name": str(row.label.name),
            "code": row.label.name.code,
            "score": f"{format_summary(cell.summary, metric.digits)}, n = {cell.summary.n}",
            "about": "; ".join(filter(None, (about, str(row.weakness([column]))))),
        }


#: values of a hyperparameter that make a curve
FEWEST = 3
#: lines in a chart, those with most values first
MOST_LINES = 20
#: largest value over smallest from which the axis is logarithmic
DECADES = 20.0
#: label -> option -> its value in the label's runs, also of options that the name leaves at their
#: default
UnnamedOptions = Mapping[Label, Mapping[str, object]]
#: label without a swept option -> its scores at each value of the option
SweptLines = Mapping[Label, Mapping[float, Cell]]


def draw_sweeps(table: SummaryTable, defaults: UnnamedOptions) -> list[look.Plot]:
    """A chart for each option that was swept in a setting and encoder, in the first average of a
    table.
    """
    column = next((candidate for candidate in table.columns if candidate.task == AVERAGE), None)
    if column is None:
        return []
    swept_in = [
        (block, *sweep) for block in table.blocks for sweep in _find_sweeps(block, column, defaults)
    ]
    swept_in.sort(key=lambda sweep: -max(map(len, sweep[-1].values())))
    return [_draw_sweep(table, block, column, option, lines) for block, option, lines in swept_in]


def _draw_sweep(
    table: SummaryTable, block: Block, column: Column, option: str, lines: SweptLines
) -> look.Plot:
    metric = table.metric(column)
    place = block.place
    shown = list(lines.items())[:MOST_LINES]
    legend = tuple(
        look.LegendEntry(
            at,
            label.name,
            look.choose_variant_look(at),
            look.count_seeds(cell.summary for cell in cells.values()),
        )
        for at, (label, cells) in enumerate(shown)
    )
    rows = [
        row
        for at, (_, cells) in enumerate(shown)
        for row in _list_sweep_points(at, cells, metric.digits)
    ]
    key = f"sweep-{table.profile}-{table.suite}{table.about}-{option}-{place}"
    base = find_main_baseline(block, column)
    mean = base.cells[column].summary.mean if base else None
    text = "Means over seeds with 95 % intervals (t)."
    text += f" Dashed: {base.label.name}." if base else ""
    if len(lines) > len(shown):
        text += f" The {MOST_LINES} of {len(lines)} variants with most values."
    name = option_title(option)
    title = f"{name}: {name_suite(table.suite)} average, {place}"
    return look.Plot(
        key, title, _make_sweep_spec(rows, legend, name, metric.title, mean), text, legend
    )


def list_swept_values(label: Label) -> Iterator[tuple[str, float, Label]]:
    """Each numeric option or override of a variant: its name, its value, and the label without it."""
    variant = label.parsed
    if variant is None:
        return
    for key, text in variant.options:
        if (value := look.read_number(text)) is not None:
            rest = {other: text for other, text in variant.options if other != key}
            yield (
                key,
                value,
                label._replace(variant=str(Variant.make(variant.name, rest, variant.reading))),
            )
    pairs = [part.partition("=") for part in label.overrides.split(",") if part]
    for key, _, text in pairs:
        if (value := look.read_number(text)) is not None:
            rest_of = (f"{other}={text}" for other, _, text in pairs if other != key)
            yield key, value, label._replace(overrides=",".join(rest_of))


def _find_sweeps(
    block: Block, column: Column, defaults: UnnamedOptions
) -> Iterator[tuple[str, SweptLines]]:
    """The options that were swept in a block, each with the variants that differ in nothing else."""
    swept_cells: dict[str, dict[Label, dict[float, Cell]]] = {}
    for row in block.trained:
        if column in row.cells:
            for option, value, label in list_swept_values(row.label):
                swept_cells.setdefault(option, {}).setdefault(label, {})[value] = row.cells[column]
    for option, by_label in swept_cells.items():
        for label, cells in by_label.items():
            plain = block.by_label.get(label)
            default = look.read_number(str(defaults.get(label, {}).get(option, "")))
            if plain and default is not None and column in plain.cells:
                cells.setdefault(default, plain.cells[column])
        longest = sorted(by_label.items(), key=lambda line: -len(line[1]))
        lines = {
            label: dict(sorted(cells.items())) for label, cells in longest if len(cells) >= FEWEST
        }
        if lines:
            yield option, lines


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
            "score": f"{format_summary(cell.summary, digits)}, n = {cell.summary.n}",
        }


def choose_scale(values: Sequence[float]) -> look.ChartSpec:
    """A logarithmic axis, also with room for 0, if the positive values span a factor of DECADES;
    else a linear one.
    """
    above = [value for value in values if value > 0]
    if not above or max(above) / min(above) < DECADES or min(values) < 0:
        return {"type": "linear", "zero": False, "nice": False, "padding": 16}
    kind: look.ChartSpec = (
        {"type": "log"} if min(values) > 0 else {"type": "symlog", "constant": min(above)}
    )
    return kind | {"nice": False, "padding": 16}


def _make_sweep_spec(
    rows: Sequence[Mapping[str, object]],
    legend: Sequence[look.LegendEntry],
    name: str,
    score: str,
    mean: float | None,
) -> look.ChartSpec:
    by = look.encode_variants(legend)
    params, transform = look.make_hiding(legend)
    values = sorted({float(str(row["x"])) for row in rows})
    x = look.encode_quantity("x", name, scale=choose_scale(values), axis={"grid": False})
    x["axis"] |= {"values": values} if len(values) <= 8 else {}
    y = look.encode_quantity("y", score, scale={"zero": False})
    baseline = look.draw_line({"y": {"datum": mean, "type": "quantitative"}}, strokeDash=[4, 4])
    lines = look.make_tooltip(
        ("variant", "variant"), ("x", name, "~g"), ("score", "mean ± deviation")
    )
    return {
        "params": params,
        "height": 240,
        "description": f"{score} against {name}",
        "layer": [
            *([baseline] if mean is not None else []),
            {
                **look.make_data(rows, look.DIGITS),
                **transform,
                "encoding": {"x": x, "color": by["color"]},
                "layer": look.draw_bars_and_line(y, by, 2, 70, tooltip=lines),
            },
        ],
    }
