"""Dev and loss curves of one run, and of the runs in the tables with means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.reporting.seeds.groups import Label
from harness.reporting.seeds.summary import BASELINE, SummaryTable
from harness.store import Result

#: steps and values
Points = tuple[tuple[float, float], ...]
#: results of all seeds by label
SeedRuns = Mapping[Label, Sequence[Result]]
#: Profiles with more runs than this show means only; single seeds are on the pages of the runs.
MOST_SEEDS = 400
STEPS = "optimizer steps"


class RunCurve(NamedTuple):
    """One curve of one run: a loss term, or the dev score if `term` is empty."""

    term: str
    y_label: str
    points: Points


@dataclass(frozen=True)
class Series:
    """The curve of a variant. `index` selects its colour, equal on the whole page; -1 is the baseline.

    The curves of single `seeds` are drawn if `show_seeds` is set, and counted otherwise.
    """

    name: str
    index: int
    mean: Points
    seeds: tuple[Points, ...]
    show_seeds: bool = True


@dataclass(frozen=True)
class Chart:
    """One panel."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


def shown_runs(results: Sequence[Result], tables: Sequence[SummaryTable]) -> dict[Label, list[Result]]:
    """The results behind the rows of tables by label, in order of seeds. Groups that the tables omit are omitted."""
    labels = {(row.label.profile, row.group): row.label for table in reversed(tables) for row in table.rows}
    found: dict[Label, list[Result]] = {label: [] for label in sorted(labels.values())}
    for result in sorted(results, key=lambda result: result.spec.seed):
        label = labels.get((result.profile, result.group))
        if label is not None:
            found[label].append(result)
    return {label: runs for label, runs in found.items() if runs}


def run_charts(result: Result) -> tuple[list[Chart], list[Chart]]:
    """The charts of one run: of its dev score, if it has any, and of each loss term."""

    def single(curve: RunCurve) -> Chart:
        title = f"Loss term {curve.term}" if curve.term else "Dev score"
        return Chart(title, STEPS, curve.y_label, (Series(title, 0, curve.points, (curve.points,)),))

    return [single(curve) for curve in _dev_curves(result)], [single(curve) for curve in _loss_curves(result)]


def dev_charts(runs: SeedRuns) -> list[Chart]:
    """Dev score against optimizer steps, one chart for each profile, setting, encoder and dev task."""
    return list(_charts(runs, _dev_curves))


def loss_charts(runs: SeedRuns) -> list[Chart]:
    """Each unweighted loss term against optimizer steps, one chart for each profile, setting, encoder and term."""
    return list(_charts(runs, _loss_curves))


def _dev_curves(result: Result) -> Iterator[RunCurve]:
    dev = result.dev
    if dev.scores:
        yield RunCurve("", f"{dev.metric} on {dev.task}", _points(dev.steps, dev.scores))


def _loss_curves(result: Result) -> Iterator[RunCurve]:
    for term, values in result.losses.terms.items():
        points = _points(result.losses.steps, values)
        if points:
            yield RunCurve(term, f"loss term {term}, unweighted", points)


def _charts(runs: SeedRuns, curves_of: Callable[[Result], Iterator[RunCurve]]) -> Iterator[Chart]:
    """A chart for each setting, encoder and profile, and for each term and y label of the curves."""
    colours, few = _colours(runs), sum(map(len, runs.values())) <= MOST_SEEDS
    places: dict[str, dict[tuple[str, str], dict[str, list[Points]]]] = {}
    for label, results in runs.items():
        mine = places.setdefault(f"{label.setting} / {label.encoder}, profile {label.profile}", {})
        for curve in (curve for result in results for curve in curves_of(result)):
            mine.setdefault((curve.term, curve.y_label), {}).setdefault(str(label), []).append(curve.points)
    for where, charts in places.items():
        for (term, y_label), lines in charts.items():
            series = (Series(name, colours[name], _mean(seeds), tuple(seeds), few) for name, seeds in lines.items())
            yield Chart(f"{term}: {where}" if term else where, STEPS, y_label, tuple(series))


def _colours(runs: SeedRuns) -> dict[str, int]:
    """The index of every variant that was trained; the baseline has -1."""
    names = dict.fromkeys(str(label) for label, results in runs.items() if any(one.losses.steps for one in results))
    return {BASELINE: -1, **{name: index for index, name in enumerate(name for name in names if name != BASELINE)}}


def _points(steps: Sequence[float], values: Sequence[float | None]) -> Points:
    return tuple((float(step), float(value)) for step, value in zip(steps, values, strict=True) if value is not None)


def _mean(seeds: Sequence[Points]) -> Points:
    """The mean at the steps that all seeds have."""
    tables = [dict(points) for points in seeds]
    common = [step for step, _ in seeds[0] if all(step in table for table in tables)]
    return tuple((step, sum(table[step] for table in tables) / len(tables)) for step in common)
