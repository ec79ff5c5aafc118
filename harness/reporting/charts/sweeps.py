"""Scores against the values of one hyperparameter, for variants that differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.method.naming import option_title
from harness.metrics import AVERAGE, Column
from harness.reporting.charts.plot import (
    ChartSpec,
    LegendEntry,
    Plot,
    bars_and_line,
    hiding,
    line_at,
    look,
    number,
    rows_of,
    tooltip,
    variant_scales,
)
from harness.reporting.seeds.forest import main_baseline
from harness.reporting.seeds.groups import Cell, Label
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.tables.grids import summary_text
from harness.spec import SpecError, Variant
from harness.stats import mean_interval

#: values of a hyperparameter that make a curve
FEWEST = 3
#: charts of one table, and lines in a chart; sweeps with most values come first
MOST_SWEEPS, MOST_LINES = 12, 20
#: largest value over smallest from which the axis is logarithmic
DECADES = 20.0
#: label -> option -> value, of what a name leaves at its default
UnnamedOptions = Mapping[Label, Mapping[str, object]]


@dataclass(frozen=True)
class Sweep:
    """All variants in which one option was swept, in one setting and encoder.

    `lines` have a variant's scores by the value of the option, which its label leaves out.
    """

    table: SummaryTable
    block: Block
    column: Column
    option: str
    lines: Mapping[Label, Mapping[float, Cell]]


def sweeps(table: SummaryTable, defaults: UnnamedOptions) -> list[Sweep]:
    """The sweeps of a table in its first average."""
    column = next((one for one in table.columns if one.task == AVERAGE), None)
    found = [] if column is None else [one for block in table.blocks for one in _of(table, block, column, defaults)]
    return sorted(found, key=lambda sweep: -max(map(len, sweep.lines.values())))[:MOST_SWEEPS]


def sweep_plot(sweep: Sweep) -> Plot:
    """Draw a sweep."""
    metric, place = sweep.table.metric(sweep.column), sweep.block.place
    shown = list(sweep.lines.items())[:MOST_LINES]
    legend = tuple(
        LegendEntry(at, label.name, look(at), max(cell.summary.n for cell in cells.values()))
        for at, (label, cells) in enumerate(shown)
    )
    rows = [row for at, (_, cells) in enumerate(shown) for row in _rows(at, cells, metric.digits)]
    key = f"sweep-{sweep.table.profile}-{sweep.table.suite}{sweep.table.about}-{sweep.option}-{place}"
    base = main_baseline(sweep.block, sweep.column)
    mean = base.cells[sweep.column].summary.mean if base else None
    text = "Means over seeds with 95 % intervals (t)."
    text += f" Dashed: {base.label.name}." if base else ""
    name = option_title(sweep.option)
    title = f"{name}: {sweep.table.suite} average, {place}"
    return Plot(key, title, _spec(rows, legend, name, metric.title, mean), text, legend)


def swept(variant: str, overrides: str) -> Iterator[tuple[str, float, tuple[str, str]]]:
    """The numbers that a variant and its overrides set: option, value, and the name without it."""
    try:
        parsed = Variant.parse(variant)
    except SpecError:
        return
    options = dict(parsed.options)
    for key, text in options.items():
        if (value := number(text)) is not None:
            rest = {other: one for other, one in options.items() if other != key}
            yield key, value, (str(Variant.make(parsed.name, rest, parsed.reading)), overrides)
    pairs = [part.partition("=") for part in overrides.split(",") if part]
    for key, _, text in pairs:
        if (value := number(text)) is not None:
            yield key, value, (variant, ",".join(f"{other}={one}" for other, _, one in pairs if other != key))


def _of(table: SummaryTable, block: Block, column: Column, defaults: UnnamedOptions) -> Iterator[Sweep]:
    found: dict[str, dict[Label, dict[float, Cell]]] = {}
    for row in block.trained:
        if column in row.cells:
            for option, value, (variant, overrides) in swept(row.label.variant, row.label.overrides):
                label = row.label._replace(variant=variant, overrides=overrides)
                found.setdefault(option, {}).setdefault(label, {})[value] = row.cells[column]
    for option, by_label in found.items():
        for label, cells in by_label.items():
            plain = block.by_label.get(label)
            default = number(str(defaults.get(label, {}).get(option, "")))
            if plain and default is not None and column in plain.cells:
                cells.setdefault(default, plain.cells[column])
        longest = sorted(by_label.items(), key=lambda line: -len(line[1]))
        lines = {label: dict(sorted(cells.items())) for label, cells in longest if len(cells) >= FEWEST}
        if lines:
            yield Sweep(table, block, column, option, lines)


def _rows(at: int, cells: Mapping[float, Cell], digits: int) -> Iterator[dict[str, object]]:
    for value, cell in cells.items():
        interval, mean = mean_interval(cell.summary), cell.summary.mean
        yield {
            "v": at,
            "x": value,
            "y": mean,
            "lo": interval.low if interval else mean,
            "hi": interval.high if interval else mean,
            "score": f"{summary_text(cell.summary, digits)}, n = {cell.summary.n}",
        }


def scale_of(values: Sequence[float]) -> ChartSpec:
    """A logarithmic axis where the values span decades, with a place for 0."""
    above = [value for value in values if value > 0]
    if not above or max(above) / min(above) < DECADES or min(values) < 0:
        return {"type": "linear", "zero": False, "nice": False, "padding": 16}
    kind: ChartSpec = {"type": "log"} if min(values) > 0 else {"type": "symlog", "constant": min(above)}
    return kind | {"nice": False, "padding": 16}


def _spec(
    rows: Sequence[Mapping[str, object]], legend: Sequence[LegendEntry], name: str, score: str, mean: float | None
) -> ChartSpec:
    colour, dash, shape = variant_scales(legend)
    params, transform = hiding(legend)
    values = sorted({float(str(row["x"])) for row in rows})
    x = {"field": "x", "type": "quantitative", "title": name, "scale": scale_of(values), "axis": {"grid": False}}
    x["axis"] |= {"values": values} if len(values) <= 8 else {}  # type: ignore[operator]
    y: ChartSpec = {"field": "y", "type": "quantitative", "title": score, "scale": {"zero": False}}
    baseline = line_at({"y": {"datum": mean, "type": "quantitative"}}, strokeDash=[4, 4])
    lines = tooltip(("variant", "variant"), ("x", name, "~g"), ("score", "mean ± deviation"))
    return {
        "params": params,
        "height": 240,
        "description": f"{score} against {name}",
        "layer": [
            *([baseline] if mean is not None else []),
            {
                **rows_of(rows),
                **transform,
                "encoding": {"x": x, "color": colour},
                "layer": bars_and_line(y, dash, shape, 2, 70, tooltip=lines),
            },
        ],
    }
