"""Numbers over seeds: a label names the runs of a row, a cell has their scores in one column and
its test.

A family is the comparisons that answer one question, and are therefore corrected together
(docs/statistics.md).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple

from harness import stats
from harness.formatting import count_of
from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.caveats import OF_SEEDS, Caveat, GroupState, Weakness, join_caveats
from harness.reporting.seeds.galleries import RowGalleries
from harness.reporting.seeds.spent import Spent
from harness.spec import DEFAULT_READING, UNTRAINED, SpecError, Variant
from harness.stats import (
    ALPHA,
    FEWEST_SEEDS,
    Equivalence,
    Summary,
    TTest,
    summarise,
)
from harness.stats.corrections import CORRECTION, Correction
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
        return _parse_variant(self.variant)

    @property
    def method(self) -> str:
        """Its method; the text itself if it is not a valid variant."""
        return self.parsed.name if self.parsed else self.variant

    @property
    def reading(self) -> str:
        """The reading of its method; the default one if it is not a valid variant."""
        return self.parsed.reading if self.parsed else DEFAULT_READING

    @property
    def is_teacher(self) -> bool:
        """Whether its vectors are those of a teacher in an encoder's place."""
        variant = self.parsed
        if variant is None or variant.name != UNTRAINED:
            return False
        return "teacher" in dict(variant.options)

    @property
    def is_method(self) -> bool:
        """Whether it is a method as its profile trains it: no option, the default reading and no
        `--set`.
        """
        variant = self.parsed
        if variant is None or variant.options or self.overrides:
            return False
        return variant.reading == DEFAULT_READING

    def __str__(self) -> str:
        return self.name.code


@cache
def _parse_variant(variant: str) -> Variant | None:
    try:
        return Variant.parse(variant)
    except SpecError:
        return None


class Family(NamedTuple):
    """The tests that are corrected together, as a reader finds them: the rows that its name says, in
    one column and place.
    """

    name: str
    tests: int
    correction: Correction = CORRECTION

    def __str__(self) -> str:
        """`Holm's correction over 16 tests (variants against SimCSE)`."""
        return f"{self.correction.name} over {count_of(self.tests, 'test')} ({self.name})"


class Corrected(NamedTuple):
    """A p-value after the correction in its family, and the level at which it is significant.

    `step` is the level that the next test of the family has to pass before correction.
    """

    p: float
    family: Family
    alpha: float = ALPHA
    step: float = ALPHA

    @property
    def is_significant(self) -> bool:
        return self.p < self.alpha


def correct_family(name: str, ps: Sequence[float], alpha: float = ALPHA) -> list[Corrected]:
    """The tests of a family, in the order of their p-values given."""
    family = Family(name, len(ps))
    step = family.correction.open_level(ps, alpha)
    return [Corrected(p, family, alpha, step) for p in family.correction.adjust(ps)]


