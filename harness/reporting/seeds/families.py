"""Families: which tests answer one question, and are therefore corrected together.

The family of two rows follows from their names and their place, never from scores or from what a
command shows. Of one profile, setting and encoder, in one column, the first rule that fits counts:

1. one row is the baseline: all methods against the baseline, or, if the other row is a variant, all
   variants against it (rows with `--set` values are variants, and compared with the baseline with
   the same ones);
2. one row is an untrained encoder: likewise, all methods or all variants against it;
3. one row is the method of the other: all variants against their methods;
4. the two are the sides of a paper's claim, in the STS average: all pairs of the papers' claims that
   no other rule fits.

Two rows that no rule fits are tested alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.metrics import Column, Metric, Score
from harness.papers.published import ABLATION_SCORE, Ablation, read_ablations
from harness.reporting.seeds.cells import Cell, Label, Row, compare_pairs

#: names of families without a baseline
OF_METHODS = "variants against their methods"
OF_CLAIMS = "pairs of the papers' claims"
#: two rows, and the first one's cell tested against the second's
PairTest = tuple[Row, Row, Cell]
#: the labels of two rows -> the cell of the first, tested against the second
PairTests = Mapping[tuple[Label, Label], Cell]


def compare_with_untrained(
    rows: Iterable[Row], untrained: Row, column: Column, metric: Metric, points: float | None
) -> Iterator[PairTest]:
    """The trained rows among some, tested against an untrained one: rule 2."""
    pairs = [(row, untrained) for row in rows if row.is_trained and column in row.cells]
    return compare_pairs(pairs, column, metric, points, against=untrained.label.name.text)


def compare_with_methods(
    rows: Sequence[Row], base: str, column: Column, metric: Metric, points: float | None
) -> Iterator[PairTest]:
    """The variants among some rows, tested against their methods as the profile trains them: rule
    3.

    The variants of the baseline's method are tested against that by rule 1.
    """
    by_label = {row.label: row for row in rows}
    pairs = []
    for row in rows:
        method = by_label.get(row.label._replace(variant=row.label.method, overrides=""))
        if method is None or not row.is_trained or method.data == row.data:
            continue

        is_baseline = method.label == row.label._replace(variant=base)
        if not is_baseline and column in row.cells and column in method.cells:
            pairs.append((row, method))
    return compare_pairs(pairs, column, metric, points, family=OF_METHODS)


def find_claim_pairs(rows: Sequence[Row], column: Column) -> Iterator[tuple[Ablation, Row, Row]]:
    """The papers' claims of which both sides have a score among some rows: the better one first."""
    by_variant = {}
    for row in rows:
        is_claimed = Score(row.suite, *column) == ABLATION_SCORE
        if is_claimed and column in row.cells and not row.label.overrides:
            by_variant[row.label.variant] = row

    for claim in read_ablations():
        if claim.better in by_variant and claim.worse in by_variant:
            yield claim, by_variant[claim.better], by_variant[claim.worse]


def compare_family(
    rows: Sequence[Row], base: str, column: Column, metric: Metric, points: float | None
) -> PairTests:
    """All pairs of rows that a family compares in a column, by the rules 1 to 4.

    The `rows` are all of one setting and encoder, tested against the baseline already.
    """
    tests: dict[tuple[Label, Label], Cell] = {}
    by_label = {row.label: row for row in rows}

    def add(pairs: Iterable[PairTest]) -> None:
        for row, compared_row, cell in pairs:
            # the first rule that fits two rows counts
            if (compared_row.label, row.label) not in tests:
                tests.setdefault((row.label, compared_row.label), cell)

    for row in rows:
        baseline = by_label.get(row.label._replace(variant=base))
        cell = row.cells.get(column)
        if baseline and cell and cell.test:
            tests[row.label, baseline.label] = cell

    for row in rows:
        if not row.is_trained and column in row.cells:
            add(compare_with_untrained(rows, row, column, metric, points))
    add(compare_with_methods(rows, base, column, metric, points))

    claimed: dict[tuple[Label, Label], tuple[Row, Row]] = {}
    for _, better, worse in find_claim_pairs(rows, column):
        pair = (better.label, worse.label)
        reversed_pair = (worse.label, better.label)
        # several papers may claim the same
        rows_of_tests = tests.keys() | claimed.keys()
        if pair not in rows_of_tests and reversed_pair not in rows_of_tests:
            claimed[pair] = better, worse
    add(compare_pairs(list(claimed.values()), column, metric, points, family=OF_CLAIMS))
    return tests
