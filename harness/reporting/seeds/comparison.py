"""Two variants compared in one metric: every test of their scores over seeds, and one conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.formatting import count_of, interval_text, p_value, signed
from harness.metrics import Metric, Score
from harness.reporting.seeds.caveats import Caveat, GroupState, Weakness
from harness.reporting.seeds.cells import Corrected, Label, ahead
from harness.spec import UNTRAINED
from harness.stats import (
    ALPHA,
    FEWEST_SEEDS,
    Effect,
    Interval,
    Permutation,
    Summary,
    TTest,
    almost_stochastic_order,
    bootstrap_difference,
    hedges_g,
    mean_interval,
    one_sample_t_test,
    paired_t_test,
    permutation_test,
    seeds_needed,
    summarise,
    t_test,
)

#: one side is better if the bound of almost stochastic order is below this (Ulmer et al. 2022)
ORDERED = 0.2


@dataclass(frozen=True)
class Side:
    """The scores of one variant by seed, and the `pooling` of its runs; `asked` is the given start of their group."""

    label: Label
    scores: Mapping[int, float]
    freshness: GroupState
    caveats: tuple[Caveat, ...]
    pooling: str = ""
    asked: str = ""

    @property
    def values(self) -> list[float]:
        return [self.scores[seed] for seed in sorted(self.scores)]

    @property
    def summary(self) -> Summary:
        return summarise(self.values)

    @property
    def interval(self) -> Interval | None:
        return mean_interval(self.summary)

    @property
    def name(self) -> str:
        """The variant, with its overrides and the group that was asked for, if there are any."""
        return f"{self.label}#{self.asked}" if self.asked else str(self.label)

    @property
    def seeds(self) -> str:
        return ",".join(map(str, sorted(self.scores)))


@dataclass(frozen=True)
class Comparison:
    """Tests of a against b. A test that needs more seeds is None.

    `untrained` are the scores of the same encoders before training. `corrected` is the p-value after correction in
    the test's family, None if it is in no family.
    """

    a: Side
    b: Side
    score: Score
    metric: Metric
    untrained: tuple[Side, ...] = ()
    corrected: Corrected | None = None

    @property
    def one_sample(self) -> bool:
        """Whether one side is an untrained encoder: a number without seeds."""
        return (self.a.label.setting == UNTRAINED) != (self.b.label.setting == UNTRAINED)

    @property
    def pooled(self) -> TTest | None:
        """The independent t-test that the papers use."""
        return t_test(self.a.values, self.b.values)

    @property
    def deciding(self) -> TTest | None:
        """The test that tables use: one-sample if one side is an untrained encoder, else the papers' pooled test."""
        if not self.one_sample:
            return self.pooled
        if self.b.label.setting == UNTRAINED:
            return one_sample_t_test(self.a.values, self.b.summary.mean)
        return one_sample_t_test([-value for value in self.b.values], -self.a.summary.mean)

    @property
    def welch(self) -> TTest | None:
        """The independent t-test with unequal variances."""
        return t_test(self.a.values, self.b.values, equal_variance=False)

    @property
    def common(self) -> list[int]:
        return sorted(self.a.scores.keys() & self.b.scores.keys())

    @property
    def paired(self) -> TTest | None:
        """The t-test of the differences by seed, over the common seeds."""
        return paired_t_test(*([side.scores[seed] for seed in self.common] for side in (self.a, self.b)))

    @cached_property
    def permutation(self) -> Permutation:
        return permutation_test(self.a.values, self.b.values)

    @cached_property
    def bootstrap(self) -> Interval | None:
        return bootstrap_difference(self.a.values, self.b.values)

    @property
    def effect(self) -> Effect | None:
        return hedges_g(self.a.summary, self.b.summary)

    @property
    def ahead(self) -> Side:
        """The side with the better mean; a if they are equal."""
        return self.b if self._is_better(self.b, self.a) else self.a

    @cached_property
    def dominance(self) -> float | None:
        """The almost-stochastic-order bound of 'the side ahead is better than the other'."""
        better, worse = (self.a, self.b) if self.ahead is self.a else (self.b, self.a)
        larger, smaller = (better, worse) if self.metric.larger_is_better else (worse, better)
        return almost_stochastic_order(larger.values, smaller.values)

    def decisions(self) -> dict[str, int]:
        """The decision of each test, by its name: 1 if a has the larger mean, -1 if b has, 0 if it cannot tell.

        A test that can never tell them apart with so few seeds is left out.
        """
        if self.one_sample:
            return {}
        named = {"the pooled t-test": self.pooled, "Welch's t-test": self.welch}
        named |= {"the paired t-test": self.paired} if len(self.common) >= FEWEST_SEEDS else {}
        decisions = {name: (test.difference, test.p < ALPHA) for name, test in named.items() if test}
        difference = self.permutation.difference
        if self.permutation.smallest < ALPHA:
            decisions["the permutation test"] = difference, self.permutation.p < ALPHA
        if self.bootstrap:
            decisions["the bootstrap"] = difference, not self.bootstrap.low <= 0 <= self.bootstrap.high
        if self.dominance is not None:
            decisions["almost stochastic order"] = difference, self.dominance < ORDERED
        return {name: (1 if size > 0 else -1) if shown else 0 for name, (size, shown) in decisions.items()}

    def _is_better(self, first: Side, second: Side) -> bool:
        return ahead(first.summary.mean, second.summary.mean, self.metric)

    @property
    def lacking(self) -> list[str]:
        """The encoders whose untrained run is missing; empty if any of the scores is an untrained encoder's."""
        labels = [side.label for side in (self.a, self.b, *self.untrained)]
        if any(label.setting == UNTRAINED for label in labels):
            return []
        return sorted({label.encoder for label in labels})

    def warnings(self) -> Iterator[str]:
        """Yield what weakens the comparison."""
        for side in (self.a, self.b):
            std = side.summary.std
            if std is not None and std <= abs(side.summary.mean) * 1e-12:
                yield f"{side.name} has a deviation of zero: its tests mean nothing; check that its seeds differ"
            if weak := str(Weakness("", side.name, side.caveats, side.freshness)):
                yield f"{side.name}: {weak}"
        if self.a.scores.keys() != self.b.scores.keys() and not self.one_sample:
            common = count_of(len(self.common), "common seed")
            yield f"the seeds differ: {self.a.seeds} and {self.b.seeds}; paired tests use {common}"
        for side in self.untrained:
            behind = [other.name for other in (self.a, self.b) if self._is_better(side, other)]
            if behind:
                other = any(each.pooling != side.pooling for each in (self.a, self.b) if each.name in behind)
                name = side.name + ", at another pooling" * other
                yield f"the untrained encoder, {name}, is ahead of {' and '.join(behind)}"

    def conclusion(self) -> str:
        """Return one sentence, by the deciding test; if other tests disagree, it says so."""
        test, digits, a, b = self.deciding, self.metric.digits, self.a, self.b
        counts = [len(side.scores) for side in (a, b)]
        if test is None or (max(counts) if self.one_sample else min(counts)) < FEWEST_SEEDS:
            has = f"{counts[0]} and {count_of(counts[1], 'seed')}; {FEWEST_SEEDS} each are the fewest"
            return f"Too few seeds to compare {a.name} and {b.name} ({has})."
        size = f"{signed(test.difference, digits)}, 95% interval {interval_text(test.low, test.high, digits)}"
        if not a.summary.std and not b.summary.std:
            return f"No conclusion for {a.name} and {b.name}: the scores of neither vary over seeds ({size})."
        size += f", {p_value(test.p)}"
        decisions = self.decisions()
        other = f"; the tests disagree: {_disagreement(decisions)}" if len(set(decisions.values())) > 1 else ""
        if test.p < ALPHA and not self.metric.judged:
            side = "higher" if test.difference > 0 else "lower"
            return f"{a.name} is {side} than {b.name} ({size}); {self.metric.name} alone does not say which is better."
        if test.p < ALPHA:
            side = "better" if ahead(test.difference, 0, self.metric) else "worse"
            return f"{a.name} is {side} than {b.name}{self._in_family(size)}{other}."
        power = "" if self.one_sample or other else self._power(test.difference)
        return f"No significant difference between {a.name} and {b.name} ({size}){power}{other}."

    def _in_family(self, size: str) -> str:
        """How far a significant test holds: alone, and after the correction in its family."""
        if self.corrected is None:
            return f", tested alone ({size})"
        p, tests, alpha = self.corrected
        if tests == 1:
            return f" ({size})"
        if p < alpha:
            return f" ({size}), also after Holm's correction over {tests} tests ({p_value(p)})"
        return f" alone ({size}), not after correction over {tests} tests ({p_value(p)})"

    def _power(self, difference: float) -> str:
        """The seeds that would show the difference if it is real; empty where no number of seeds suffices."""
        variances = [(side.summary.std or 0.0) ** 2 for side in (self.a, self.b)]
        try:
            return f"; if real, {seeds_needed(difference, (sum(variances) / 2) ** 0.5)} seeds each give 80% power"
        except ValueError:
            return ""


def _disagreement(decisions: Mapping[str, int]) -> str:
    said = {1: "a difference up by", -1: "a difference down by", 0: "none by"}
    if {1, -1} - set(decisions.values()):
        said |= dict.fromkeys((1, -1), "a difference by")
    names = {value: [name for name, decision in decisions.items() if decision == value] for value in (1, -1, 0)}
    return "; ".join(f"{said[value]} {', '.join(some)}" for value, some in names.items() if some)
