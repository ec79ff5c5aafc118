"""Gains of one variant over another by subset (MCSE Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.metrics import AVERAGE, is_by_training
from harness.reporting.charts.plot import ChartSpec
from harness.reporting.figures.kinds import BySeed, Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import INK, axis, by_series, entry, grid, n_of, rows, spread
from harness.stats import Summary, summarise


class Bar(NamedTuple):
    """Where a gain is measured: a task, and its subset if it has subsets."""

    task: str
    subset: str


def draw(data: FigureData) -> Drawing | str:
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
        _panel(f"names{at}", setting, bars, f"gain, {metric.title} ({n_of(bars.values())})")
        for at, (setting, bars) in enumerate(gains)
        if bars
    ]
    text = (
        f"{better} minus {worse} in {metric.name} on each subset, mean ± deviation of the differences by seed, "
        "over the seeds of both."
    )
    return Drawing(grid(panels, share=True), text, [run for pair in pairs for run in pair])


def _gains(data: FigureData, worse: FigureRun, better: FigureRun) -> dict[Bar, Summary]:
    """Differences by task and subset; by task if no task has subsets."""
    before, after = _scores(data, worse), _scores(data, better)
    gains = {
        bar: [found[seed] - before[bar][seed] for seed in sorted(before[bar].keys() & found.keys())]
        for bar, found in after.items()
        if bar in before
    }
    summaries = {bar: summarise(values) for bar, values in gains.items() if values}
    return {bar: gain for bar, gain in summaries.items() if bar.subset} or summaries


def _scores(data: FigureData, run: FigureRun) -> dict[Bar, BySeed]:
    """The scores of subsets and of whole tasks by seed."""
    subsets = {(score, part): found for (score, part), found in run.parts.items() if not is_by_training(part)}
    scores = {**subsets, **{(score, ""): found for score, found in run.scores.items() if score.task != AVERAGE}}
    return {
        Bar(score.task, part): found
        for (score, part), found in scores.items()
        if (score.suite, score.metric) == (data.spec.suite, data.spec.metric)
    }


def _panel(param: str, setting: str, bars: Mapping[Bar, Summary], unit: str) -> ChartSpec:
    entries = [entry(index, task) for index, task in enumerate(dict.fromkeys(bar.task for bar in bars))]
    values = [spread(bar.task, place, gain) for place, (bar, gain) in enumerate(bars.items())]
    labels = {"title": None, "labelExpr": f"{param}[datum.value]", "labelAngle": -50, "labelLimit": 0, "grid": False}
    x = {"field": "x", "type": "ordinal", "axis": labels}
    ends = {"y": axis("lo", unit), "y2": {"field": "hi"}}
    names = [bar.subset or bar.task for bar in bars]
    return {
        "title": setting,
        "width": max(380, 22 * len(bars)),
        "params": [{"name": param, "value": names}],
        **rows(values),
        "encoding": {"x": x},
        "layer": [
            {
                "mark": {"type": "bar"},
                "encoding": {"y": axis("y", unit), "color": by_series(entries, 5)["color"]},
            },
            {"mark": {"type": "rule", "color": INK}, "encoding": ends},
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "color": INK},
                "encoding": {"x": None, "y": {"datum": 0}},
            },
        ],
    }


KIND = FigureKind(draw)
