"""The untrained encoder beside the variants that were trained from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.formatting import count_of
from harness.metrics import AVERAGE, Column
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
    columns = [column for column in table.columns if column.task == AVERAGE]
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
    scores = f"{best.label} scores {summary_text(best.cells[column].summary, metric.digits)} {metric.title}"
    ahead = f"{top.label} {summary_text(top.cells[column].summary, metric.digits)}"
    if not behind:
        text = f"Every trained variant is ahead of the untrained encoder: {scores}, {ahead} ({table.suite} average)."
        return Sentence(place, text, "note")
    certain, few = _certain([row.cells[column] for row in trained], bar)
    every = "every one" if len(behind) == len(trained) else str(len(behind))
    names = f": {', '.join(str(row.label) for row in behind)}" if len(behind) <= MOST_NAMES else ""
    tests = [f"{certain or 'none'} significantly, one-sample t-tests with Holm's correction"] * (few < len(trained))
    tests += [f"{few} with too few seeds to test"] * (few > 0)
    text = (
        f"The untrained encoder is ahead of {every} of {count_of(len(trained), 'trained variant')}{names} "
        f"({'; '.join(tests)}). {scores}, the best trained one, {ahead} ({table.suite} average)."
    )
    return Sentence(place, text, "untrained" if certain or few else "even")


def _certain(cells: Sequence[Cell], bar: float) -> tuple[int, int]:
    """How many means lie below a number without spread, by t-tests of one sample, and how many are not tested."""
    tests = [paired_t_test(cell.values, [bar] * cell.summary.n) for cell in cells if cell.summary.n >= FEWEST_SEEDS]
    found = [test for test in tests if test]
    adjusted = holm([test.p for test in found])
    below = sum(p < ALPHA and test.difference < 0 for p, test in zip(adjusted, found, strict=True))
    return below, len(cells) - len(found)
