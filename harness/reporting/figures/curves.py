"""Dev and loss curves: of one run, and of the runs that the tables show, mean over seeds with each seed beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.reporting.seeds.summary import BASELINE, Label, SummaryTable

Points = tuple[tuple[float, float], ...]
#: Of a profile with more runs than these the means alone are drawn; the seeds are left to the pages of the runs.
MOST_SEEDS = 400
_UNITS = {"spearman": "Spearman × 100", "pearson": "Pearson × 100"}


@dataclass(frozen=True)
class Series:
    """A variant's curve. `index` picks its colour, the same on the whole page; -1 is the baseline.

    Where `shown` is false, the seeds are counted but not drawn.
    """

    name: str
    index: int
    mean: Points
    seeds: tuple[Points, ...]
    shown: bool = True


@dataclass(frozen=True)
class Chart:
    """One panel."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


def shown_runs(results: Sequence[Any], tables: Sequence[SummaryTable]) -> dict[Label, list[Any]]:
    """The results behind the rows of the tables, by label, seeds in order. Groups left out there are left out here."""
    labels = {(row.label.profile, row.group): row.label for table in reversed(tables) for row in table.rows}
    found: dict[Label, list[Any]] = {label: [] for label in sorted(labels.values())}
    for result in sorted(results, key=lambda result: result.spec.seed):
        label = labels.get((result.profile, result.group))
        if label is not None:
            found[label].append(result)
    return {label: runs for label, runs in found.items() if runs}


def run_charts(result: Any) -> tuple[Chart | None, tuple[Chart, ...]]:
    """One run's dev curve, None where there is none, and a panel for each of its loss terms."""
    dev, losses = result.dev, result.losses
    unit = _UNITS.get(dev.metric, dev.metric)
    curve = _points(dev.steps, dev.scores)
    chart = _alone("Dev score", f"{unit} on {dev.task}", curve) if curve else None
    terms = ((term, _points(losses.steps, values)) for term, values in losses.terms.items())
    return chart, tuple(_alone(f"Loss term {term}", f"{term}, unweighted", points) for term, points in terms if points)


def _alone(title: str, y_label: str, points: Points) -> Chart:
    return Chart(title, "optimizer steps", y_label, (Series(title, 0, points, (points,)),))


def dev_charts(runs: Mapping[Label, Sequence[Any]]) -> Iterator[Chart]:
    """Dev score against optimizer steps, one panel for each profile, setting, encoder and dev task."""
    colours, seeds = _colours(runs), _draws_seeds(runs)
    for where, labels in _places(runs).items():
        curves: dict[tuple[str, str], dict[Label, list[Points]]] = {}
        for label in labels:
            for result in runs[label]:
                points = _points(result.dev.steps, result.dev.scores)
                if points:
                    unit = _UNITS.get(result.dev.metric, result.dev.metric)
                    curves.setdefault((result.dev.task, unit), {}).setdefault(label, []).append(points)
        for (task, unit), lines in curves.items():
            yield Chart(where, "optimizer steps", f"{unit} on {task}", tuple(_series(lines, colours, seeds)))


def loss_charts(runs: Mapping[Label, Sequence[Any]]) -> Iterator[Chart]:
    """Each unweighted loss term against optimizer steps, one panel for each profile, setting, encoder and term."""
    colours, seeds = _colours(runs), _draws_seeds(runs)
    for where, labels in _places(runs).items():
        curves: dict[str, dict[Label, list[Points]]] = {}
        for label in labels:
            for result in runs[label]:
                for term, values in result.losses.terms.items():
                    points = _points(result.losses.steps, values)
                    if points:
                        curves.setdefault(term, {}).setdefault(label, []).append(points)
        for term, lines in curves.items():
            title, y_label = f"{term}: {where}", f"loss term {term}, unweighted"
            yield Chart(title, "optimizer steps", y_label, tuple(_series(lines, colours, seeds)))


def has_curves(runs: Mapping[Label, Sequence[Any]]) -> bool:
    """Whether there is any curve to draw."""
    return any(one.dev.scores or one.losses.terms for results in runs.values() for one in results)


def _draws_seeds(runs: Mapping[Label, Sequence[Any]]) -> bool:
    return sum(len(results) for results in runs.values()) <= MOST_SEEDS


def _places(runs: Mapping[Label, Sequence[Any]]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = {}
    for label in runs:
        found.setdefault(_place(label), []).append(label)
    return found


def _place(label: Label) -> str:
    return f"{label.setting} / {label.encoder}, profile {label.profile}"


def _colours(runs: Mapping[Label, Sequence[Any]]) -> dict[str, int]:
    names = dict.fromkeys(str(label) for label, results in runs.items() if any(one.losses.steps for one in results))
    others = [name for name in names if name != BASELINE]
    return {BASELINE: -1, **{name: index for index, name in enumerate(others)}}


def _points(steps: Sequence[float], values: Sequence[float | None]) -> Points:
    return tuple((float(step), float(value)) for step, value in zip(steps, values, strict=True) if value is not None)


def _series(lines: Mapping[Label, Sequence[Points]], colours: Mapping[str, int], shown: bool) -> Iterator[Series]:
    for label, seeds in lines.items():
        name = str(label)
        yield Series(name, colours[name], _mean(seeds), tuple(seeds), shown)


def _mean(seeds: Sequence[Points]) -> Points:
    """The mean at the steps that every seed has."""
    tables = [dict(points) for points in seeds]
    common = [step for step, _ in seeds[0] if all(step in table for table in tables)]
    return tuple((step, sum(table[step] for table in tables) / len(tables)) for step in common)
