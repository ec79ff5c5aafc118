"""Numbers over seeds: a label names the runs of a row, a cell has their scores in one column and its test.

A family is the comparisons that answer one question, and are therefore corrected together (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple

from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.caveats import COLLAPSED, Caveat, GroupState, Weakness, joined_caveats
from harness.reporting.seeds.spent import Spent
from harness.spec import DEFAULT_READING, UNTRAINED, SpecError, Variant
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
        return _parsed(self.variant)

    @property
    def method(self) -> str:
        """Its method; the text itself if it is not a valid variant."""
        return self.parsed.name if self.parsed else self.variant

    @property
    def reading(self) -> str:
        """The reading of its method; the default one if it is not a valid variant."""
        return self.parsed.reading if self.parsed else DEFAULT_READING

    @property
    def is_method(self) -> bool:
        """Whether it is a method as its profile trains it: no option, the default reading and no `--set`."""
        variant = self.parsed
        return variant is not None and not (variant.options or self.overrides) and variant.reading == DEFAULT_READING

    def __str__(self) -> str:
        return self.name.code


@cache
def _parsed(variant: str) -> Variant | None:
    try:
        return Variant.parse(variant)
    except SpecError:
        return None


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

    seeds: tuple[int, ...]
    values: tuple[float, ...]
    summary: Summary
    caveats: tuple[Caveat, ...] = ()
    test: TTest | None = None
    verdict: Significance | None = None
    corrected: Corrected | None = None

    @classmethod
    def of(cls, by_seed: Mapping[int, float], caveats: tuple[Caveat, ...] = ()) -> Cell:
        """The cell of at least one seed."""
        values = tuple(by_seed.values())
        return cls(tuple(by_seed), values, summarise(values), caveats)

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.values, strict=True))

    def of_seed(self, seed: int) -> Cell:
        """The cell of one of its seeds, with the caveats that are about it."""
        about = (caveat for caveat in self.caveats if caveat.mark != COLLAPSED or seed in caveat.about)
        mine = (caveat._replace(about=(seed,)) if caveat.mark == COLLAPSED else caveat for caveat in about)
        return Cell.of({seed: self.by_seed[seed]}, tuple(mine))

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


#: a part of a task and a column; the part is '' for whole tasks
PartColumn = tuple[str, Column]


@dataclass(frozen=True)
class Row:
    """The runs that stand for a label in a suite: their seeds, and a cell for each column.

    `group` and `protocol` identify what they share, `freshness` says how that relates to the present code, data and
    values. `runs` are their rows in the frames that they are from, in the order of `seeds`. `parts` are the cells of
    parts of tasks. `is_method` says whether it is tested among the methods or among their variants. `teachers` are
    what the features of each teacher describe, and its name. `asked` is the start of its group that a user gave.
    `spent` is what the runs read and computed.
    """

    label: Label
    seeds: tuple[int, ...]
    cells: Mapping[Column, Cell]
    parts: Mapping[PartColumn, Cell] = field(default_factory=dict)
    suite: str = ""
    group: str = ""
    protocol: str = ""
    freshness: GroupState = field(default_factory=GroupState)
    training: Mapping[str, str] = field(default_factory=dict)
    pooling: str = ""
    teachers: Sequence[tuple[str, str]] = ()
    runs: tuple[int, ...] = ()
    is_method: bool = True
    asked: str = ""
    spent: Spent = field(default_factory=Spent)

    @property
    def name(self) -> str:
        """How a user names it: the variant, with its overrides and the group that was asked for, if there are any."""
        return f"{self.label}#{self.asked}" if self.asked else str(self.label)

    @cached_property
    def data(self) -> tuple[object, ...]:
        """Its seeds and all its scores; rows with equal data come from equal trainings."""
        return self.seeds, *((column, cell.values) for column, cell in sorted(self.cells.items()))

    def cell(self, column: Column, part: str = "") -> Cell | None:
        """The cell of a whole task, or of a part of one; None if no seed has it."""
        return self.parts.get((part, column)) if part else self.cells.get(column)

    def of_part(self, part: str) -> Mapping[Column, Cell]:
        """The cells of one part of each task that has it; those of whole tasks for the part ''."""
        return {column: cell for (of, column), cell in self.parts.items() if of == part} if part else self.cells

    def weakness(self, columns: Iterable[Column] | None = None) -> Weakness:
        """What weakens its scores in some columns, by default in all."""
        cells = map(self.cells.get, self.cells if columns is None else columns)
        return self.weakness_in(cell for cell in cells if cell)

    def weakness_in(self, cells: Iterable[Cell]) -> Weakness:
        """What weakens the numbers in some cells made from its scores."""
        caveats = joined_caveats(cell.caveats for cell in cells)
        return Weakness(self.label.place, self.label.name.text, caveats, self.freshness)

    @property
    def is_trained(self) -> bool:
        return self.label.setting != UNTRAINED


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


def corrected(
    cells: Sequence[Cell], data: Sequence[Hashable], methods: Collection[Hashable], alpha: float = ALPHA
) -> list[Cell]:
    """The tested cells of one column in one setting and encoder, with Holm's correction over each family.

    `data` are all scores of both sides of each test: tests of equal data are one test. Those in `methods` are the
    family of methods, the others that of their variants.
    """
    ps_of = {key: cell.test.p for key, cell in zip(data, cells, strict=True) if cell.test}
    adjusted: dict[Hashable, Corrected] = {}
    for of_methods in (True, False):
        family = {key: p for key, p in ps_of.items() if (key in methods) is of_methods}
        ps = holm([*family.values()])
        adjusted |= {key: Corrected(p, len(family), alpha) for key, p in zip(family, ps, strict=True)}
    return [
        replace(cell, corrected=adjusted.get(key) if cell.test else None) for key, cell in zip(data, cells, strict=True)
    ]


def compared(
    pairs: Sequence[tuple[Row, Row]], column: Column, metric: Metric, *, one_family: bool = False
) -> list[Cell]:
    """The cells of rows in a column, each tested against another row's: one-sample if that is an untrained encoder.

    Methods are one family and their variants another, unless all are `one_family`.
    """
    cells = [
        compare(row.cells[column], other.cells[column], metric, untrained=not other.is_trained) for row, other in pairs
    ]
    data = [(row.data, other.data) for row, other in pairs]
    methods = {key for key, (row, _) in zip(data, pairs, strict=True) if row.is_method or one_family}
    return corrected(cells, data, methods)
