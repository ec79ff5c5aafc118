"""Dev and loss curves of one run, and of the runs in the tables with means over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from harness.reporting.seeds.groups import Label
from harness.reporting.seeds.summary import BASELINE, SummaryTable
from harness.store import Chosen, Result

CurveKind = Literal["dev", "loss"]
#: steps and values
Points = tuple[tuple[float, float], ...]
#: results of all seeds by label
SeedRuns = Mapping[Label, Sequence[Result]]
#: Profiles with more runs than this show means only; single seeds are on the pages of the runs.
MOST_SEEDS = 400
#: Variants in one chart; more cannot be told apart.
MOST_VARIANTS = 30
X_LABEL = "optimizer steps"


class RunCurve(NamedTuple):
    """One curve of one run: a loss term, or the dev score if `term` is empty."""

    term: str
    y_label: str
    points: Points


@dataclass(frozen=True)
class Series:
    """The curve of a variant. `index` selects its colour, equal on the whole page; -1 is the baseline."""

    name: str
    index: int
    mean: Points
    seeds: tuple[Points, ...]


@dataclass(frozen=True)
class Chart:
    """One panel over optimizer steps. Single seeds are drawn if `show_seeds` is set, and counted otherwise."""

    title: str
    y_label: str
    series: tuple[Series, ...]
    show_seeds: bool = True


def shown_runs(results: Sequence[Result], tables: Sequence[SummaryTable]) -> dict[Label, Chosen]:
    """The results behind the rows of tables by label, in order of seeds. Groups that the tables omit are omitted."""
    labels = {(row.label.profile, row.group): row.label for table in reversed(tables) for row in table.rows}
    found: dict[Label, list[tuple[int, int]]] = {label: [] for label in sorted(labels.values())}
    for place, result in enumerate(results):
        label = labels.get((result.profile, result.group))
        if label is not None:
            found[label].append((result.spec.seed, place))
    return {label: Chosen(results, [place for _, place in sorted(runs)]) for label, runs in found.items() if runs}


def run_charts(result: Result, kind: CurveKind) -> list[Chart]:
    """The charts of one run: of its dev score, if it has any, or of each loss term."""
    titles = ((f"Loss term {curve.term}" if curve.term else "Dev score", curve) for curve in _curves(result, kind))
    return [Chart(name, one.y_label, (Series(name, 0, one.points, (one.points,)),)) for name, one in titles]


def charts(runs: SeedRuns, kind: CurveKind) -> list[Chart]:
    """A chart for each profile, setting and encoder, and for each dev task or unweighted loss term.

    Where there are more than MOST_VARIANTS variants, the baseline and the first others are drawn.
    """
    places: dict[str, list[Label]] = {}
    for label in runs:
        places.setdefault(f"{label.setting} / {label.encoder}, profile {label.profile}", []).append(label)
    drawn = dict(map(_drawn, places, places.values()))
    colours = _colours({label: runs[label] for labels in drawn.values() for label in labels})
    few = sum(map(len, runs.values())) <= MOST_SEEDS
    return [
        Chart(
            f"{term}: {where}" if term else where,
            y_label,
            tuple(Series(name, colours[name], _mean(seeds), tuple(seeds)) for name, seeds in lines.items()),
            few,
        )
        for where, labels in drawn.items()
        for (term, y_label), lines in _lines(runs, labels, kind).items()
    ]


def _drawn(place: str, labels: Sequence[Label]) -> tuple[str, list[Label]]:
    """The labels of a place that are drawn, and its name, which says where some are not."""
    if len(labels) <= MOST_VARIANTS:
        return place, list(labels)
    first = sorted(labels, key=lambda label: label.variant != BASELINE or bool(label.overrides))[:MOST_VARIANTS]
    drawn = [label for label in labels if label in first]
    return f"{place} ({len(drawn)} of {len(labels)} variants)", drawn


def _lines(runs: SeedRuns, labels: Sequence[Label], kind: CurveKind) -> dict[tuple[str, str], dict[str, list[Points]]]:
    """The curves of every seed by term, label of the y axis, and variant."""
    found: dict[tuple[str, str], dict[str, list[Points]]] = {}
    for label in labels:
        for curve in (curve for result in runs[label] for curve in _curves(result.whole(), kind)):
            found.setdefault((curve.term, curve.y_label), {}).setdefault(str(label), []).append(curve.points)
    return found


def _curves(result: Result, kind: CurveKind) -> Iterator[RunCurve]:
    dev, losses = result.dev, result.losses
    if kind == "dev" and dev.scores:
        yield RunCurve("", f"{dev.metric} on {dev.task}", _points(dev.steps, dev.scores))
    for term, values in losses.terms.items() if kind == "loss" else ():
        if points := _points(losses.steps, values):
            yield RunCurve(term, f"loss term {term}, unweighted", points)


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
