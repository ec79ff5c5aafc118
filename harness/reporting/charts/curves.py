"""Dev and loss curves of one run, and of the runs in the tables with means over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.method.naming import VariantName, name_of
from harness.reporting.charts.plot import LOOKS
from harness.reporting.seeds.groups import Label
from harness.reporting.seeds.summary import BASELINE, SummaryTable
from harness.spec import UNTRAINED
from harness.store import Chosen, Result

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
    """The curve of a variant. `index` selects its look, equal on the whole page as far as looks go; -1 is the baseline.

    `mean` is over the steps that all `seeds` have.
    """

    name: VariantName
    index: int
    mean: Points
    seeds: tuple[Points, ...]


@dataclass(frozen=True)
class Chart:
    """One panel over optimizer steps: the dev score, or a loss `term`, of a setting and encoder.

    Single seeds are drawn if `show_seeds` is set. `left_out` says that some variants are not drawn.
    """

    place: str
    term: str
    y_label: str
    series: tuple[Series, ...]
    show_seeds: bool = True
    left_out: str = ""


def shown_runs(results: Sequence[Result], tables: Sequence[SummaryTable]) -> dict[Label, Chosen]:
    """The results behind the rows of tables by label, in order of seeds. Groups that the tables omit are omitted."""
    labels = {(row.label.profile, row.group): row.label for table in reversed(tables) for row in table.rows}
    found: dict[Label, list[tuple[int, int]]] = {label: [] for label in sorted(labels.values())}
    for place, result in enumerate(results):
        label = labels.get((result.profile, result.group))
        if label is not None:
            found[label].append((result.spec.seed, place))
    return {label: Chosen(results, [place for _, place in sorted(runs)]) for label, runs in found.items() if runs}


def run_charts(result: Result) -> list[Chart]:
    """The charts of one run: of its dev score, if it has any, and of each loss term."""
    name = name_of(result.spec.variant)
    return [
        Chart("", curve.term, curve.y_label, (Series(name, 0, curve.points, (curve.points,)),))
        for curve in _curves(result)
    ]


def charts(runs: SeedRuns) -> list[Chart]:
    """A chart for each setting and encoder, and for each dev task and unweighted loss term, of one profile's runs.

    Where there are more than MOST_VARIANTS variants, the baseline and the first others are drawn.
    """
    places: dict[str, list[Label]] = {}
    for label in runs:
        places.setdefault(f"{label.setting} / {label.encoder}", []).append(label)
    drawn = {place: _drawn(labels) for place, labels in places.items()}
    every = _indices([label for labels in drawn.values() for label in labels])
    few = sum(map(len, runs.values())) <= MOST_SEEDS
    found = []
    for place, labels in drawn.items():
        indices = every if len(every) <= LOOKS else _indices(labels)
        left_out = "" if len(labels) == len(places[place]) else f" ({len(labels)} of {len(places[place])} variants)"
        for (term, y_label), lines in _lines(runs, labels).items():
            series = (Series(label.name, indices[str(label)], _mean(one), tuple(one)) for label, one in lines.items())
            found.append(Chart(place, term, y_label, tuple(series), few, left_out))
    return found


def _drawn(labels: Sequence[Label]) -> list[Label]:
    """The labels of a place that are drawn."""
    first = sorted(labels, key=lambda label: label.variant != BASELINE or bool(label.overrides))[:MOST_VARIANTS]
    return [label for label in labels if label in first]


def _lines(runs: SeedRuns, labels: Sequence[Label]) -> dict[tuple[str, str], dict[Label, list[Points]]]:
    """The curves of every seed by term, label of the y axis, and variant, dev scores first. Reads each result once."""
    found: dict[tuple[str, str], dict[Label, list[Points]]] = {}
    for label in labels:
        for curve in (curve for result in runs[label] for curve in _curves(result.whole())):
            found.setdefault((curve.term, curve.y_label), {}).setdefault(label, []).append(curve.points)
    return dict(sorted(found.items(), key=lambda item: item[0][0] != ""))


def _curves(result: Result) -> Iterator[RunCurve]:
    dev, losses = result.dev, result.losses
    if dev.scores:
        yield RunCurve("", f"{dev.metric} on {dev.task}", _points(dev.steps, dev.scores))
    for term, values in losses.terms.items():
        if points := _points(losses.steps, values):
            yield RunCurve(term, f"loss term {term}, unweighted", points)


def _indices(labels: Sequence[Label]) -> dict[str, int]:
    """The index of every variant that was trained; the baseline has -1."""
    names = dict.fromkeys(str(label) for label in labels if label.setting != UNTRAINED)
    return {BASELINE: -1, **{name: index for index, name in enumerate(name for name in names if name != BASELINE)}}


def _points(steps: Sequence[float], values: Sequence[float | None]) -> Points:
    return tuple((float(step), float(value)) for step, value in zip(steps, values, strict=True) if value is not None)


def _mean(seeds: Sequence[Points]) -> Points:
    """The mean at the steps that all seeds have."""
    tables = [dict(points) for points in seeds]
    common = [step for step, _ in seeds[0] if all(step in table for table in tables)]
    return tuple((step, sum(table[step] for table in tables) / len(tables)) for step in common)
