"""Each variant's gain over the baseline of its setting and encoder, best first, and the sentences
on gains.

The untrained encoder is shown with the variants trained from it, preferably with their pooling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import count_of, fixed, interval_text
from harness.method.naming import VariantName, name_of
from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.caveats import freshness_notes, weakness_notes
from harness.reporting.seeds.cells import (
    Cell,
    Label,
    Row,
    compared,
    contrast,
    difference,
    trained_apart,
)
from harness.reporting.seeds.controls import (
    UNMATCHED,
    control_text,
    missing_controls,
    rival_text,
    rivals,
)
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import Sentence, certainty, judged, suite_title
from harness.reporting.tables.grids import summary_text
from harness.stats import FEWEST_SEEDS, Interval, TTest, mean_interval

#: more variants than these are counted, not named
MOST_NAMES = 5


def has_trained_pooling(block: Block, row: Row) -> bool:
    """Whether a row has the pooling of most trained rows of a block; in a tie, the pooling of the
    first row counts.
    """
    counts = Counter(row.pooling for row in block.trained)
    return not counts or row.pooling == counts.most_common(1)[0][0]


def untrained_tests(
    block: Block, column: Column, metric: Metric, untrained: Row
) -> Iterator[tuple[Row, Row, Cell]]:
    """The trained rows of a block tested against an untrained one: methods are one family, variants
    another.
    """
    pairs = [(row, untrained) for row in block.trained if column in row.cells]
    return compared(pairs, column, metric, block.points)


def untrained_texts(forest: Forest) -> Iterator[str]:
    """Compare the untrained encoder with the trained rows of a block on the suite's average.

    The encoder is read at its best pooling. Yields nothing if the suite has several averages, or if
    smaller is better.
    """
    block, column = forest.block, forest.column
    if forest.table.averages != [column] or not forest.metric.larger_is_better:
        return
    trained, untrained = (
        [row for row in rows if column in row.cells] for rows in (block.trained, block.untrained)
    )
    if not trained or not untrained:
        return
    yield _untrained_text(
        forest, max(untrained, key=lambda row: row.cells[column].summary.mean), trained
    )


def _untrained_text(forest: Forest, untrained: Row, trained: Sequence[Row]) -> str:
    block, column, metric = forest.block, forest.column, forest.metric

    def mean(row: Row) -> float:
        return row.cells[column].summary.mean

    def scored(row: Row) -> str:
        return f"{summary_text(row.cells[column].summary, metric.digits)} ({row.label.name})"

    behind, top = [row for row in trained if mean(row) < mean(untrained)], max(trained, key=mean)
    pooling = (
        "" if has_trained_pooling(block, untrained) else ", at another pooling than the trained"
    )
    where = f"{metric.title}, {suite_title(forest.table.suite)} average"
    scores = f"untrained {scored(untrained)}{pooling}, best trained {scored(top)}, {where}"
    if not behind:
        return f"Every trained variant beats the untrained encoder: {scores}."
    tests = [cell for _, _, cell in untrained_tests(block, column, metric, untrained)]
    few = sum(cell.test is None for cell in tests)
    certain = sum(cell.holds and cell.verdict is Significance.WORSE for cell in tests)
    count = count_of(len(trained), "trained variant")
    every = f"all {count}" if len(trained) > 1 else "the one trained variant"
    many = every if len(behind) == len(trained) else f"{len(behind)} of {count}"
    names = (
        f": {'; '.join(str(row.label.name) for row in behind)}" if len(behind) <= MOST_NAMES else ""
    )
    said = [f"{certain or 'none'} significantly, one-sample t-tests with Holm's correction"] * (
        few < len(trained)
    )
    said += [f"{few} with too few seeds to test"] * (few > 0)
    return f"The untrained encoder beats {many}{names} ({'; '.join(said)}): {scores}."


@dataclass(frozen=True)
class Gain:
    """A row of a forest: a variant's gain over the baseline, positive if the variant is better.

    `low` and `high` are the ends of the 95 % interval, equal to `size` where there is none. `kind`
    is the verdict before correction, or why there is none.
    """

    row: Row
    cell: Cell
    size: float
    low: float
    high: float
    kind: str

    @property
    def name(self) -> VariantName:
        return self.row.label.name


@dataclass(frozen=True)
class Forest:
    """The rows of one setting and encoder against their baseline in one column, best first.

    Without a baseline, `base` is None and sizes are the scores themselves, with the sign of the
    better direction.
    """

    table: SummaryTable
    block: Block
    column: Column
    base: Row | None
    gains: tuple[Gain, ...]

    @property
    def metric(self) -> Metric:
        return self.table.metric(self.column)

    @property
    def place(self) -> str:
        return self.block.place

    @cached_property
    def rows(self) -> Mapping[Label, Row]:
        """All rows of its table, among which are the controls of its own."""
        return {row.label: row for row in self.table.rows}

    def tested(self, row: Row, other: Row) -> Cell:
        """A row tested against another one in the forest's column, alone."""
        return contrast(row, other, self.column, self.metric, self.block.points)

    @property
    def baseline(self) -> VariantName:
        """The baseline's name, whether it has runs or not."""
        return self.base.label.name if self.base else name_of(self.block.base)

    @property
    def notes(self) -> list[str]:
        return list(weakness_notes(gain.row.weakness([self.column]) for gain in self.gains))


