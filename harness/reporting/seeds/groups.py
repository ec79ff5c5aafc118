"""Which runs stand for a row of a table, and their scores over seeds.

One label may have been run more than once with something else changed: another data set, another version of a suite.
One group of its runs is shown for each suite, of one training and one protocol; the others are counted, never mixed.

A family is the comparisons that answer one question, and are therefore corrected together (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.papers.published import PAPER_PROFILE
from harness.reporting.seeds.caveats import Caveat, Freshness, Weakness, caveats, collapsed_runs, joined_caveats
from harness.spec import DEFAULT_READING, Place, SpecError, Variant
from harness.stats import (
    ALPHA,
    FEWEST_SEEDS,
    Summary,
    TTest,
    holm,
    one_sample_t_test,
    summarise,
    t_test_from_summaries,
)
from harness.store import PRESENT, UNKNOWN, unjudged

if TYPE_CHECKING:
    import pandas

#: which group stands for a label: a present one before one of unknown state, and that before a stale one
_RANKS = {PRESENT: 2, UNKNOWN: 1}


class Label(NamedTuple):
    """The name of a row: every choice that defines its runs, except the seed."""

    profile: str
    variant: str
    setting: str
    encoder: str
    overrides: str

    @property
    def name(self) -> VariantName:
        return name_of(self.variant, self.overrides)

    @property
    def place(self) -> str:
        return f"{self.setting} / {self.encoder}"

    @property
    def parsed(self) -> Variant | None:
        """Its variant; None if the text is not a valid variant."""
        try:
            return Variant.parse(self.variant)
        except SpecError:
            return None

    @property
    def method(self) -> str:
        """Its method; the text itself if it is not a valid variant."""
        return self.parsed.name if self.parsed else self.variant

    @property
    def is_method(self) -> bool:
        """Whether it is a method as its profile trains it: no option, the default reading and no `--set`."""
        variant = self.parsed
        return variant is not None and not (variant.options or self.overrides) and variant.reading == DEFAULT_READING

    def __str__(self) -> str:
        return self.name.code


class Corrected(NamedTuple):
    """A p-value after Holm's correction over a family of `tests`, and the level at which it is significant."""

    p: float
    tests: int
    alpha: float = ALPHA


