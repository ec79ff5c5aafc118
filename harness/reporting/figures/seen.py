"""Gains over plain SimCSE on test pairs that training has seen, beside those on the others."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.method.naming import name_of
from harness.metrics import SEEN, UNSEEN
from harness.reporting.figures.look import COLOURS, INK, MARKERS, drawn, legend_below, n_of, panels
from harness.reporting.figures.papers import ReportFigure
from harness.reporting.seeds.groups import Cell
from harness.reporting.seeds.seen import SeenTable
from harness.reporting.seeds.summary import BASELINE
from harness.stats import ALPHA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: variant -> part -> gains over seeds
Gains = Mapping[str, Mapping[str, Cell]]
#: Longest line of a variant's name on the axis, in characters.
LONGEST = 28


def seen_figures(tables: Sequence[SeenTable]) -> list[ReportFigure]:
    """A figure for each table in which a method is compared on both kinds of pairs."""
    return [_figure(table, gains) for table in tables if (gains := _gains(table))]


def _figure(table: SeenTable, gains: Gains) -> ReportFigure:
    title = f"Gain over {name_of(BASELINE)} on seen and unseen pairs, {table.setting} / {table.encoder}"
    text = (
        f"Mean over {', '.join(table.averaged)}. Bars are {1 - ALPHA:.0%} intervals (t) of the gain by seed; "
        "one seed has none."
    )
    svg, pdf = drawn(
        f"gains-{table.key}", title, (6.0, 1.7 + 0.45 * len(gains)), partial(_draw, gains, table.metric.title)
    )
    return ReportFigure(f"gains-{table.key}", "", table.profile, title, text, svg, pdf, beside=table.key)


def _gains(table: SeenTable) -> Gains:
    """The gains of each compared row on each kind of pairs, over the tasks that all rows have."""
    rows = [row for row in table.rows if row.is_compared] if table.mean else []
    found = {row.label.name.text: {part: row.cells[table.mean, part].gains for part in (SEEN, UNSEEN)} for row in rows}
    return {name: {part: cell for part, cell in parts.items() if cell} for name, parts in found.items()}


def _draw(gains: Gains, unit: str, figure: Figure) -> None:
    (axes,) = panels(figure, 1)
    for index, (part, place) in enumerate({SEEN: -0.13, UNSEEN: 0.13}.items()):
        _points(axes, index, f"{part.strip('[]')} pairs", [parts[part] for parts in gains.values()], place)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(gains)), [_wrapped(name) for name in gains])
    axes.set_ylim(len(gains) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    seeds = n_of(cell.summary for parts in gains.values() for cell in parts.values())
    axes.set_xlabel(f"gain over {name_of(BASELINE)}, {unit} ({seeds})")
    legend_below(figure, 2)


def _points(axes: Axes, index: int, name: str, cells: Sequence[Cell], place: float) -> None:
    """The mean gains on one kind of pairs, with their intervals, beside the rows' places."""
    look: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index], "linestyle": "none", "markersize": 6}
    means = [cell.summary.mean for cell in cells]
    margins = [(cell.test.high - cell.test.low) / 2 if cell.test else 0.0 for cell in cells]
    rows = [row + place for row in range(len(cells))]
    drawn_points = axes.errorbar(means, rows, xerr=margins if any(margins) else None, capsize=2, label=name, **look)
    drawn_points.lines[0].set_gid(f"gains-{index}")


def _wrapped(name: str) -> str:
    """Break a long name at spaces."""
    return textwrap.fill(name, LONGEST)
