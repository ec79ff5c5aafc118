"""Numbers over seeds: a label names the runs of a row, a cell has their scores in one column and
its test.

A family is the comparisons that answer one question, and are therefore corrected together
(docs/statistics.md).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple

from harness import stats
from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.caveats import OF_SEEDS, Caveat, GroupState, Weakness, joined_caveats
from harness.reporting.seeds.galleries import RowGalleries
from harness.reporting.seeds.spent import Spent
from harness.spec import DEFAULT_READING, UNTRAINED, SpecError, Variant
from harness.stats import ALPHA, FEWEST_SEEDS, Equivalence, Summary, TTest, holm, summarise
from harness.store import Frames


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
        """Whether it is a method as its profile trains it: no option, the default reading and no
        `--set`.
        """
        variant = self.parsed
        return (
            variant is not None
            and not (variant.options or self.overrides)
            and variant.reading == DEFAULT_READING
        )

    def __str__(self) -> str:
        return self.name.code


@cache
def _parsed(variant: str) -> Variant | None:
    try:
        return Variant.parse(variant)
    except SpecError:
        return None


class Corrected(NamedTuple):
    """A p-value after Holm's correction over a family of `tests`, and the level at which it is
    significant.

    `step` is the level that the next test of the family has to pass before correction.
    """

    p: float
    tests: int
    alpha: float = ALPHA
    step: float = ALPHA

    @classmethod
    def family(cls, ps: Sequence[float], alpha: float = ALPHA) -> list[Corrected]:
        """The tests of a family in the order of their p-values given."""
        adjusted = holm(ps)
        left = max(1, sum(p >= alpha for p in adjusted))
        return [cls(p, len(ps), alpha, alpha / left) for p in adjusted]


#: the margin of "equal" without another one: this many points, or this share of the deviation over
#: seeds if larger
EQUAL_POINTS, EQUAL_SHARE = 0.1, 0.1


@dataclass(frozen=True, slots=True)
class Cell:
    """Scores over seeds. `test` compares them with another cell; without it there is no `verdict`.

    `equivalence` is the test for a difference within the margin of "equal", None if none was asked
    for. `corrected` is the p-value of `test` after correction in its family, None if it is in none.
    Differences are a `verdict` before correction, EQUAL only after it.
    """

    seeds: tuple[int, ...]
    values: tuple[float, ...]
    summary: Summary
    caveats: tuple[Caveat, ...] = ()
    test: TTest | None = None
    verdict: Significance | None = None
    corrected: Corrected | None = None
    equivalence: Equivalence | None = None

    @classmethod
    def of(cls, by_seed: Mapping[int, float], caveats: tuple[Caveat, ...] = ()) -> Cell:
        """The cell of at least one seed."""
        values = tuple(by_seed.values())
        return cls(tuple(by_seed), values, summarise(values), caveats)

    def tested(
        self,
        test: TTest | None = None,
        verdict: Significance | None = None,
        corrected: Corrected | None = None,
        equivalence: Equivalence | None = None,
    ) -> Cell:
        """The same scores with another test."""
        return Cell(
            self.seeds,
            self.values,
            self.summary,
            self.caveats,
            test,
            verdict,
            corrected,
            equivalence,
        )

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.values, strict=True))

    def pairs(self, other: Cell) -> tuple[list[float], list[float]]:
        """Its values and those of another cell at their common seeds."""
        mine, theirs = self.by_seed, other.by_seed
        common = sorted(mine.keys() & theirs.keys())
        return [mine[seed] for seed in common], [theirs[seed] for seed in common]

    def of_seed(self, seed: int) -> Cell:
        """The cell of one of its seeds, with the caveats that are about it."""
        about = (
            caveat for caveat in self.caveats if caveat.mark not in OF_SEEDS or seed in caveat.about
        )
        mine = (
            caveat._replace(about=(seed,)) if caveat.mark in OF_SEEDS else caveat
            for caveat in about
        )
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

    `group` and `protocol` identify what they share, `freshness` says how that relates to the
    present code, data and values. Rows of equal `batches` read the same ones with equal seeds; ''
    is unknown. `runs` are their rows in the `frames` that they are from, in the order of `seeds`.
    `parts` are the cells of parts of tasks. `is_method` says whether it is tested among the methods
    or among their variants. `teachers` are what the features of each teacher describe, and its
    name. `galleries` are the images that retrieval has ranked, by task. `asked` is the start of its
    group that a user gave.
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
    batches: str = ""
    runs: tuple[int, ...] = ()
    is_method: bool = True
    galleries: RowGalleries = field(default_factory=dict)
    asked: str = ""
    frames: Frames | None = field(default=None, compare=False, repr=False)

    @cached_property
    def spent(self) -> Spent:
        """What its runs read and computed."""
        return Spent.of(self.frames, self.runs) if self.frames else Spent()

    @property
    def name(self) -> str:
        """How a user names it: the variant, with its overrides and the group that was asked for, if
        there are any.
        """
        return f"{self.label}#{self.asked}" if self.asked else str(self.label)

    @cached_property
    def data(self) -> tuple[str, bytes]:
        """Its seeds and all its scores, quickly compared; rows with equal data come from equal
        trainings.
        """
        cells = sorted(self.cells.items())
        values = array("d", chain.from_iterable(cell.values for _, cell in cells))
        return repr(
            (self.seeds, [(*column, len(cell.values)) for column, cell in cells])
        ), values.tobytes()

    def cell(self, column: Column, part: str = "") -> Cell | None:
        """The cell of a whole task, or of a part of one; None if no seed has it."""
        return self.parts.get((part, column)) if part else self.cells.get(column)

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


def compare(
    cell: Cell,
    other: Cell,
    metric: Metric,
    alpha: float = ALPHA,
    *,
    paired: bool = False,
    margin: float | None = None,
) -> Cell:
    """Return a cell with its t-test against another and the verdict at a level of significance.

    With fewer than FEWEST_SEEDS on a side, or in a metric that is not judged, there is neither. A
    `paired` test is over the common seeds, if there are enough. Only with a `margin`, in the
    metric's unit, is equivalence tested.
    """
    pairs = cell.pairs(other) if paired else ((), ())
    by_seed = stats.paired_t_test(*pairs) if len(pairs[0]) >= FEWEST_SEEDS else None
    test = by_seed or stats.t_test_from_summaries(cell.summary, other.summary)
    return _judged(cell, test, min(cell.summary.n, other.summary.n), metric, alpha, margin)


def _judged(
    cell: Cell,
    test: TTest | None,
    seeds: int,
    metric: Metric,
    alpha: float = ALPHA,
    margin: float | None = None,
) -> Cell:
    if test is None or seeds < FEWEST_SEEDS or not metric.judged:
        return cell.tested()
    equivalence = None if margin is None else stats.equivalence_test(test, margin)
    verdict = Significance.BETTER if ahead(test.difference, 0, metric) else Significance.WORSE
    if test.p >= alpha:
        verdict = Significance.EQUAL if equivalence and equivalence.p < alpha else Significance.NONE
    return cell.tested(test, verdict, None, equivalence)


def contrast(
    row: Row,
    other: Row,
    column: Column,
    metric: Metric,
    points: float | None = None,
    *,
    seed: int | None = None,
) -> Cell:
    """A row's cell in a column, compared with another row's, as all rows of results are.

    The t-test is paired by seed if their runs read the same batches, else independent. An untrained
    encoder is one number without seeds, and so is the run of a `seed` of the other row: against
    them, the test is a one-sample test. Equal are differences of less than `points`, by default
    EQUAL_POINTS or EQUAL_SHARE of the pooled deviation over seeds, whichever is larger.
    """
    cell, against = row.cells[column], other.cells[column]
    against = against if seed is None else against.of_seed(seed)
    varied = [each.summary for each in (cell, against) if each.summary.std is not None]
    spread = stats.pooled_deviation(varied[0], varied[-1]) if varied else 0.0
    point = 10.0 ** min(
        0, 2 - metric.digits
    )  # 1 for scores x 100, 0.01 for numbers with four digits
    margin = max(EQUAL_POINTS * point, EQUAL_SHARE * spread) if points is None else points * point
    if seed is None and row.is_trained == other.is_trained:
        paired = bool(row.batches) and row.batches == other.batches
        return compare(cell, against, metric, paired=paired, margin=margin)
    if row.is_trained:
        test = stats.one_sample_t_test(cell.values, against.summary.mean)
    else:
        test = stats.one_sample_t_test([-value for value in against.values], -cell.summary.mean)
    return _judged(cell, test, max(cell.summary.n, against.summary.n), metric, margin=margin)


def difference(cell: Cell, other: Cell) -> float:
    """The difference of a cell from the one that it is tested against: of the means, or of pairs in
    a paired test.
    """
    return cell.test.difference if cell.test else cell.summary.mean - other.summary.mean


def trained_apart(training: Mapping[str, str], other: Mapping[str, str]) -> str:
    """List the training values that differ between two sides of a comparison; empty if there are
    none.

    `epochs 1 against 3, precision fp16 against fp32`. A value that one side does not have is not
    compared.
    """
    return ", ".join(
        f"{name} {training[name]} against {other[name]}"
        for name in training
        if training[name] != other.get(name, training[name])
    )


def corrected(
    cells: Sequence[Cell],
    data: Sequence[Hashable],
    methods: Collection[Hashable],
    alpha: float = ALPHA,
) -> list[Cell]:
    """The tested cells of one column in one setting and encoder, with Holm's correction over each
    family.

    The tests for equivalence of a family are another family. `data` are all scores of both sides of
    each test: tests of equal data are one test. Those in `methods` are the family of methods, the
    others that of their variants.
    """
    found = {key: cell for key, cell in zip(data, cells, strict=True) if cell.test}
    adjusted, equal = dict[Hashable, Corrected](), dict[Hashable, Corrected]()
    for of_methods in (True, False):
        family = {key: cell for key, cell in found.items() if (key in methods) is of_methods}
        for ps, kept in (
            ({key: cell.test.p for key, cell in family.items() if cell.test}, adjusted),
            ({key: cell.equivalence.p for key, cell in family.items() if cell.equivalence}, equal),
        ):
            kept |= zip(ps, Corrected.family([*ps.values()], alpha), strict=True)

    def of(cell: Cell, key: Hashable) -> Cell:
        open_again = cell.verdict is Significance.EQUAL and equal[key].p >= alpha
        verdict = Significance.NONE if open_again else cell.verdict
        return cell.tested(cell.test, verdict, adjusted[key], cell.equivalence)

    return [of(cell, key) if cell.test else cell for key, cell in zip(data, cells, strict=True)]


def compared(
    pairs: Sequence[tuple[Row, Row]],
    column: Column,
    metric: Metric,
    points: float | None = None,
    *,
    one: bool = False,
) -> Iterator[tuple[Row, Row, Cell]]:
    """Each pair with the first row's cell in a column, in `contrast` to the second's and corrected
    in its family.

    Methods are one family and their variants another, unless all are `one`.
    """
    cells = [contrast(row, other, column, metric, points) for row, other in pairs]
    data = [(row.data, other.data) for row, other in pairs]
    methods = {key for key, (row, _) in zip(data, pairs, strict=True) if row.is_method or one}
    return (
        (*pair, cell) for pair, cell in zip(pairs, corrected(cells, data, methods), strict=True)
    )
