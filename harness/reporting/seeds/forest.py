"""What each variant gains over the baseline of its setting and encoder, best first, and who leads in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.formatting import count_of, fixed, p_value
from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.groups import Cell, compare
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.seeds.untrained import has_trained_pooling
from harness.reporting.seeds.words import certainty, judged
from harness.stats import FEWEST_SEEDS, mean_interval, paired_t_test
from harness.verdicts import Significance

GainKind = Literal["better", "worse", "not significant", "not tested", "baseline", "untrained", "other pooling"]
_KINDS: Mapping[Significance, GainKind] = {
    Significance.BETTER: "better",
    Significance.WORSE: "worse",
    Significance.NONE: "not significant",
}


@dataclass(frozen=True)
class Gain:
    """A row of a forest: what a variant is ahead of the baseline in the metric's better direction.

    `low` and `high` are the ends of the 95 % interval, equal to `size` where there is none. `kind` is a key of the
    plot's colours: the verdict of the test alone; `certain` is whether it holds in its family.
    """

    row: Row
    cell: Cell
    size: float
    low: float
    high: float
    kind: GainKind
    certain: bool = False

    @property
    def name(self) -> VariantName:
        """The variant."""
        return self.row.label.name


@dataclass(frozen=True)
class Forest:
    """The rows of one setting and encoder against their baseline in one column, best first.

    Without a baseline, `base` is None and sizes are the scores themselves, with the sign of the better direction.
    """

    table: SummaryTable
    block: Block
    column: Column
    base: Row | None
    gains: tuple[Gain, ...]

    @property
    def place(self) -> str:
        """Setting and encoder."""
        return f"{self.block.setting} / {self.block.encoder}"

    @property
    def baseline(self) -> VariantName:
        """The baseline's name, whether it has runs or not."""
        return self.base.label.name if self.base else name_of(self.block.base)

    @cached_property
    def ranked(self) -> list[Gain]:
        """The rows without an untrained encoder at another pooling than the trained rows'."""
        return [gain for gain in self.gains if gain.kind != "other pooling"]

    @property
    def notes(self) -> list[str]:
        """What weakens the scores of its rows."""
        return list(weakness_notes(gain.row.weakness([self.column]) for gain in self.gains))

    @cached_property
    def tested(self) -> int:
        """Rows that are tested against the baseline."""
        return sum(gain.cell.test is not None for gain in self.gains)


def forests(table: SummaryTable, column: Column | None = None) -> list[Forest]:
    """A forest for each setting and encoder of a table in a column, by default the first average that is judged."""
    column = column or next(iter(table.averages), None)
    if column is None:
        return []
    every = (_forest(table, block, column) for block in table.blocks if block.trained)
    return [one for one in every if len(one.gains) > 1]


def leading(tables: Sequence[SummaryTable], runs: Mapping[str, int]) -> list[Forest]:
    """The forests of one suite of each profile, that with most tests: profiles with most runs and most tests first."""
    best: dict[str, list[Forest]] = {}
    for table in tables:
        found, before = forests(table), best.get(table.profile, [])
        if not before or min(map(importance, found), default=(2,)) < min(map(importance, before)):
            best[table.profile] = found
    every = [forest for found in best.values() for forest in found]
    return sorted(every, key=lambda one: (-runs.get(one.table.profile, 0), *importance(one)))


def importance(forest: Forest) -> tuple[int, ...]:
    """Sorts forests: one with a baseline before one without, most tests first."""
    return forest.base is None, -forest.tested, -len(forest.gains)


def lead_text(forest: Forest) -> str:
    """Who leads, by how much and how sure, and what weakens the leader's score."""
    best = forest.ranked[0]
    weak = str(best.row.weakness([forest.column]))
    return _lead(forest) + f" {best.name.text}: {weak}." * bool(weak)


def _lead(forest: Forest) -> str:
    metric, best = forest.table.metric(forest.column), forest.ranked[0]
    digits, seeds = metric.digits, best.cell.summary.n
    where = f"on {forest.place}, profile {forest.table.profile} ({forest.table.suite} average)"
    if forest.base is None:
        score = fixed(best.cell.summary.mean, digits)
        return (
            f"{best.name} scores best {where}: {score} {metric.title}, {count_of(seeds, 'seed')}; "
            f"no {forest.baseline} run to compare it with."
        )
    if best.kind == "baseline":
        return f"{best.name} leads {where}: nothing scores higher than the baseline{_next(forest)}."
    if best.kind == "untrained":
        by = fixed(best.size, digits)
        return f"No training helps {where}: {best.name} is {by} {metric.title} above {forest.baseline}{_next(forest)}."
    claim = f"{best.name} {'leads' if best.certain else 'has the best mean'} {where}"
    by = f"{fixed(best.size, digits)} {metric.title} better than {forest.baseline}"
    return f"{claim}: {by} ({_sure(forest, best)}){_next(forest)}."


