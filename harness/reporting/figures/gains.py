"""Gains of one variant over another by subset (MCSE Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.metrics import AVERAGE, is_by_training
from harness.reporting.figures.kinds import BySeed, Drawing, FigureData, FigureKind, FigureRun
from harness.reporting.figures.look import COLOURS, HATCHES, INK, legend_below, n_of, panels
from harness.stats import Summary, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

    def on(figure: Figure) -> None:
        for axes, (setting, bars) in zip(panels(figure, len(gains), share=True), gains, strict=True):
            _bars(axes, bars)
            axes.set_title(setting)
            axes.set_ylabel(f"gain, {metric.title} ({n_of(bars.values())})")
        legend_below(figure, 5)

    metric = data.metric(data.spec.suite, data.spec.metric)
    width = max(5.4, 0.28 * max(len(bars) for _, bars in gains) + 1.6)
    text = (
        f"{better} minus {worse} in {metric.name} on each subset, mean ± deviation of the differences by seed, "
        "over the seeds of both."
    )
    return Drawing(on, (width, 3.4 * len(gains) + 0.5), text, [run for pair in pairs for run in pair])


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


def _bars(axes: Axes, bars: Mapping[Bar, Summary]) -> None:
    tasks = list(dict.fromkeys(bar.task for bar in bars))
    for place, (bar, gain) in enumerate(bars.items()):
        index = tasks.index(bar.task)
        colour, hatch = COLOURS[index % len(COLOURS)], HATCHES[index % len(HATCHES)]
        looks: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "ecolor": INK, "capsize": 2}
        axes.bar(place, gain.mean, yerr=gain.std or None, label=bar.task, gid=f"bar-{place}", **looks)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(len(bars)), [bar.subset or bar.task for bar in bars], rotation=50, ha="right", fontsize=7)
    for text in axes.get_xticklabels():
        text.set_rotation_mode("anchor")
    axes.grid(axis="x", visible=False)


KIND = FigureKind(draw)
