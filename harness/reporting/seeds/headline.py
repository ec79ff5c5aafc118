"""What is true of the results, in plain sentences computed from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.formatting import count_of, fixed, p_value
from harness.metrics import AVERAGE, Column
from harness.reporting.formats import digits_of, summary_text
from harness.reporting.seeds.summary import BASELINE, SMALLER_IS_BETTER, Block, Cell, Row, SummaryTable, compare
from harness.reporting.tables.cells import FilledTable
from harness.spec import UNTRAINED, SpecError, Variant
from harness.stats import ALPHA

#: Feature options that deal a method its pictures (or sounds) wrongly on purpose.
SCRAMBLED = ("shuffled", "random")
#: a row alone with more metrics than these is left to its table: a sentence of six recalls says nothing
MOST_METRICS = 2
_UNITS = {"spearman": "points of Spearman", "pearson": "points of Pearson"}


@dataclass(frozen=True)
class Sentence:
    """A true sentence about a `place` (setting, encoder and profile, or a paper's table).

    `kind` is better, worse, mixed, even, untested, control or note.
    """

    place: str
    text: str
    kind: str


def headline(tables: Sequence[SummaryTable], papers: Sequence[FilledTable]) -> list[Sentence]:
    """Every comparison with the baseline on the average of each suite, the controls, and what papers are covered.

    Sentences about one place stand together.
    """
    found = [sentence for table in tables for block in table.blocks for sentence in _block(table, block)]
    found += [_coverage(filled) for filled in papers if any(row.seeds for row in filled.planned_rows)]
    places = list(dict.fromkeys(sentence.place for sentence in found))
    found.sort(key=lambda sentence: places.index(sentence.place))
    nothing = "There are no results yet." if not tables else "No suite here has an average to compare."
    return found or [Sentence("", nothing, "note")]


def _block(table: SummaryTable, block: Block) -> Iterator[Sentence]:
    place = f"{block.setting} / {block.encoder}, profile {table.profile}"
    columns = [column for column in table.columns if column.task == AVERAGE]
    for row in block.rows:
        mine = [column for column in columns if column in row.cells]
        if not mine or (row.is_baseline and len(block.rows) > 1):
            continue
        base = block.baseline(row.label)
        both = [column for column in mine if base and column in base.cells]
        if base is None or not both:
            if len(mine) <= MOST_METRICS:
                yield Sentence(place, _alone(table, row, mine), "note")
        elif len(both) > 1 or both[0].metric in SMALLER_IS_BETTER:
            yield Sentence(place, _several(table, row, base, both), _kinds([row.cells[column] for column in both]))
        else:
            yield Sentence(place, f"{_comparison(table, row, base, both[0])}.", _kinds([row.cells[both[0]]]))
            control = _control(table, block, row, both[0])
            if control:
                yield Sentence(place, control, "control")


def _kinds(cells: Sequence[Cell]) -> str:
    if all(cell.test is None for cell in cells):
        return "untested"
    verdicts = {cell.verdict for cell in cells} - {None}
    return "mixed" if len(verdicts) > 1 else str(next(iter(verdicts), "even"))


def _alone(table: SummaryTable, row: Row, columns: Sequence[Column]) -> str:
    scores = [f"{summary_text(row.cells[at].summary, digits_of(at.metric))} {_unit(at)}" for at in columns]
    seeds = count_of(max(row.cells[column].summary.n for column in columns), "seed")
    reason = f"; there is no {BASELINE} beside it to compare with"
    if row.label.setting == UNTRAINED or row.is_baseline:
        reason = ", not trained" if row.label.setting == UNTRAINED else ""
    return f"{row.label} has {' and '.join(scores)} on the average of {table.suite} ({seeds}){reason}."


def _several(table: SummaryTable, row: Row, base: Row, columns: Sequence[Column]) -> str:
    """One row against the baseline in several metrics."""
    parts = []
    for column in columns:
        cell, against = row.cells[column], base.cells[column]
        difference = cell.summary.mean - against.summary.mean
        good = (difference < 0) == (column.metric in SMALLER_IS_BETTER)
        side = f"{'lower' if difference < 0 else 'higher'} ({'better' if good else 'worse'}"
        sure = f", {p_value(cell.test.p)}" if cell.test else ""
        doubt = ", not significant" if cell.test and cell.verdict is None else ""
        parts.append(f"{_unit(column)} {fixed(abs(difference), digits_of(column.metric))} {side}{doubt}{sure})")
    seeds = _seeds(row.cells[columns[0]], base.cells[columns[0]])
    return f"{row.label} against {base.label} on the average of {table.suite}: {', '.join(parts)}; {seeds}."


def _unit(column: Column) -> str:
    return _UNITS.get(column.metric, column.metric)


def _comparison(table: SummaryTable, row: Row, other: Row, column: Column, cell: Cell | None = None) -> str:
    """One row against another: direction, size, where, and how sure. `cell` carries the test."""
    cell, against = cell or row.cells[column], other.cells[column]
    digits, difference = digits_of(column.metric), cell.summary.mean - against.summary.mean
    where = f"on the average of {table.suite}"
    size = fixed(abs(difference), digits)
    side = "above" if difference > 0 else "below"
    claim = f"{row.label} is {side} {other.label} by {size} {_unit(column)} {where}"
    if float(size) == 0:
        claim = f"{row.label} and {other.label} are level, {size} {_unit(column)} apart {where}"
    return claim + _certainty(cell, against, digits)


def _certainty(cell: Cell, against: Cell, digits: int) -> str:
    seeds, test = _seeds(cell, against), cell.test
    if test is None:
        return f" ({seeds})"
    verdict = "" if cell.verdict else ", not significant"
    interval = f"95 % interval of the difference {fixed(test.low, digits)} to {fixed(test.high, digits)}"
    return f"{verdict} ({seeds}, {p_value(test.p)}, {interval})"


def _seeds(cell: Cell, against: Cell) -> str:
    n, m = cell.summary.n, against.summary.n
    seeds = f"{count_of(n, 'seed')} each" if n == m else f"{n} and {count_of(m, 'seed')}"
    return seeds if cell.test else f"{seeds}: too few to test"


def _control(table: SummaryTable, block: Block, row: Row, column: Column) -> str | None:
    """A scrambled variant against the same variant with its true features."""
    full = _unscrambled(block, row)
    if full is None or column not in full.cells:
        return None
    cell = compare(row.cells[column], full.cells[column], column)
    if cell.verdict == "worse":
        gained = full.cells[column].verdict == "better"
        meaning = "; the gain needs the right features" if gained else "; the right features matter"
    elif cell.verdict == "better":
        meaning = "; the scrambled features do better than the right ones"
    else:
        meaning = "" if cell.test is None else "; nothing shows that the right features matter"
    return f"Control: {_comparison(table, row, full, column, cell)}{meaning}."


def _unscrambled(block: Block, row: Row) -> Row | None:
    try:
        variant = Variant.parse(row.label.variant)
    except SpecError:
        return None
    options = {key: value for key, value in variant.options if value not in SCRAMBLED}
    if len(options) == len(variant.options):
        return None
    wanted = row.label._replace(variant=str(Variant.make(variant.name, options, variant.reading)))
    return next((other for other in block.rows if other.label == wanted), None)


def _coverage(filled: FilledTable) -> Sentence:
    to_measure = filled.planned_rows
    tests = [cell.test for row in to_measure for cell in row.cells.values() if cell.test]
    off = sum(test.p < ALPHA for test in tests)
    text = f"{sum(row.seeds > 0 for row in to_measure)} of {len(to_measure)} rows are measured"
    if tests:
        text += f"; of {count_of(len(tests), 'cell')} that can be tested {off} differ from print (p < {ALPHA})"
    return Sentence(f"{filled.paper.name}, table {filled.name.removeprefix('T')}", text + ".", "note")