#: the margin of "equal" without another one: this many points, or this share of the smaller
#: deviation over seeds if larger
EQUAL_POINTS = 0.1
EQUAL_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Cell:
    """Scores over seeds. `test` compares them with another cell; without it there is no `verdict`.

    `equivalence` is the test for a difference within the margin of "equal", None if none was asked
    for. `corrected` and `equal` are the p-values of the two after the correction in their family,
    None if they are in none. The `verdict` is that after the correction. `other_seeds` are those of
    the other cell; 0 if it has no seeds, or without a test.
    """

    seeds: tuple[int, ...]
    values: tuple[float, ...]
    summary: Summary
    caveats: tuple[Caveat, ...] = ()
    test: TTest | None = None
    verdict: Significance | None = None
    corrected: Corrected | None = None
    equivalence: Equivalence | None = None
    equal: Corrected | None = None
    other_seeds: int = 0

    @classmethod
    def of(cls, by_seed: Mapping[int, float], caveats: tuple[Caveat, ...] = ()) -> Cell:
        """The cell of at least one seed."""
        values = tuple(by_seed.values())
        return cls(tuple(by_seed), values, summarise(values), caveats)

    def attach_test(
        self,
        test: TTest | None = None,
        verdict: Significance | None = None,
        corrected: Corrected | None = None,
        equivalence: Equivalence | None = None,
        equal: Corrected | None = None,
        other_seeds: int = 0,
    ) -> Cell:
        """The same scores with another test."""
        scores = self.seeds, self.values, self.summary, self.caveats
        return Cell(*scores, test, verdict, corrected, equivalence, equal, other_seeds)

    def reversed(self, other: Cell) -> Cell:
        """The cell of the other side of its test, tested against this one: the same test, read from
        there.
        """
        test = self.test.reversed() if self.test else None
        equivalence = self.equivalence.reversed() if self.equivalence else None
        verdict = None
        if self.verdict:
            verdict = _REVERSED.get(self.verdict, self.verdict)
        seeds = self.summary.n if self.other_seeds else 0
        return other.attach_test(test, verdict, self.corrected, equivalence, self.equal, seeds)

    @property
    def by_seed(self) -> dict[int, float]:
        return dict(zip(self.seeds, self.values, strict=True))

    def pairs(self, other: Cell) -> tuple[list[float], list[float]]:
        """Its values and those of another cell at their common seeds."""
        values = self.by_seed
        other_values = other.by_seed
        common = sorted(values.keys() & other_values.keys())
        return [values[seed] for seed in common], [other_values[seed] for seed in common]

    def of_seed(self, seed: int) -> Cell:
        """The cell of one of its seeds, with the caveats that are about it."""
        caveats = []
        for caveat in self.caveats:
            if caveat.mark not in OF_SEEDS:
                caveats.append(caveat)
            elif seed in caveat.about:
                caveats.append(caveat._replace(about=(seed,)))
        return Cell.of({seed: self.by_seed[seed]}, tuple(caveats))

    @property
    def holds(self) -> bool:
        """Whether it shows a difference, after the correction where there is one."""
        return self.verdict in (Significance.BETTER, Significance.WORSE)

    @property
    def is_alone(self) -> bool:
        """Whether its test is significant only before the correction."""
        return self.verdict in (Significance.BETTER_ALONE, Significance.WORSE_ALONE)

    @property
    def unequal_seeds(self) -> str:
        """`9 against 5 seeds` where the two sides of its test have unequal numbers; else empty."""
        if self.other_seeds in (0, self.summary.n):
            return ""
        return f"{self.summary.n} against {count_of(self.other_seeds, 'seed')}"

    @property
    def p(self) -> float | None:
        """The p-value of its test, after the correction where there is one; None without a test."""
        if self.corrected:
            return self.corrected.p
        return self.test.p if self.test else None


_REVERSED = {
    Significance.BETTER: Significance.WORSE,
    Significance.WORSE: Significance.BETTER,
    Significance.BETTER_ALONE: Significance.WORSE_ALONE,
    Significance.WORSE_ALONE: Significance.BETTER_ALONE,
}
_ALONE = {
    Significance.BETTER: Significance.BETTER_ALONE,
    Significance.WORSE: Significance.WORSE_ALONE,
}

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

    def __hash__(self) -> int:
        # by its label alone, since its mappings have none
        return hash(self.label)

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
        places = [(*column, len(cell.values)) for column, cell in cells]
        values = array("d", chain.from_iterable(cell.values for _, cell in cells))
        return repr((self.seeds, places)), values.tobytes()

    def cell(self, column: Column, part: str = "") -> Cell | None:
        """The cell of a whole task, or of a part of one; None if no seed has it."""
        return self.parts.get((part, column)) if part else self.cells.get(column)

    def weakness(self, columns: Iterable[Column] | None = None) -> Weakness:
        """What weakens its scores in some columns, by default in all."""
        if columns is None:
            return self.weakness_in(self.cells.values())
        return self.weakness_in(self.cells[column] for column in columns if column in self.cells)

    def weakness_in(self, cells: Iterable[Cell]) -> Weakness:
        """What weakens the numbers in some cells made from its scores."""
        caveats = join_caveats(cell.caveats for cell in cells)
        return Weakness(self.label.place, self.label.name.text, caveats, self.freshness)

    @property
    def is_trained(self) -> bool:
        return self.label.setting != UNTRAINED


