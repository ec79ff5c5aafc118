"""The untrained encoder beside the variants that were trained from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.formatting import count_of
from harness.metrics import Column
from harness.reporting.seeds.groups import Cell
from harness.reporting.seeds.sentences import Sentence
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.tables.grids import summary_text
from harness.stats import ALPHA, FEWEST_SEEDS, holm, paired_t_test

#: more variants than these are counted, not named
MOST_NAMES = 5


def untrained_sentences(table: SummaryTable, block: Block) -> Iterator[Sentence]:
    """Compare the best untrained row of a block with its trained rows on the suite's average.

    Nothing is said where the suite has several averages, or of one where smaller is better.
    """
    columns = table.averages
    if len(columns) != 1 or not table.metric(columns[0]).larger_is_better:
        return
    (column,) = columns
    trained, untrained = ([row for row in rows if column in row.cells] for rows in (block.trained, block.untrained))
    if not trained or not untrained:
        return
    best = max(untrained, key=lambda row: row.cells[column].summary.mean)
    place = f"{block.setting} / {block.encoder}, profile {table.profile}"
    yield _sentence(place, table, column, best, trained)


def _sentence(place: str, table: SummaryTable, column: Column, best: Row, trained: Sequence[Row]) -> Sentence:
    metric, bar = table.metric(column), best.cells[column].summary.mean
    behind = [row for row in trained if row.cells[column].summary.mean < bar]
    top = max(trained, key=lambda row: row.cells[column].summary.mean)
    scores = (
        f"untrained {summary_text(best.cells[column].summary, metric.digits)} ({best.label.name}), best trained "
        f"{summary_text(top.cells[column].summary, metric.digits)} ({top.label.name}), {metric.title}, "
        f"{table.suite} average"
    )
    if not behind:
        return Sentence(place, f"Every trained variant beats the untrained encoder: {scores}.", "note")
    certain, few = _certain([row.cells[column] for row in trained], bar)
    count = count_of(len(trained), "trained variant")
    every = f"all {count}" if len(trained) > 1 else "the one trained variant"
    many = every if len(behind) == len(trained) else f"{len(behind)} of {count}"
    names = f": {'; '.join(str(row.label.name) for row in behind)}" if len(behind) <= MOST_NAMES else ""
    tests = [f"{certain or 'none'} significantly, one-sample t-tests with Holm's correction"] * (few < len(trained))
    tests += [f"{few} with too few seeds to test"] * (few > 0)
    text = f"The untrained encoder beats {many}{names} ({'; '.join(tests)}): {scores}."
    return Sentence(place, text, "untrained" if certain else "untested" if few else "even")


def _certain(cells: Sequence[Cell], bar: float) -> tuple[int, int]:
    """How many means lie below a number without spread, by t-tests of one sample, and how many are not tested."""
    tests = [paired_t_test(cell.values, [bar] * cell.summary.n) for cell in cells if cell.summary.n >= FEWEST_SEEDS]
    found = [test for test in tests if test]
    adjusted = holm([test.p for test in found])
    below = sum(p < ALPHA and test.difference < 0 for p, test in zip(adjusted, found, strict=True))
    return below, len(cells) - len(found)
