"""Scores of methods against their minutes of training."""

from __future__ import annotations

from collections.abc import Sequence

from harness.reporting.charts.plot import INK, ChartSpec, Plot, rows_of, tooltip
from harness.reporting.seeds.forest import Forest, Gain
from harness.reporting.tables.grids import summary_text


def cost_plot(forest: Forest, key: str, rows: Sequence[tuple[Gain, float]]) -> Plot:
    """A named point for each row with its minutes."""
    metric = forest.table.metric(forest.column)
    values = [
        {
            "name": gain.name.text,
            "x": minutes,
            "y": gain.cell.summary.mean,
            "score": str(summary_text(gain.cell.summary, metric.digits)),
        }
        for gain, minutes in rows
    ]
    x = {
        "field": "x",
        "type": "quantitative",
        "title": "minutes of training, mean over seeds",
        "axis": {"tickCount": 5},
    }
    y = {"field": "y", "type": "quantitative", "title": metric.title, "scale": {"zero": False}}
    lines = tooltip(("name", "method"), ("score", "mean ± deviation"), ("x", "minutes", ".3~g"))
    spec: ChartSpec = {
        **rows_of(values),
        "height": 220,
        "description": f"{metric.title} against minutes of training, {forest.place}",
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "point", "filled": True, "size": 70, "color": INK}, "encoding": {"tooltip": lines}},
            {
                "mark": {"type": "text", "align": "center", "dy": -10, "color": INK, "fontSize": 12},
                "encoding": {"text": {"field": "name", "type": "nominal"}},
            },
        ],
    }
    return Plot(f"cost-{key}", "Score against minutes", spec, unscripted="The table has the same numbers.")