def is_ahead(score: float, other: float, metric: Metric) -> bool:
    """Whether one score is better than another."""
    return score > other if metric.larger_is_better else score < other


def compare(
    cell: Cell,
    other: Cell,
    metric: Metric,
    alpha: float = ALPHA,
    *,
    paired: bool = False,
    equal_variance: bool = False,
    margin: float | None = None,
) -> Cell:
    """Return a cell with its t-test against another and the verdict at a level of significance.

    With fewer than FEWEST_SEEDS on a side, or in a metric that is not judged, there is neither. A
    `paired` test is over the common seeds, if there are enough; other tests are Welch's, or pooled
    with `equal_variance`. Only with a `margin`, in the metric's unit, is equivalence tested.
    """
    test = None
    if paired:
        values, other_values = cell.pairs(other)
        if len(values) >= FEWEST_SEEDS:
            test = stats.paired_t_test(values, other_values)
    if test is None:
        test = stats.t_test_from_summaries(
            cell.summary, other.summary, equal_variance=equal_variance
        )

    seeds = min(cell.summary.n, other.summary.n)
    return _judge(cell, test, seeds, metric, alpha, margin, other.summary.n)


def _judge(
    cell: Cell,
    test: TTest | None,
    seeds: int,
    metric: Metric,
    alpha: float = ALPHA,
    margin: float | None = None,
    other_seeds: int = 0,
) -> Cell:
    """A cell with its test and verdict; without both if a side has too few `seeds` or the metric is
    not judged.
    """
    if test is None or seeds < FEWEST_SEEDS or not metric.judged:
        return cell.attach_test()

    equivalence = None if margin is None else stats.equivalence_test(test, margin)
    if test.p < alpha:
        is_better = is_ahead(test.difference, 0, metric)
        verdict = Significance.BETTER if is_better else Significance.WORSE
    elif equivalence and equivalence.p < alpha:
        verdict = Significance.EQUAL
    else:
        verdict = Significance.NONE
    return cell.attach_test(test, verdict, None, equivalence, None, other_seeds)


def choose_margin(cell: Cell, other: Cell, metric: Metric) -> float:
    """The margin of "equal" without another one, in the metric's unit: EQUAL_POINTS, or EQUAL_SHARE
    of the smaller deviation over seeds if that is larger.

    The smaller one, since the noisier of two sides must not widen what counts as equal.
    """
    deviations = [side.summary.std for side in (cell, other) if side.summary.std is not None]
    return max(EQUAL_POINTS * measure_point(metric), EQUAL_SHARE * min(deviations, default=0.0))


def measure_point(metric: Metric) -> float:
    """The size of a point: 1 for scores x 100, 0.01 for numbers with four digits."""
    return float(10.0 ** min(0, 2 - metric.digits))


def compare_rows(
    row: Row,
    other: Row,
    column: Column,
    metric: Metric,
    points: float | None = None,
    *,
    seed: int | None = None,
) -> Cell:
    """A row's cell in a column, compared with another row's, as all rows of results are.

    The t-test is paired by seed if their runs read the same batches, else Welch's. An untrained
    encoder is one number without seeds, and so is the run of a `seed` of the other row: against
    them, the test is a one-sample test. Equal are differences of less than `points`, by default
    of less than the `choose_margin`.
    """
    cell = row.cells[column]
    against = other.cells[column]
    if seed is not None:
        against = against.of_seed(seed)

    default = choose_margin(cell, against, metric)
    margin = default if points is None else points * measure_point(metric)
    if seed is None and row.is_trained == other.is_trained:
        paired = bool(row.batches) and row.batches == other.batches
        return compare(cell, against, metric, paired=paired, margin=margin)

    if row.is_trained:
        test = stats.one_sample_t_test(cell.values, against.summary.mean)
    else:
        # the sample is the other side, so that both of its signs are turned
        test = stats.one_sample_t_test([-value for value in against.values], -cell.summary.mean)
    seeds = max(cell.summary.n, against.summary.n)
    return _judge(cell, test, seeds, metric, margin=margin)