@dataclass(frozen=True, slots=True)
class Cell:
    """Scores over seeds. `test` compares them with another cell; without it there is no `verdict`.

    `corrected` is the p-value after correction in its family, None if it is in none. `verdict` is before correction.
    """

    values: tuple[float, ...]
    summary: Summary
    test: TTest | None = None
    verdict: Significance | None = None
    corrected: Corrected | None = None
    caveats: tuple[Caveat, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether its verdict is significant, after the correction where there is one."""
        shown = self.verdict in (Significance.BETTER, Significance.WORSE)
        return shown and (self.corrected is None or self.corrected.p < self.corrected.alpha)

    @property
    def is_alone(self) -> bool:
        """Whether its test is significant only before the correction."""
        return self.verdict in (Significance.BETTER, Significance.WORSE) and not self.holds

    @property
    def p(self) -> float | None:
        """The p-value of its test, after the correction where there is one; None without a test."""
        return self.corrected.p if self.corrected else self.test.p if self.test else None

    @classmethod
    def of(cls, values: Sequence[float], caveats: tuple[Caveat, ...] = ()) -> Cell:
        return cls(tuple(values), summarise(values), caveats=caveats)


def weakness_of(label: Label, cells: Iterable[Cell | None], freshness: Freshness) -> Weakness:
    """What weakens the scores of a row, in some of its cells."""
    caveats = joined_caveats(cell.caveats for cell in cells if cell)
    return Weakness(label.place, label.name.text, caveats, freshness)


#: columns of a frame that its groups read
_COLUMNS = ("suite", "task", "part", "metric", "seed", "value", "training", "pooling", "dev_task")


@dataclass(frozen=True, eq=False)
class Group:
    """The runs that stand for a label in one suite: those of the present code, data and values, or else the newest.

    `rows` are their lines in `frame`, in order of seeds; `columns` are some of its columns as arrays, for speed;
    `collapsed` are the seeds of collapsed runs.
    """

    group: str
    protocol: str
    freshness: Freshness
    frame: pandas.DataFrame
    columns: Mapping[str, NDArray[Any]]
    rows: slice
    collapsed: frozenset[int] = frozenset()

    @property
    def lines(self) -> pandas.DataFrame:
        return self.frame.iloc[self.rows]

    def _values(self, name: str) -> list[Any]:
        values: list[Any] = self.columns[name][self.rows].tolist()
        return values

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._values("seed"))))

    @property
    def training(self) -> Mapping[str, str]:
        """The values of the runs' training as texts; none for an untrained encoder."""
        pairs = (pair.partition("=") for pair in self._shared("training").split(","))
        return {name: value for name, _, value in pairs if name}

    @property
    def pooling(self) -> str:
        return self._shared("pooling")

    def _shared(self, name: str) -> str:
        return str(self.columns[name][self.rows.start])

    @cached_property
    def scores(self) -> Mapping[Column, Mapping[int, float]]:
        """The scores of whole tasks by column and seed."""
        return self.scores_of("")

    def scores_of(self, part: str) -> Mapping[Column, Mapping[int, float]]:
        """The scores of one part of each task that has it, by column and seed; of whole tasks for the part ''."""
        scores: dict[Column, dict[int, float]] = {}
        columns = map(self._values, ("part", "task", "metric", "seed", "value"))
        for of, task, metric, seed, value in zip(*columns, strict=True):
            if of == part:
                scores.setdefault(Column(task, metric), {})[seed] = value
        return scores

    def cells(self, part: str = "") -> dict[Column, Cell]:
        """Return every column's cell, of whole tasks or of one part of each."""
        scores = self.scores_of(part) if part else self.scores
        return {column: Cell.of(list(values.values()), self.caveats(column)) for column, values in scores.items()}

    def caveats(
        self, column: Column, tasks: Collection[str] = (), seeds: Collection[int] | None = None
    ) -> tuple[Caveat, ...]:
        """The caveats of its scores in a column. `tasks` are those of the suite, by default those with scores.

        `seeds` restricts them to some runs. Selection on a test is no caveat for a metric that is not judged.
        """
        dev = frozenset() if column.metric in unjudged(self._shared("suite")) else self._distinct["dev_task"]
        collapsed = self.collapsed if seeds is None else self.collapsed & {*seeds}
        return caveats(collapsed, dev, column.task, tasks or self._distinct["task"])

    @cached_property
    def _distinct(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(self._values(name)) for name in ("dev_task", "task")}


def kept_groups(frame: pandas.DataFrame, every: pandas.DataFrame | None = None) -> dict[tuple[Label, str], Group]:
    """Choose the group of each label and suite in a frame of scores, the present one if there is one.

    If the frame is a part of `every`, collapsed runs are detected in `every`.
    """
    collapsed = collapsed_runs(frame if every is None else every)
    times = frame["finished"].cat.reorder_categories(sorted(frame["finished"].cat.categories)).cat.codes
    names = [*Label._fields, "suite", "group", "protocol"]
    grouped = frame.assign(time=times).groupby(names, sort=False, observed=True)
    counted = grouped.agg(seeds=("seed", "nunique"), time=("time", "max"), state=("present", "first"))
    ranked: dict[tuple[Label, str], list[Any]] = {}
    for group in counted.reset_index().itertuples():
        ranked.setdefault((Label(*group[1:6]), str(group.suite)), []).append(group)
    for some in ranked.values():
        some.sort(key=_rank, reverse=True)
    chosen = [best.Index for best, *_ in ranked.values()]
    lines, rows = _in_groups(frame.assign(number=grouped.ngroup()), chosen)
    arrays = {name: lines[name].astype(object).to_numpy() for name in _COLUMNS}
    return {
        place: Group(
            best.group,
            best.protocol,
            Freshness(best.seeds, best.state, tuple((other.seeds, other.state) for other in others)),
            lines,
            arrays,
            where,
            collapsed.get(best.group, frozenset()),
        )
        for (place, (best, *others)), where in zip(ranked.items(), rows, strict=True)
    }


def _rank(group: Any) -> tuple[object, ...]:
    """The sort key of a label's groups: of present ones, the one with most seeds is best; of others, the newest."""
    present = group.state == PRESENT
    return _RANKS.get(group.state, 0), group.seeds if present else 0, group.time, group.group, group.protocol


def _in_groups(frame: pandas.DataFrame, chosen: Sequence[int]) -> tuple[pandas.DataFrame, list[slice]]:
    """The lines of the chosen groups, one per score and seed, ordered by group and seed; and each group's slice."""
    lines = frame[frame["number"].isin(chosen)].sort_values(["number", "seed"])
    lines = lines.drop_duplicates(["number", "seed", "task", "part", "metric"]).reset_index(drop=True)
    starts, stops = (np.searchsorted(lines["number"], chosen, side).tolist() for side in ("left", "right"))
    return lines, [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


def ahead(score: float, other: float, metric: Metric) -> bool:
    """Whether one score is better than another."""
    return score > other if metric.larger_is_better else score < other


def compare(cell: Cell, against: Cell, metric: Metric, alpha: float = ALPHA, *, untrained: bool = False) -> Cell:
    """Return a cell with its t-test against another and the verdict at a level of significance.

    With fewer than FEWEST_SEEDS on a side, or in a metric that is not judged, there is neither. An `untrained`
    encoder is one number without seeds: the test against it is a one-sample test.
    """
    if untrained:
        enough, test = cell.summary.n >= FEWEST_SEEDS, one_sample_t_test(cell.values, against.summary.mean)
    else:
        enough = min(cell.summary.n, against.summary.n) >= FEWEST_SEEDS
        test = t_test_from_summaries(cell.summary, against.summary)
    if test is None or not enough or not metric.judged:
        return replace(cell, test=None, verdict=None, corrected=None)
    verdict = Significance.BETTER if ahead(test.difference, 0, metric) else Significance.WORSE
    return replace(cell, test=test, verdict=verdict if test.p < alpha else Significance.NONE, corrected=None)


def trained_apart(training: Mapping[str, str], other: Mapping[str, str]) -> str:
    """List the training values that differ between two sides of a comparison; empty if there are none.

    `epochs 1 against 3, precision fp16 against fp32`. A value that one side does not have is not compared.
    """
    return ", ".join(
        f"{name} {training[name]} against {other[name]}"
        for name in training
        if training[name] != other.get(name, training[name])
    )


class PlaceRuns(NamedTuple):
    """The runs of one profile without `--set`: their lines of a frame, and their groups by place and suite."""

    lines: pandas.DataFrame
    groups: Mapping[Place, Mapping[str, Group]]

    @classmethod
    def of(cls, frame: pandas.DataFrame, profile: str) -> PlaceRuns:
        """The runs of a profile in a frame.

        Runs of the paper profile may be compared with printed numbers, so only those of the profile in this package
        count, not those of a user's profile of the same name.
        """
        mine = (frame["profile"] == profile) & (frame["overrides"] == "")
        lines = frame[mine & (frame["profile_origin"] == "package") if profile == PAPER_PROFILE else mine]
        groups: dict[Place, dict[str, Group]] = {}
        for (label, suite), group in kept_groups(lines).items():
            groups.setdefault(Place(*label[1:4]), {})[suite] = group
        return cls(lines, groups)


class FamilyTest(NamedTuple):
    """A cell that was tested against its reference, in one column of one setting and encoder.

    `data` are all scores of both sides: comparisons of equal data are one test. `is_method` separates the methods from
    their variants, which are a family of their own.
    """

    cell: Cell
    data: Hashable
    is_method: bool = True


def corrected(comparisons: Sequence[FamilyTest], alpha: float = ALPHA) -> list[Cell]:
    """The cells of one column in one setting and encoder, with Holm's correction over each family.

    A variant with the same data as a method counts as that method's test, not as another one.
    """
    tested = [comparison for comparison in comparisons if comparison.cell.test]
    methods = {comparison.data: comparison.cell for comparison in tested if comparison.is_method}
    variants = {comparison.data: comparison.cell for comparison in tested if comparison.data not in methods}
    adjusted: dict[Hashable, Corrected] = {}
    for family in (methods, variants):
        ps = holm([cell.test.p for cell in family.values() if cell.test])
        adjusted |= {data: Corrected(p, len(family), alpha) for data, p in zip(family, ps, strict=True)}
    return [
        replace(comparison.cell, corrected=adjusted.get(comparison.data) if comparison.cell.test else None)
        for comparison in comparisons
    ]
