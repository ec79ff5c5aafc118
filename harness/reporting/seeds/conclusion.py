"""What the data say of one row against another in one score: one object, from which pages, tables,
`harness compare`, CSV, LaTeX and documents take their numbers, verdicts and words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from statistics import StatisticsError, correlation

from harness import stats
from harness.formatting import count_of, fixed, interval_text, p_value, signed
from harness.metrics import Column, Metric, Significance
from harness.reporting.seeds.cells import Cell, Family, Row, is_ahead, measure_difference
from harness.reporting.seeds.controls import (
    Rival,
    TableRows,
    describe_powerless,
    describe_rival,
    find_rivals,
    list_controls,
)
from harness.reporting.seeds.wording import describe_bound, describe_test
from harness.stats import ALPHA, FEWEST_SEEDS, Equivalence, TTest

#: the things that a design counts, which would decide
_COUNTED = {"independent": "seeds each", "paired": "pairs", "one sample": "seeds"}


@dataclass(frozen=True)
class Conclusion:
    """Row `a` against row `b` in one column, as every place states it.

    `cell` is that of a, tested against b and corrected in the family of the two
    (`harness/reporting/seeds/families.py`). `rows` are those among which controls are looked for.
    Make one with `SummaryTable.conclude`, `Block.conclude` or `compare_variants(...).outcome`.
    """

    a: Row
    b: Row
    column: Column
    metric: Metric
    cell: Cell
    rows: TableRows = field(default_factory=TableRows, repr=False)

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """The scores of a and of b."""
        return self.cell, self.b.cells[self.column]

    @property
    def counts(self) -> tuple[int, int]:
        """The seeds of a and of b."""
        first, second = self.cells
        return first.summary.n, second.summary.n

    @property
    def is_one_sample(self) -> bool:
        """Whether one side is an untrained encoder: a number without seeds."""
        return self.a.is_trained != self.b.is_trained

    @property
    def has_few_seeds(self) -> bool:
        """Whether there are too few seeds for a test."""
        counts = self.counts
        seeds = max(counts) if self.is_one_sample else min(counts)
        return self.cell.test is None or seeds < FEWEST_SEEDS

    @property
    def difference(self) -> float:
        """The difference a - b in the metric's unit: of the means, or of pairs in a paired test."""
        return measure_difference(*self.cells)

    @property
    def test(self) -> TTest | None:
        """The deciding test, with the 95 % interval of the difference; None with too few seeds."""
        return self.cell.test

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the 95 % interval of the difference, by the deciding test alone."""
        test = self.cell.test
        return (test.low, test.high) if test else None

    @property
    def p(self) -> float | None:
        """The p-value of the deciding test alone."""
        return self.cell.test.p if self.cell.test else None

    @property
    def p_corrected(self) -> float | None:
        """The p-value after the correction in the family; that of the test alone without one."""
        return self.cell.corrected.p if self.cell.corrected else self.p

    @property
    def family(self) -> Family | None:
        """The tests that it is corrected with; None if it is tested alone."""
        return self.cell.corrected.family if self.cell.corrected else None

    @property
    def correction(self) -> str:
        """The correction and the family in words; empty if it is tested alone."""
        return str(self.family) if self.family else ""

    @property
    def verdict(self) -> Significance | None:
        """Whether a is better or worse than b, after the correction; None where nothing is judged."""
        return self.cell.verdict if self.metric.judged else None

    @property
    def equality(self) -> Equivalence | None:
        """The tests for a difference within the margin of "equal", alone."""
        return self.cell.equivalence

    @cached_property
    def confounded_by(self) -> Rival | None:
        """The strongest control of the better side that explains its score, if there is one.

        A control that the other side shares explains no difference between the two.
        """
        if not self.cell.holds or not self.metric.judged:
            return None

        better = self.a
        opponent = self.b
        if self.verdict is Significance.WORSE:
            better = self.b
            opponent = self.a
        shared = list_controls(opponent)
        own_rivals = find_rivals(better, self.rows, self.column, self.metric, shared)
        if own_rivals and own_rivals[0].confounds:
            return own_rivals[0]
        return None

    @cached_property
    def confounded(self) -> str:
        """The control that explains the score of the better side, in words; empty without one."""
        rival = self.confounded_by
        if rival is None:
            return ""
        better = self.b if self.verdict is Significance.WORSE else self.a
        return f"confounded: {describe_rival(rival, better, self.metric)}"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What weakens the conclusion: seeds, terms that carry no gradient, weak scores."""
        return tuple(self._list_caveats())

    def _list_caveats(self) -> Iterator[str]:
        """What weakens the conclusion: seeds, terms without power, either score."""
        first, second = self.counts
        if self.has_few_seeds:
            yield f"{self._few_seeds}, too few to compare"
        elif first != second and not self.is_one_sample:
            yield f"unequal seeds: {first} and {second}"

        carried = describe_powerless(self.a, self.b)
        if carried:
            yield carried
        for row in (self.a, self.b):
            weak = str(row.weakness([self.column]))
            if weak:
                yield f"{row.name}: {weak}"

    @property
    def _few_seeds(self) -> str:
        first, second = self.counts
        return f"{first} and {count_of(second, 'seed')}; {FEWEST_SEEDS} each are the fewest"

    @property
    def words(self) -> str:
        """The verdict with its p-values, family and control, as tables and pages say it."""
        verdict = self._side
        if self.metric.judged:
            verdict = describe_test(self.cell, self.metric.digits) or "not tested"
        parts = [verdict, self.confounded, describe_powerless(self.a, self.b)]
        return "; ".join(part for part in parts if part)

    @property
    def _side(self) -> str:
        """On which side a is, in a metric that is not judged."""
        return "higher" if self.difference > 0 else "lower"

    @property
    def sentence(self) -> str:
        """The conclusion as one sentence."""
        return self.say()

    def say(self, disagreement: str = "") -> str:
        """The sentence, with the other tests that disagree with the deciding one."""
        a = self.a.name
        b = self.b.name
        test = self.test
        if self.has_few_seeds or test is None:
            return f"Too few seeds to compare {a} and {b} ({self._few_seeds})."

        digits = self.metric.digits
        interval = interval_text(test.low, test.high, digits)
        size = f"{signed(test.difference, digits)}, 95% interval {interval}"
        if not any(cell.summary.std for cell in self.cells):
            return f"No conclusion for {a} and {b}: the scores of neither vary over seeds ({size})."

        size += f", {p_value(test.p)}{self._design}"
        if test.p < ALPHA and not self.metric.judged:
            alone = f"{self.metric.name} alone does not say which is better"
            return f"{a} is {self._side} than {b} ({size}); {alone}."

        remarks = "".join(f"; {text}" for text in (disagreement, self.confounded) if text)
        is_equal = self.cell.verdict is Significance.EQUAL
        within = describe_bound(self.equality, digits, equal=is_equal)
        if test.p < ALPHA:
            side = "better" if is_ahead(test.difference, 0, self.metric) else "worse"
            is_small = self.equality is not None and self.equality.p < ALPHA
            small = f", but {within}" if is_small else ""
            return f"{a} is {side} than {b}{self._say_how_far(size)}{small}{remarks}."
        if is_equal:
            return f"{a} and {b} are {within} ({size}){remarks}."

        # where tests disagree, more seeds are not what is missing
        power = "" if disagreement else self._power
        return f"No significant difference between {a} and {b} ({size}), {within}{power}{remarks}."

    @property
    def _design(self) -> str:
        """The deciding test and its seeds, after its p-value."""
        first, second = self.cells
        assert self.test

        if self.test.design == "paired":
            values, other_values = first.pairs(second)
            text = f", paired by {count_of(len(values), 'seed')}"
            with suppress(StatisticsError):  # a side without spread has no correlation
                text += f", r = {fixed(correlation(values, other_values), 4)}"
        else:
            text = f", {self.test.name}"

        if first.summary.n != second.summary.n and not self.is_one_sample:
            text += f", unequal seeds: {first.summary.n} and {second.summary.n}"
        return text

    def _say_how_far(self, size: str) -> str:
        """How far a significant test holds: alone, and after the correction in its family."""
        corrected = self.cell.corrected
        if corrected is None:
            return f", tested alone ({size})"
        if corrected.family.tests == 1:
            return f" ({size})"

        text = f"after {corrected.family} ({p_value(corrected.p)})"
        if corrected.is_significant:
            return f" ({size}), also {text}"
        return f" alone ({size}), not {text}"

    @cached_property
    def seeds_to_decide(self) -> int | None:
        """The seeds each, or pairs, that would show a difference or equality with 80 % power, if
        the measured difference and deviations are the true ones; None where no number would.

        It is computed at the levels that the two tests have to pass in their family.
        """
        test = self.test
        if test is None:
            return None

        if test.design == "independent":
            first, second = self.cells
            deviations = (first.summary.std or 0.0, second.summary.std or 0.0)
            seeds_at_hand = min(self.counts)
        else:
            seeds_at_hand = int(test.df) + 1
            deviation = test.error * math.sqrt(seeds_at_hand)
            deviations = (deviation, deviation)

        corrected = self.cell.corrected
        equal = self.cell.equal
        needed = stats.seeds_to_decide(
            test.difference,
            deviations,
            self.equality.margin if self.equality else None,
            alpha=corrected.step if corrected else ALPHA,
            equality_alpha=equal.step if equal else ALPHA,
            other=test.design,
        )
        # never the seeds that have not decided
        return None if needed is None else max(needed, seeds_at_hand + 1)

    @property
    def _power(self) -> str:
        """The seeds that would decide, after a sentence; empty where no number would."""
        assert self.test
        if self.seeds_to_decide is None:
            return ""
        counted = _COUNTED[self.test.design]
        is_in_family = self.family is not None and self.family.tests > 1
        in_family = " in the family" if is_in_family else ""
        return f"; if real, {self.seeds_to_decide} {counted} would decide{in_family} with 80% power"