def compare_in_any_metric(
    row: Row, other: Row, column: Column, metric: Metric, points: float | None = None
) -> Cell:
    """As `compare_rows`, with a test in a metric that is not judged as well."""
    judged_metric = metric if metric.judged else replace(metric, judged=True)
    return compare_rows(row, other, column, judged_metric, points)


def measure_difference(cell: Cell, other: Cell) -> float:
    """The difference of a cell from the one that it is tested against: of the means, or of pairs in
    a paired test.
    """
    return cell.test.difference if cell.test else cell.summary.mean - other.summary.mean


def list_training_differences(training: Mapping[str, str], other: Mapping[str, str]) -> str:
    """List the training values that differ between two sides of a comparison; empty if there are
    none.

    `epochs 1 against 3, precision fp16 against fp32`. A value that one side does not have is not
    compared.
    """
    differences = []
    for name, value in training.items():
        if name in other and value != other[name]:
            differences.append(f"{name} {value} against {other[name]}")
    return ", ".join(differences)


def correct_cells(
    cells: Sequence[Cell],
    data: Sequence[Hashable],
    names: Sequence[str],
    alpha: float = ALPHA,
) -> list[Cell]:
    """The tested cells of one column in one setting and encoder, corrected in their families.

    `names` are those of the families that they stand in. The tests for equivalence of a family are
    another family. `data` are all scores of both sides of each test: tests of equal data are one
    test.
    """
    families: dict[str, dict[Hashable, Cell]] = {}
    for cell, key, name in zip(cells, data, names, strict=True):
        if cell.test:
            families.setdefault(name, {}).setdefault(key, cell)

    differs = dict[tuple[str, Hashable], Corrected]()
    equal = dict[tuple[str, Hashable], Corrected]()
    for name, family in families.items():
        p_values = {key: cell.test.p for key, cell in family.items() if cell.test}
        differs |= _correct_p_values(name, p_values, alpha)
        p_values = {key: cell.equivalence.p for key, cell in family.items() if cell.equivalence}
        equal |= _correct_p_values(name, p_values, alpha)

    in_families = []
    for cell, key, name in zip(cells, data, names, strict=True):
        if cell.test:
            cell = _put_in_family(cell, differs[name, key], equal.get((name, key)))
        in_families.append(cell)
    return in_families


def _correct_p_values(
    family: str, p_values: Mapping[Hashable, float], alpha: float
) -> dict[tuple[str, Hashable], Corrected]:
    """The corrections of the tests of a family, by its name and their keys."""
    corrections = correct_family(family, list(p_values.values()), alpha)
    return {(family, key): test for key, test in zip(p_values, corrections, strict=True)}


def _put_in_family(cell: Cell, differs: Corrected, equal: Corrected | None) -> Cell:
    """A tested cell with the verdict after the correction of its tests."""
    verdict = cell.verdict
    if verdict in _ALONE and not differs.is_significant:
        verdict = _ALONE[verdict]
    if verdict is Significance.EQUAL and not (equal and equal.is_significant):
        verdict = Significance.NONE
    return cell.attach_test(cell.test, verdict, differs, cell.equivalence, equal, cell.other_seeds)


def compare_pairs(
    pairs: Sequence[tuple[Row, Row]],
    column: Column,
    metric: Metric,
    points: float | None = None,
    *,
    family: str = "",
    against: str = "",
) -> Iterator[tuple[Row, Row, Cell]]:
    """Each pair with the first row's cell in a column, compared with the second's and corrected
    in its family.

    All are the `family` of this name; without one, methods `against` something are a family, and
    variants against it another.
    """
    cells = [compare_rows(row, compared_row, column, metric, points) for row, compared_row in pairs]
    data = [(row.data, compared_row.data) for row, compared_row in pairs]

    if family:
        names = [family] * len(pairs)
    else:
        # a variant with the scores of a method is the same test, which counts among the methods
        methods = {key for key, (row, _) in zip(data, pairs, strict=True) if row.is_method}
        kinds = ["methods" if key in methods else "variants" for key in data]
        names = [f"{kind} against {against}" for kind in kinds]

    in_families = correct_cells(cells, data, names)
    for (row, compared_row), cell in zip(pairs, in_families, strict=True):
        yield row, compared_row, cell
