"""The main results in sentences computed from the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.formatting import count_of, fixed, points
from harness.method.naming import name_of
from harness.metrics import Column
from harness.reporting.seeds.groups import Cell, compare, trained_apart
from harness.reporting.seeds.summary import Block, Row, SummaryTable
from harness.reporting.seeds.untrained import untrained_sentences
from harness.reporting.seeds.words import Sentence, SentenceKind, certainty, judged
from harness.reporting.tables.cells import FilledTable
from harness.reporting.tables.grids import summary_text
from harness.spec import CONTROLS, SpecError, Variant
from harness.verdicts import Agreement, Significance

#: a row without a baseline gets a sentence only up to this number of metrics
MOST_METRICS = 2
#: the suite whose findings come before those of all others
FIRST = "sts"
#: the kinds of sentences, the most important first
_RANK: tuple[SentenceKind, ...] = (
    *("untrained", "better", "worse", "mixed", "control"),
    *("alone", "even", "untested", "note"),
)


def headline(tables: Sequence[SummaryTable], papers: Sequence[FilledTable]) -> list[Sentence]:
    """Describe every comparison with the baseline on a suite's average, the controls, and the papers' coverage.

    Stale and incomplete rows come first, then findings on STS, notes last; of each suite the most important kinds: an
    untrained encoder ahead of trained ones, then what is significant.
    """

    def place(said: tuple[str, Sentence]) -> tuple[object, ...]:
        suite, sentence = said
        return sentence.kind == "note", suite != FIRST, _RANK.index(sentence.kind), -sentence.weight

    blocks = [(table, block) for table in tables for block in table.blocks]
    said = [(table.suite, sentence) for table, block in blocks for sentence in untrained_sentences(table, block)]
    said += [(table.suite, sentence) for table, block in blocks for sentence in _block(table, block)]
    found = [
        Sentence(f"{table.suite}, profile {table.profile}", note, "note") for table in tables for note in table.stale
    ]
    found += [sentence for _, sentence in sorted(said, key=place)]
    found += [_coverage(filled) for filled in papers if any(row.own.seeds for row in filled.planned_rows)]
    nothing = "No suite has an average to compare." if tables else "No results yet."
    return found or [Sentence("", nothing, "note")]


def _block(table: SummaryTable, block: Block) -> Iterator[Sentence]:
    place = f"{block.setting} / {block.encoder}, profile {table.profile}"
    columns = table.averages
    trained = block.trained
    for row in trained or block.rows:
        mine = [column for column in columns if column in row.cells]
        if not mine or (block.is_baseline(row) and len(trained) > 1):
            continue
        base = block.baseline(row.label)
        both = [column for column in mine if base and column in base.cells]
        if base is None or not both:
            if len(mine) <= MOST_METRICS:
                yield Sentence(place, _uncompared(table, block, row, mine) + _weak(row, mine), "note")
        elif len(both) > 1 or not table.metric(both[0]).larger_is_better:
            cells = [row.cells[column] for column in both]
            yield Sentence(place, _several(table, row, base, both) + _weak(row, both), _kind(cells), _weight(cells))
        else:
            cell = row.cells[both[0]]
            yield Sentence(
                place,
                f"{_comparison(table, row, base, both[0], cell)}.{_weak(row, both)}",
                _kind([cell]),
                _weight([cell]),
            )
            full = _unscrambled(block, row)
            if full and both[0] in full.cells:
                yield Sentence(place, _control(table, row, full, both[0]), "control")


def _kind(cells: Sequence[Cell]) -> SentenceKind:
    if all(cell.test is None for cell in cells):
        return "untested"
    verdicts = {cell.verdict for cell in cells if cell.holds}
    if not verdicts:
        return "alone" if any(cell.is_alone for cell in cells) else "even"
    return "mixed" if len(verdicts) > 1 else "better" if Significance.BETTER in verdicts else "worse"


def _weight(cells: Sequence[Cell]) -> float:
    return max((abs(cell.test.statistic) for cell in cells if cell.test), default=0.0)


def _weak(row: Row, columns: Sequence[Column]) -> str:
    """A sentence on what weakens a row's scores."""
    weak = str(row.weakness(columns))
    return f" {row.label.name.text}: {weak}." * bool(weak)


def _uncompared(table: SummaryTable, block: Block, row: Row, columns: Sequence[Column]) -> str:
    """The scores of a row that has no baseline."""
    metrics = [(row.cells[column], table.metric(column)) for column in columns]
    scores = " and ".join(f"{summary_text(cell.summary, metric.digits)} {metric.title}" for cell, metric in metrics)
    seeds = count_of(max(cell.summary.n for cell, _ in metrics), "seed")
    reason = "" if block.is_baseline(row) else f"; not compared, no {name_of(block.base)} run"
    reason = reason if row.is_trained else "; not trained"
    return f"{row.label.name} scores {scores} ({table.suite} average, {seeds}){reason}."


