"""Expected best dev score against the number of trials, one line a method (Dodge et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from harness.reporting.figures.look import drawn, legend_below, n_of, panels, size_of, style
from harness.reporting.figures.papers import ReportFigure
from harness.reporting.seeds.tuned import TunedLine, TunedPlace, TunedReport
from harness.reporting.tables.tuned import expected_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: panels beside each other
COLUMNS = 3


def tuned_figures(reports: Sequence[TunedReport]) -> list[ReportFigure]:
    """A figure for each tuning in which some seed has all trials."""
    return [_figure(report, places) for report in reports if (places := _shown(report))]


def _shown(report: TunedReport) -> list[TunedPlace]:
    return [place for place in report.places if any(line.expected for line in place.lines)]


def _figure(report: TunedReport, places: Sequence[TunedPlace]) -> ReportFigure:
    key, title = f"budget-{report.tuning.key}", f"Expected best dev score against trials, {report.title}"
    text = (
        "Expected best of n trials, drawn from all trials of a seed: mean over seeds, and bars of one standard "
        "deviation. Methods are compared fairly at equal numbers of trials only."
    )
    size = size_of(len(places), COLUMNS, 0.25 * len(report.tuning.methods))
    svg, pdf = drawn(key, title, size, partial(_draw, places))
    tuning = report.tuning
    return ReportFigure(key, "", tuning.profile, title, text, svg, pdf, beside=expected_grid(report).key)


def _draw(places: Sequence[TunedPlace], figure: Figure) -> None:
    for axes, place in zip(panels(figure, len(places), COLUMNS), places, strict=True):
        for index, line in enumerate(place.lines):
            if line.expected:
                _line(axes, index, line)
        trials = max(len(line.expected) for line in place.lines)
        axes.set_xticks(range(1, trials + 1, max(1, trials // 10)))
        axes.set(title=f"{place.setting} / {place.encoder}", xlabel="trials", ylabel=f"best dev score, {place.dev}")
    legend_below(figure, 2)


def _line(axes: Axes, index: int, line: TunedLine) -> None:
    means, spread = [one.mean for one in line.expected], [one.std or 0.0 for one in line.expected]
    name = f"{line.method.base} ({n_of(line.expected)})"
    xs = range(1, len(means) + 1)
    shown = axes.errorbar(xs, means, yerr=spread if any(spread) else None, capsize=2, label=name, **style(index))
    shown.lines[0].set_gid(f"budget-{index}")
