"""Two variants compared in one metric: every test of their scores over seeds, and one conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness import stats
from harness.formatting import at_most, count_of, fixed, interval_text, p_value, signed
from harness.metrics import Metric, Score, Significance
from harness.reporting.seeds.cells import Cell, Corrected, Row, is_ahead
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import describe_powerless
from harness.reporting.seeds.wording import ABSENT
from harness.stats import ALPHA, FEWEST_SEEDS, Effect, Equivalence, Interval, Permutation, TTest
from harness.stats.t_tests import PAIRED, POOLED, WELCH

#: one side is better if the bound of almost stochastic order is below this (Ulmer et al. 2022)
ORDERED = 0.2


@dataclass(frozen=True)
class Comparison:
    """All tests of row a against row b in one score, beside the conclusion. A test that needs more
    seeds is None.

    `outcome` is the conclusion by the deciding test, in the family of the two. `untrained` are the
    rows of the same encoders before training.
    """

    outcome: Conclusion
    score: Score
    untrained: tuple[Row, ...] = ()

    @property
    def a(self) -> Row:
        return self.outcome.a

    @property
    def b(self) -> Row:
        return self.outcome.b

    @property
    def metric(self) -> Metric:
        return self.outcome.metric

    @property
    def corrected(self) -> Corrected | None:
        """The p-value after correction in the test's family, None if it is in no family."""
        return self.outcome.cell.corrected

    def cell(self, row: Row) -> Cell:
        """The scores of one of its rows."""
        return row.cells[self.score.column]

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """The scores of a and of b."""
        return self.cell(self.a), self.cell(self.b)

    @property
    def values(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The scores of a and of b as numbers, in order of their seeds."""
        return self.cell(self.a).values, self.cell(self.b).values

    @property
    def one_sample(self) -> bool:
        """Whether one side is an untrained encoder: a number without seeds."""
        return self.outcome.is_one_sample

    @property
    def deciding(self) -> TTest | None:
        """The test that tables use: one-sample beside an untrained encoder, paired where both share
        their batches, else Welch's.
        """
        return self.outcome.test

    @property
    def paired_by_design(self) -> bool:
        return self.deciding is not None and self.deciding.design == "paired"

    @property
    def is_equal(self) -> bool:
        """Whether no difference but equivalence is shown, in the family of the test if it is in
        one.
        """
        return self.outcome.cell.verdict is Significance.EQUAL

    @cached_property
    def pooled(self) -> TTest | None:
        """The independent t-test with equal variances, which the papers use."""
        first, second = self.cells
        return stats.t_test_from_summaries(first.summary, second.summary, equal_variance=True)

    @cached_property
    def welch(self) -> TTest | None:
        """The independent t-test without equal variances, which decides independent comparisons."""
        first, second = self.cells
        return stats.t_test_from_summaries(first.summary, second.summary)

    @cached_property
    def pairs(self) -> tuple[list[float], list[float]]:
        """The scores of a and of b at their common seeds."""
        return self.cell(self.a).pairs(self.cell(self.b))

    @cached_property
    def paired(self) -> TTest | None:
        """The t-test of the differences by seed, over the common seeds."""
        return stats.paired_t_test(*self.pairs)

    @cached_property
    def permutation(self) -> Permutation:
        """The permutation test of the deciding test's design: of the sides of pairs, else of
        values.
        """
        if self.paired_by_design:
            return stats.permutation_test(*self.pairs, paired=True)
        return stats.permutation_test(*self.values, paired=False)

    @cached_property
    def bootstrap(self) -> Interval | None:
        return stats.bootstrap_difference(*self.values)

    @property
    def effect(self) -> Effect | None:
        first, second = self.cells
        return stats.hedges_g(first.summary, second.summary)

    @property
    def ahead(self) -> Row:
        """The row with the better mean; a if they are equal."""
        return self.b if self._is_better(self.b, self.a) else self.a

    @cached_property
    def dominance(self) -> float | None:
        """The almost-stochastic-order bound of 'the row ahead is better than the other'."""
        a, b = self.values
        has_a_larger_scores = (self.ahead is self.a) == self.metric.larger_is_better
        if has_a_larger_scores:
            return stats.almost_stochastic_order(a, b)
        return stats.almost_stochastic_order(b, a)

    def decisions(self) -> dict[str, int]:
        """The decision of each test, by its name: 1 if a has the larger mean, -1 if b has, 0 if it
        cannot tell.

        A test that can never tell them apart with so few seeds is left out, and so are tests of
        another design than pairs where the deciding test is paired.
        """
        if self.one_sample:
            return {}

        decisions: dict[str, int] = {}
        tests: dict[str, TTest | None] = {}
        if not self.paired_by_design:
            tests = {WELCH: self.welch, POOLED: self.pooled}
        if len(self.pairs[0]) >= FEWEST_SEEDS:
            tests[PAIRED] = self.paired
        for name, test in tests.items():
            if test:
                decisions[name] = _choose_sign(test.difference, test.p < ALPHA)

        size = self.permutation.difference
        if self.permutation.smallest < ALPHA:
            decisions["the permutation test"] = _choose_sign(size, self.permutation.p < ALPHA)
        if self.bootstrap and not self.paired_by_design:
            has_zero = self.bootstrap.low <= 0 <= self.bootstrap.high
            decisions["the bootstrap"] = _choose_sign(size, not has_zero)
        if self.dominance is not None and not self.paired_by_design:
            decisions["almost stochastic order"] = _choose_sign(size, self.dominance < ORDERED)
        return decisions

    def _is_better(self, first: Row, second: Row) -> bool:
        return is_ahead(self.cell(first).summary.mean, self.cell(second).summary.mean, self.metric)

    @property
    def lacking(self) -> list[str]:
        """The encoders whose untrained run is missing; empty if any of the scores is an untrained
        encoder's.
        """
        rows = (self.a, self.b, *self.untrained)
        if not all(row.is_trained for row in rows):
            return []
        return sorted({row.label.encoder for row in rows})

    def warnings(self) -> Iterator[str]:
        """Yield what weakens the comparison."""
        for row in (self.a, self.b):
            summary = self.cell(row).summary
            # rounding alone leaves such a deviation
            if summary.std is not None and summary.std <= abs(summary.mean) * 1e-12:
                yield f"{row.name} has a deviation of zero: its tests mean nothing; check that its seeds differ"
            weak = str(row.weakness([self.score.column]))
            if weak:
                yield f"{row.name}: {weak}"

        first, second = (",".join(map(str, cell.seeds)) for cell in self.cells)
        if first != second and not self.one_sample:
            common = count_of(len(self.pairs[0]), "common seed")
            yield f"the seeds differ: {first} and {second}; paired tests use {common}"

        carried = describe_powerless(self.a, self.b)
        if carried:
            yield carried

        for row in self.untrained:
            behind = [opponent for opponent in (self.a, self.b) if self._is_better(row, opponent)]
            if not behind:
                continue
            name = row.name
            if any(opponent.pooling != row.pooling for opponent in behind):
                name += ", at another pooling"
            names_behind = " and ".join(opponent.name for opponent in behind)
            yield f"the untrained encoder, {name}, is ahead of {names_behind}"

    def conclusion(self) -> str:
        """Return one sentence, by the deciding test; if other tests disagree, it says so."""
        decisions = self.decisions()
        if len(set(decisions.values())) > 1:
            return self.outcome.say(f"the tests disagree: {_describe_disagreement(decisions)}")
        return self.outcome.sentence

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Each test, the deciding one first: its name, value, interval and p-value."""
        digits = self.metric.digits
        for name, test in self._list_t_tests().items():
            size = signed(test.difference, digits) if test else ABSENT
            p = p_value(test.p) if test else "too few seeds"
            yield f"difference, {name}", size, format_ends(test, digits), p

        equality = self.outcome.equality
        if equality:
            within = f"within {at_most(equality.bound, digits)}, margin {equality.margin:.2g}"
            interval = format_ends(equality, digits)
            yield "equivalence (90% interval)", within, interval, p_value(equality.p)
        if self.one_sample:
            return

        permutation = self.permutation
        method = "exact" if permutation.exact else "20,000 draws"
        if self.paired_by_design:
            method += ", by seed"
        p = f"{p_value(permutation.p)} (smallest possible {permutation.smallest:.2g})"
        yield f"permutation test ({method})", signed(permutation.difference, digits), "", p
        yield "difference, bootstrap", "", format_ends(self.bootstrap, digits), ""

        order = ABSENT
        if self.dominance is not None:
            side = f"{self.ahead.name} {'better' if self.metric.judged else 'ahead'}"
            order = f"at most {fixed(self.dominance, 2)} (below {ORDERED}: {side})"
        yield "almost stochastic order", order, "", ""

    def _list_t_tests(self) -> dict[str, TTest | None]:
        """The t-tests by name, the deciding one first."""
        if self.one_sample:
            return {"t-test (one sample)": self.deciding}
        independent = {"t-test (Welch)": self.welch, "t-test (pooled)": self.pooled}
        by_seed = {f"t-test, paired by {count_of(len(self.pairs[0]), 'seed')}": self.paired}
        return by_seed | independent if self.paired_by_design else independent | by_seed


def format_ends(test: TTest | Equivalence | Interval | Effect | None, digits: int) -> str:
    """The ends of an interval as text."""
    return ABSENT if test is None else interval_text(test.low, test.high, digits)


def _choose_sign(difference: float, is_shown: bool) -> int:
    """The decision of a test: the sign of the difference if it is shown, else 0."""
    if not is_shown:
        return 0
    return 1 if difference > 0 else -1


def _describe_disagreement(decisions: Mapping[str, int]) -> str:
    """Which tests show a difference and which do not."""
    words = {1: "a difference up by", -1: "a difference down by", 0: "none by"}
    has_both_directions = {1, -1} <= set(decisions.values())
    if not has_both_directions:
        words[1] = words[-1] = "a difference by"

    parts = []
    for decision, word in words.items():
        tests = [name for name, of_test in decisions.items() if of_test == decision]
        if tests:
            parts.append(f"{word} {', '.join(tests)}")
    return "; ".join(parts)