def forests(table: SummaryTable, column: Column | None = None, fewest: int = 2) -> list[Forest]:
    """A forest for each setting and encoder of a table with at least the `fewest` rows in a column.

    The column is by default the first average that is judged.
    """
    column = column or next(iter(table.averages), None)
    if column is None:
        return []
    every = (
        _forest(table, block, column) for block in table.blocks if block.trained or fewest == 1
    )
    return [forest for forest in every if len(forest.gains) >= fewest]


def importance(forest: Forest) -> tuple[int, ...]:
    """The sort key of forests: those with a baseline first, then those with most tests."""
    tested = sum(gain.cell.test is not None for gain in forest.gains)
    return forest.base is None, -tested, -len(forest.gains)


def methods(forest: Forest) -> list[Gain]:
    """The methods themselves, best first, without their variants; where a method has variants only,
    its best one.
    """
    gains: dict[str, Gain] = {}
    for gain in forest.gains:
        if gain.row.is_trained:
            name = gain.row.label.method
            if name not in gains or (gain.row.is_method and not gains[name].row.is_method):
                gains[name] = gain
    return sorted(gains.values(), key=lambda gain: -gain.size)


def _forest(table: SummaryTable, block: Block, column: Column) -> Forest:
    metric = table.metric(column)
    rows = [row for row in block.rows if column in row.cells]
    base = main_baseline(block, column) if sum(row.is_trained for row in rows) > 1 else None
    gains = []
    for row in rows:
        # rows of the baseline itself and of the untrained encoder are compared with the main
        # baseline
        other = base if block.is_baseline(row) or not row.is_trained else block.baseline(row.label)
        if base is None or (other and column in other.cells):
            gains.append(_gain(block, row, other if base else None, column, metric))
    return Forest(table, block, column, base, tuple(sorted(gains, key=lambda gain: -gain.size)))


def main_baseline(block: Block, column: Column) -> Row | None:
    """The baseline's row without overrides, or else its first one; None where it has no score in a
    column.
    """
    baselines = [row for row in block.rows if block.is_baseline(row) and column in row.cells]
    return min(baselines, key=lambda row: bool(row.label.overrides), default=None)


def _gain(block: Block, row: Row, base: Row | None, column: Column, metric: Metric) -> Gain:
    """The gain of a row over a baseline; without one, its score."""
    cell, sign = row.cells[column], 1 if metric.larger_is_better else -1
    size = cell.summary.mean
    ends: TTest | Interval | None = None
    kind = (
        "not tested"
        if row.is_trained
        else "untrained"
        if has_trained_pooling(block, row)
        else "other pooling"
    )
    if base is None:
        ends = mean_interval(cell.summary)
    elif row.data == base.data:
        size, kind = difference(cell, base.cells[column]), "baseline"
    else:  # without a verdict, such as the baseline with `--set` values, there is an interval still
        size, ends = (
            difference(cell, base.cells[column]),
            cell.test or contrast(row, base, column, metric).test,
        )
        kind = str(cell.verdict or Significance.NONE) if cell.test else kind
    low, high = sorted((sign * ends.low, sign * ends.high)) if ends else (sign * size, sign * size)
    return Gain(row, cell, sign * size, low, high, kind)


def lacking(forest: Forest, commands: Commands) -> Iterator[tuple[str, str]]:
    """The controls of the leader that were not run, and the commands that run them."""
    for best in methods(forest)[:1]:
        yield from missing_controls(best.row, forest.rows, forest.column, commands)


