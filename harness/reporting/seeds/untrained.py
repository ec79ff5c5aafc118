"""The untrained encoder beside the variants that were trained from it, at their pooling first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.formatting import count_of
from harness.metrics import Column, Metric
from harness.reporting.seeds.groups import Cell, FamilyTest, Label, compare, corrected
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.seeds.words import Sentence
from harness.reporting.tables.grids import summary_text
from harness.verdicts import Significance

#: more variants than these are counted, not named
MOST_NAMES = 5


def has_trained_pooling(block: Block, row: Row) -> bool:
    """Whether a row pools like most trained rows of a block, of equally many like the first, the baseline."""
    counts = Counter(one.pooling for one in block.trained)
    return not counts or row.pooling == counts.most_common(1)[0][0]


def untrained_tests(block: Block, column: Column, metric: Metric, untrained: Row) -> Mapping[Label, Cell]:
    """The trained rows of a block tested against an untrained one: methods a family, variants another."""
    rows = [row for row in block.trained if column in row.cells]
    against = untrained.cells[column]
    tests = [
        FamilyTest(compare(row.cells[column], against, metric, untrained=True), row.data, row.is_method) for row in rows
    ]
    return {row.label: cell for row, cell in zip(rows, corrected(tests), strict=True)}


def untrained_sentences(table: SummaryTable, block: Block) -> Iterator[Sentence]:
    """Compare the untrained encoder with the trained rows of a block on the suite's average.

    It is read by the pooling of the trained rows, or else by the best other one. Nothing is said where the suite has
    several averages, or of one where smaller is better.
    """
    columns = table.averages
    if len(columns) != 1 or not table.metric(columns[0]).larger_is_better:
        return
    (column,) = columns
    trained, untrained = ([row for row in rows if column in row.cells] for rows in (block.trained, block.untrained))
    if not trained or not untrained:
        return
    ranked = sorted(untrained, key=lambda row: -row.cells[column].summary.mean)
    bar = next((row for row in ranked if has_trained_pooling(block, row)), ranked[0])
    yield _sentence(table, block, column, bar, trained, [row for row in ranked if row is not bar])


def _sentence(
    table: SummaryTable, block: Block, column: Column, bar: Row, trained: Sequence[Row], others: Sequence[Row]
) -> Sentence:
    metric, mean = table.metric(column), bar.cells[column].summary.mean
    place = f"{block.setting} / {block.encoder}, profile {table.profile}"
    tests = untrained_tests(block, column, metric, bar)
    behind = [row for row in trained if row.cells[column].summary.mean < mean]
    top = max(trained, key=lambda row: row.cells[column].summary.mean)
    pooling = "" if has_trained_pooling(block, bar) else ", at another pooling than the trained"
    scores = (
        f"untrained {_score(bar, column, metric)}{pooling}, best trained {_score(top, column, metric)}, "
        f"{metric.title}, {table.suite} average"
    )
    above = [row for row in others if row.cells[column].summary.mean > top.cells[column].summary.mean]
    listed = "; ".join(_score(row, column, metric) for row in above)
    more = f" At another pooling, the untrained encoder is ahead of all: {listed}." if above else ""
    if not behind:
        return Sentence(place, f"Every trained variant beats the untrained encoder: {scores}.{more}", "note")
    few = sum(cell.test is None for cell in tests.values())
    certain = sum(cell.holds and cell.verdict is Significance.WORSE for cell in tests.values())
    count = count_of(len(trained), "trained variant")
    every = f"all {count}" if len(trained) > 1 else "the one trained variant"
    many = every if len(behind) == len(trained) else f"{len(behind)} of {count}"
    names = f": {'; '.join(str(row.label.name) for row in behind)}" if len(behind) <= MOST_NAMES else ""
    said = [f"{certain or 'none'} significantly, one-sample t-tests with Holm's correction"] * (few < len(trained))
    said += [f"{few} with too few seeds to test"] * (few > 0)
    text = f"The untrained encoder beats {many}{names} ({'; '.join(said)}): {scores}.{more}"
    return Sentence(place, text, "untrained" if certain else "untested" if few else "even")


def _score(row: Row, column: Column, metric: Metric) -> str:
    return f"{summary_text(row.cells[column].summary, metric.digits)} ({row.label.name})"
