"""Heat maps: the scores of tasks by variants, coloured by the difference to the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness.formatting import fixed, signed
from harness.metrics import AVERAGE, Column
from harness.reporting.charts.plot import INK, ChartSpec, Plot, named_axis, rows_of, tooltip
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.forest import main_baseline
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.seeds.words import judged
from harness.reporting.tables.grids import marks, summary_text

#: rows of one map; further ones are in the table
MOST_ROWS = 40
#: classes of colour, the middle one for no difference
CLASSES = 9
#: pixels of a cell with its score
CELL = 46


def heat_plots(table: SummaryTable) -> list[Plot]:
    """A map for each setting and encoder, that with most rows first, and for each judged metric with several tasks."""
    found = []
    for metric in table.metrics:
        columns = [column for column in table.columns if column.metric == metric]
        if table.metrics[metric].judged and sum(column.task != AVERAGE for column in columns) > 1:
            several = (block for block in table.blocks if len(block.trained) > 1)
            blocks = sorted(several, key=lambda block: -len(block.trained))
            found += [_plot(table, block, columns) for block in blocks]
    return found


def _plot(table: SummaryTable, block: Block, columns: Sequence[Column]) -> Plot:
    metric, place = table.metric(columns[0]), block.place
    rows = _best_first(block, columns, metric.larger_is_better)
    values = [value for index, row in enumerate(rows) for value in _values(table, block, columns, index, row)]
    most = max((abs(value["d"]) for value in values), default=0.0) or 1.0
    row, height, params = named_axis([f"{row.label.name}{row.weakness(columns).marks}" for row in rows])
    column: ChartSpec = {
        "field": "task",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"orient": "top", "labelAngle": -40, "domain": False, "ticks": False, "grid": False},
    }
    colour = {
        "field": "d",
        "type": "quantitative",
        "legend": None,
        "scale": {"type": "quantize", "domain": [-most, most], "range": [f"var(--d{n})" for n in range(CLASSES)]},
    }
    lines = (
        ("name", "variant"),
        ("code", "code"),
        ("task", "task"),
        ("score", "mean ± deviation"),
        ("about", "test"),
        ("weak", "weakened by"),
    )
    spec: ChartSpec = {
        **rows_of(values),
        "params": params,
        "height": height,
        "usermeta": {"narrowest": 190 + CELL * len(columns)},
        "description": f"{metric.name} by task and variant, {place}",
        "encoding": {"x": column, "y": row},
        "layer": [
            {"mark": {"type": "rect"}, "encoding": {"color": colour, "tooltip": tooltip(*lines)}},
            {
                "mark": {"type": "text", "fontSize": 12, "color": INK, "tooltip": None},
                "encoding": {"text": {"field": "text", "type": "nominal"}},
            },
        ],
    }
    key = f"heat-{table.profile}-{table.suite}{table.about}-{metric.name}-{place}"
    lower = "" if metric.larger_is_better else ", lower is better"
    base = main_baseline(block, columns[0])
    against = base.label.name if base else "the mean of the column"
    text = (
        f"Means over seeds. Blue: better than {against}, orange: worse; the deepest colour is a difference of "
        f"{fixed(most, metric.digits)}."
    )
    text = " ".join((text, *weakness_notes(row.weakness(columns) for row in rows)))
    return Plot(key, f"{place}: {metric.name} by task{lower}", spec, text)


def _best_first(block: Block, columns: Sequence[Column], larger_is_better: bool) -> list[Row]:
    """The rows with scores, by the average or else the first task."""
    by = next((column for column in columns if column.task == AVERAGE), columns[0])
    rows = [row for row in block.rows if by in row.cells]
    return sorted(rows, key=lambda row: row.cells[by].summary.mean, reverse=larger_is_better)[:MOST_ROWS]


def _values(
    table: SummaryTable, block: Block, columns: Sequence[Column], index: int, row: Row
) -> Iterator[dict[str, Any]]:
    for column in columns:
        cell = row.cells.get(column)
        if cell is None:
            continue
        metric, base = table.metric(column), main_baseline(block, column)
        middle = [one.cells[column].summary.mean for one in ([base] if base else block.rows) if column in one.cells]
        gain = cell.summary.mean - sum(middle) / len(middle)
        about = f"{signed(gain, metric.digits)}, {judged(cell) or 'not tested'}"
        yield {
            "i": index,
            "task": column.task,
            "text": fixed(cell.summary.mean, min(1, metric.digits) if metric.digits < 3 else metric.digits)
            + marks(cell),
            "d": gain if metric.larger_is_better else -gain,
            "name": str(row.label.name),
            "code": row.label.name.code,
            "score": f"{summary_text(cell.summary, metric.digits)}, n = {cell.summary.n}",
            "about": "; ".join(filter(None, (about, str(row.weakness([column]))))),
        }