def headline(forest: Forest, commands: Commands = DEFAULT_COMMANDS) -> list[Sentence]:
    """The sentences of a leaderboard: on the leader, the untrained encoder, controls, and stale or
    incomplete runs.
    """
    stale = freshness_notes(row.weakness() for row in forest.block.rows)
    missing = [
        f"Control missing: {what}; run `{command}`." for what, command in lacking(forest, commands)
    ]
    texts = (lead_text(forest), *missing, *untrained_texts(forest), *_unmatched(forest), *stale)
    return [Sentence(f"{forest.place}, profile {forest.table.profile}", text) for text in texts]


def lead_text(forest: Forest) -> str:
    """The leader against the next method, with the result of their test; fewer than three seeds
    support no claim.
    """
    where = f"on {forest.place}, profile {forest.table.profile} ({suite_title(forest.table.suite)} average)"
    ranked = methods(forest)
    if not ranked:
        return f"No method has been trained {where}."
    best, *others = ranked
    score = _scored(forest, best)
    weak = str(best.row.weakness([forest.column]))
    weak = f" {best.name.text}: {weak}." * bool(weak)
    controls = rivals(best.row, forest.rows, forest.column, forest.metric)
    explained = control_text(controls, best.row, forest.metric)
    if not others:
        return f"{best.name} scores {score} {where}; no other method has been run there.{explained}{weak}"
    following = others[0]
    if min(best.cell.summary.n, following.cell.summary.n) < FEWEST_SEEDS:
        few = f"fewer than {FEWEST_SEEDS} seeds each, too few to compare"
        return f"{best.name} scores {score} {where}, {following.name} {_scored(forest, following)}: {few}.{weak}"
    if best.row.data == following.row.data:
        return f"{best.name} and {following.name} have the same scores {where}: {score}.{weak}"
    base = next(
        (entry for entry in ranked if entry.row == forest.block.baseline(best.row.label)), None
    )
    cell = best.cell if base is following else forest.tested(best.row, following.row)
    said = _against(forest, best, following, cell)
    if base and base is not following:
        said += f"; {_against(forest, best, base, best.cell)}"
    confounded = any(rival.confounds for rival in controls)
    if not confounded and controls and controls[0].row in (following.row, base and base.row):
        explained = ""  # said already
    claim = "leads" if cell.holds and not confounded else "has the best mean"
    return f"{best.name} {claim} {where} with {score}: {said}.{explained}{weak}"


def _scored(forest: Forest, gain: Gain) -> str:
    summary = gain.cell.summary
    return f"{summary_text(summary, forest.metric.digits)} {forest.metric.title} ({count_of(summary.n, 'seed')})"


def _against(forest: Forest, best: Gain, other: Gain, cell: Cell) -> str:
    """`0.29 better than DALR, the next method (95 % interval ..., p = ...)`."""
    digits, test = forest.metric.digits, cell.test
    size = fixed(abs(difference(cell, other.cell)), digits)
    role = "the baseline" if other.kind == "baseline" else "the next method"
    if test is None:
        return f"{size} better than {other.name}, {role}"
    low, high = sorted((test.low, test.high) if test.difference > 0 else (-test.low, -test.high))
    sure = certainty(cell) if cell.holds else judged(cell, digits)
    sure += "" if cell.corrected else " in a test of the two alone"
    interval = f"95 % interval {interval_text(low, high, digits)}"
    apart = trained_apart(best.row.training, other.row.training)
    apart = f", trained with {apart}" if apart else ""
    return f"{size} better than {other.name}, {role} ({interval}, {sure}{apart})"


def _unmatched(forest: Forest) -> Iterator[str]:
    """Each variant against itself with images that do not match."""
    for gain in forest.gains:
        for rival in rivals(gain.row, forest.rows, forest.column, forest.metric):
            if rival.control.what != UNMATCHED:
                continue
            meaning = "; no evidence that matching features matter" if rival.tested.test else ""
            if rival.tested.verdict is Significance.BETTER:
                gained = gain.cell.verdict is Significance.BETTER
                meaning = (
                    "; the gain depends on matching features"
                    if gained
                    else "; matching features matter"
                )
            elif rival.tested.verdict is Significance.WORSE:
                meaning = "; scrambled features do better than matching ones"
            yield f"Control: {rival_text(rival, gain.row, forest.metric)}{meaning}."