def _several(table: SummaryTable, row: Row, base: Row, columns: Sequence[Column]) -> str:
    """One row against the baseline in several metrics."""
    parts = []
    for column in columns:
        cell, metric = row.cells[column], table.metric(column)
        difference = cell.summary.mean - base.cells[column].summary.mean
        gained = (difference > 0) == metric.larger_is_better
        side = f"{'lower' if difference < 0 else 'higher'} ({'better' if gained else 'worse'}"
        certain = f", {certainty(cell) if cell.holds else judged(cell)}" if cell.test else ""
        parts.append(f"{metric.title} {fixed(abs(difference), metric.digits)} {side}{certain})")
    seeds = _seeds(row.cells[columns[0]], base.cells[columns[0]])
    apart = trained_apart(row.training, base.training)
    seeds += f"; trained with {apart}" if apart else ""
    return f"{row.label.name} against {base.label.name} ({table.suite} average): {', '.join(parts)}; {seeds}."


def _comparison(table: SummaryTable, row: Row, other: Row, column: Column, cell: Cell) -> str:
    """Compare two rows in one metric: direction, size and certainty. `cell` is the row's, tested against the other."""
    metric, against = table.metric(column), other.cells[column]
    difference = cell.summary.mean - against.summary.mean
    size = fixed(abs(difference), metric.digits)
    if float(size) == 0:
        claim = f"{row.label.name} and {other.label.name} differ by {size} {metric.title}"
    elif cell.holds:
        claim = (
            f"{row.label.name} {'beats' if difference > 0 else 'trails'} {other.label.name} by {size} {metric.title}"
        )
    else:
        side = "higher" if difference > 0 else "lower"
        claim = f"{row.label.name} scores {size} {metric.title} {side} than {other.label.name}"
    details = [f"{table.suite} average", _seeds(cell, against)]
    if cell.test:
        low, high = fixed(cell.test.low, metric.digits), fixed(cell.test.high, metric.digits)
        details += [certainty(cell) if cell.holds else judged(cell), f"95 % interval {low} to {high}"]
    apart = trained_apart(row.training, other.training)
    details += [f"trained with {apart}"] if apart else []
    return f"{claim} ({', '.join(details)})"


def _seeds(cell: Cell, against: Cell) -> str:
    n, m = cell.summary.n, against.summary.n
    seeds = f"{count_of(n, 'seed')} each" if n == m else f"{n} and {count_of(m, 'seed')}"
    if cell.values == against.values:
        return f"{seeds}, the same scores"
    return seeds if cell.test else f"{seeds}: {Agreement.TOO_FEW} to test"


def _control(table: SummaryTable, row: Row, full: Row, column: Column) -> str:
    """A variant with scrambled features against the same variant with matching ones."""
    cell = compare(row.cells[column], full.cells[column], table.metric(column))
    if cell.verdict is Significance.WORSE:
        gained = full.cells[column].verdict is Significance.BETTER
        meaning = "; the gain depends on matching features" if gained else "; matching features matter"
    elif cell.verdict is Significance.BETTER:
        meaning = "; scrambled features do better than matching ones"
    else:
        meaning = "; no evidence that matching features matter" if cell.test else ""
    return f"Control: {_comparison(table, row, full, column, cell)}{meaning}."


def _unscrambled(block: Block, row: Row) -> Row | None:
    try:
        variant = Variant.parse(row.label.variant)
    except SpecError:
        return None
    options = {key: value for key, value in variant.options if value not in CONTROLS}
    if len(options) == len(variant.options):
        return None
    wanted = row.label._replace(variant=str(Variant.make(variant.name, options, variant.reading)))
    return block.by_label.get(wanted)


def _coverage(filled: FilledTable) -> Sentence:
    rows = filled.planned_rows
    text = f"{sum(row.own.seeds > 0 for row in rows)} of {len(rows)} rows measured"
    judged = (cell.judgement.verdict for row in rows for cell in row.own.cells.values() if cell.judgement)
    found = Counter(verdict for verdict in judged if verdict is not Agreement.TOO_FEW)
    if found:
        kept = f"{found[Agreement.REPRODUCED]} reproduced within {points(filled.margin)}, " if filled.margin else ""
        rest = f"{found[Agreement.DIFFERS]} differ, {found[Agreement.UNDECIDED]} not distinguishable"
        text += f"; of {count_of(found.total(), 'testable cell')}, {kept}{rest}"
    return Sentence(f"{filled.paper.name}, table {filled.name.removeprefix('T')}", f"{text}.", "note")
