"""Dev and loss curves of one run, and of the runs in the tables with means over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.reporting.seeds.groups import Label
from harness.reporting.seeds.summary import BASELINE, SummaryTable
from harness.store import Result

#: steps and values
Points = tuple[tuple[float, float], ...]
#: results of all seeds by label
Runs = Mapping[Label, Sequence[Result]]
#: Profiles with more runs than this show means only; single seeds are on the pages of the runs.
MOST_SEEDS = 400
STEPS = "optimizer steps"


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


def run_charts(result: Result) -> tuple[Chart | None, tuple[Chart, ...]]:
    """The dev curve of one run, None if it has none, and a chart for each of its loss terms."""
    dev, losses = result.dev, result.losses
    curve = _points(dev.steps, dev.scores)
    chart = _single("Dev score", f"{dev.metric} on {dev.task}", curve) if curve else None
    terms = ((term, _points(losses.steps, values)) for term, values in losses.terms.items())
    return chart, tuple(_single(f"Loss term {term}", f"{term}, unweighted", points) for term, points in terms if points)


def _single(title: str, y_label: str, points: Points) -> Chart:
    return Chart(title, STEPS, y_label, (Series(title, 0, points, (points,)),))


def dev_charts(runs: Runs) -> Iterator[Chart]:
    """Dev score against optimizer steps, one chart for each profile, setting, encoder and dev task."""
    for where, mine in _places(runs).items():
        curves: dict[str, dict[Label, list[Points]]] = {}
        for label, results in mine.items():
            for dev in (result.dev for result in results):
                if dev.scores:
                    seeds = curves.setdefault(f"{dev.metric} on {dev.task}", {}).setdefault(label, [])
                    seeds.append(_points(dev.steps, dev.scores))
        for y_label, lines in curves.items():
            yield Chart(where, STEPS, y_label, tuple(_series(lines, runs)))


def loss_charts(runs: Runs) -> Iterator[Chart]:
    """Each unweighted loss term against optimizer steps, one chart for each profile, setting, encoder and term."""
    for where, mine in _places(runs).items():
        curves: dict[str, dict[Label, list[Points]]] = {}
        for label, results in mine.items():
            for losses in (result.losses for result in results):
                for term, values in losses.terms.items():
                    points = _points(losses.steps, values)
                    if points:
                        curves.setdefault(term, {}).setdefault(label, []).append(points)
        for term, lines in curves.items():
            yield Chart(f"{term}: {where}", STEPS, f"loss term {term}, unweighted", tuple(_series(lines, runs)))


def has_curves(runs: Runs) -> bool:
    """Whether there is any curve to draw."""
    return any(one.dev.scores or one.losses.terms for results in runs.values() for one in results)


def _places(runs: Runs) -> dict[str, dict[Label, Sequence[Result]]]:
    """The runs by setting, encoder and profile."""
    found: dict[str, dict[Label, Sequence[Result]]] = {}
    for label, results in runs.items():
        found.setdefault(f"{label.setting} / {label.encoder}, profile {label.profile}", {})[label] = results
    return found


def _colours(runs: Runs) -> dict[str, int]:
    """The index of every variant that was trained; the baseline has -1."""
    names = dict.fromkeys(str(label) for label, results in runs.items() if any(one.losses.steps for one in results))
    return {BASELINE: -1, **{name: index for index, name in enumerate(name for name in names if name != BASELINE)}}


def _points(steps: Sequence[float], values: Sequence[float | None]) -> Points:
    return tuple((float(step), float(value)) for step, value in zip(steps, values, strict=True) if value is not None)


def _series(lines: Mapping[Label, Sequence[Points]], runs: Runs) -> Iterator[Series]:
    colours, few = _colours(runs), sum(map(len, runs.values())) <= MOST_SEEDS
    for label, seeds in lines.items():
        yield Series(str(label), colours[str(label)], _mean(seeds), tuple(seeds), few)


def _mean(seeds: Sequence[Points]) -> Points:
    """The mean at the steps that all seeds have."""
    tables = [dict(points) for points in seeds]
    common = [step for step, _ in seeds[0] if all(step in table for table in tables)]
    return tuple((step, sum(table[step] for table in tables) / len(tables)) for step in common)