def _sure(forest: Forest, best: Gain) -> str:
    """What the test of the leader against the baseline says."""
    assert forest.base
    n, m = best.cell.summary.n, forest.base.cells[forest.column].summary.n
    seeds = f"{count_of(n, 'seed')} each" if n == m else f"{n} and {count_of(m, 'seed')}"
    if min(n, m) < FEWEST_SEEDS:
        return f"not tested: {seeds}, and a test needs {FEWEST_SEEDS}"
    digits = forest.table.metric(forest.column).digits
    interval = f"95 % interval {fixed(best.low, digits)} to {fixed(best.high, digits)}"
    said = certainty(best.cell) if best.certain else judged(best.cell)
    return f"{interval}, {said or 'not tested'}, {seeds}"


def _next(forest: Forest) -> str:
    """How far the next trained variant is behind the first row, and whether a test tells them apart."""
    first, rest = forest.ranked[0], [gain for gain in forest.ranked[1:] if gain.row.is_trained]
    metric = forest.table.metric(forest.column)
    above = forest.gains[: forest.gains.index(first)]
    at = "".join(
        f"; {gain.name}, at another pooling, is {fixed(gain.size - first.size, metric.digits)} above" for gain in above
    )
    if not rest:
        return at
    other = rest[0]
    test = compare(first.cell, other.cell, metric).test
    sure = f", {p_value(test.p)}" if test and first.row.is_trained else ""
    return f"; next is {other.name}, {fixed(first.size - other.size, metric.digits)} behind{sure}{at}"


def _forest(table: SummaryTable, block: Block, column: Column) -> Forest:
    metric = table.metric(column)
    rows = [row for row in block.rows if column in row.cells]
    base = main_baseline(block, column)
    base = base if len([row for row in rows if row.is_trained]) > 1 else None
    if base is None:
        found = [_score(block, row, row.cells[column], 1 if metric.larger_is_better else -1) for row in rows]
    else:
        pairs = ((row, _baseline_of(block, row, base)) for row in rows)
        found = [_gain(block, row, other, column, metric) for row, other in pairs if other and column in other.cells]
    return Forest(table, block, column, base, tuple(sorted(found, key=lambda gain: -gain.size)))


def main_baseline(block: Block, column: Column) -> Row | None:
    """The baseline's row without overrides, or else its first one; None where it has no score in a column."""
    found = [row for row in block.rows if block.is_baseline(row) and column in row.cells]
    return min(found, key=lambda row: bool(row.label.overrides), default=None)


def _baseline_of(block: Block, row: Row, base: Row) -> Row | None:
    """The row that another is compared with: one of the baseline itself and the untrained encoder with the baseline."""
    return base if block.is_baseline(row) or not row.is_trained else block.baseline(row.label)


def _score(block: Block, row: Row, cell: Cell, sign: int) -> Gain:
    size, interval = sign * cell.summary.mean, mean_interval(cell.summary)
    low, high = sorted((sign * interval.low, sign * interval.high)) if interval else (size, size)
    return Gain(row, cell, size, low, high, "not tested" if row.is_trained else _untrained(block, row))


def _untrained(block: Block, row: Row) -> GainKind:
    return "untrained" if has_trained_pooling(block, row) else "other pooling"


def _gain(block: Block, row: Row, base: Row, column: Column, metric: Metric) -> Gain:
    cell, other = row.cells[column], base.cells[column]
    sign = 1 if metric.larger_is_better else -1
    size, test = sign * (cell.summary.mean - other.summary.mean), cell.test
    if not row.is_trained:  # one number without spread: the interval is that of the baseline
        test = paired_t_test([cell.summary.mean] * other.summary.n, other.values) if other.summary.n > 2 else None
        kind = _untrained(block, row)
    elif row.data == base.data:
        kind, test = "baseline", None
    elif test is None:  # the baseline with other values has an interval, which no verdict follows
        kind, test = "not tested", compare(cell, other, metric).test
    else:
        kind = _KINDS[cell.verdict or Significance.NONE]
    low, high = sorted((sign * test.low, sign * test.high)) if test else (size, size)
    return Gain(row, cell, size, low, high, kind, cell.holds and row.is_trained)
