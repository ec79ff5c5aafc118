"""Two variants compared in one metric: every test of their scores over seeds, and one conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.formatting import count_of, fixed, p_value, signed
from harness.metrics import AVERAGE, Metric, Score
from harness.reporting.seeds.groups import Label
from harness.stats import (
    ALPHA,
    Effect,
    Interval,
    Permutation,
    Summary,
    TTest,
    almost_stochastic_order,
    bootstrap_difference,
    hedges_g,
    mean_interval,
    paired_t_test,
    permutation_test,
    seeds_needed,
    summarise,
    t_test,
)

#: fewer seeds than these get a warning
FEW_SEEDS = 3


@dataclass(frozen=True)
class Side:
    """The scores of one variant by seed. `older` counts the groups of runs with the same label that are not used."""

    label: Label
    scores: Mapping[int, float]
    older: int
    dev_tasks: frozenset[str]

    @property
    def values(self) -> list[float]:
        """The scores in order of seeds."""
        return [self.scores[seed] for seed in sorted(self.scores)]

    @property
    def summary(self) -> Summary:
        """Mean and sample standard deviation."""
        return summarise(self.values)

    @property
    def interval(self) -> Interval | None:
        """The t interval of the mean."""
        return mean_interval(self.summary)

    @property
    def name(self) -> str:
        """The variant, with its overrides if there are any."""
        return str(self.label)

    @property
    def seeds(self) -> str:
        """The seeds as text."""
        return ",".join(map(str, sorted(self.scores)))


@dataclass(frozen=True)
class Comparison:
    """Tests of a against b. A test that needs more seeds is None.

    `tasks` are those of the suite: their scores make up the average.
    """

    a: Side
    b: Side
    score: Score
    metric: Metric
    tasks: frozenset[str]

    @property
    def pooled(self) -> TTest | None:
        """The independent t-test that the papers use; the conclusion follows it."""
        return t_test(self.a.values, self.b.values)

    @property
    def welch(self) -> TTest | None:
        """The independent t-test with unequal variances."""
        return t_test(self.a.values, self.b.values, equal_variance=False)

    @property
    def common(self) -> list[int]:
        """The seeds that both sides have."""
        return sorted(self.a.scores.keys() & self.b.scores.keys())

    @property
    def paired(self) -> TTest | None:
        """The t-test of the differences by seed, over the common seeds."""
        return paired_t_test(*([side.scores[seed] for seed in self.common] for side in (self.a, self.b)))

    @property
    def permutation(self) -> Permutation:
        """The permutation test of the difference."""
        return permutation_test(self.a.values, self.b.values)

    @property
    def bootstrap(self) -> Interval | None:
        """The bootstrap interval of the difference."""
        return bootstrap_difference(self.a.values, self.b.values)

    @property
    def effect(self) -> Effect | None:
        """Hedges' g."""
        return hedges_g(self.a.summary, self.b.summary)

    @property
    def dominance(self) -> float | None:
        """The almost-stochastic-order bound of 'a is better than b'."""
        better, worse = (self.a, self.b) if self.metric.larger_is_better else (self.b, self.a)
        return almost_stochastic_order(better.values, worse.values)

    def warnings(self) -> Iterator[str]:
        """Yield what weakens the comparison."""
        for side in (self.a, self.b):
            std = side.summary.std
            if len(side.scores) < FEW_SEEDS:
                yield f"{side.name} has {count_of(len(side.scores), 'seed')}: unreliable below {FEW_SEEDS} seeds"
            if std is not None and std <= abs(side.summary.mean) * 1e-12:
                yield f"{side.name} has a deviation of zero: its tests mean nothing; check that its seeds differ"
            if side.older:
                yield f"{side.name}: {count_of(side.older, 'older or smaller group')} of runs with this label not used"
            selected = side.dev_tasks & (self.tasks if self.score.task == AVERAGE else {self.score.task})
            if selected:
                yield f"{side.name} was selected on {', '.join(sorted(selected))}, which is tested here: score too high"
        if self.a.scores.keys() != self.b.scores.keys():
            common = count_of(len(self.common), "common seed")
            yield f"the seeds differ: {self.a.seeds} and {self.b.seeds}; paired tests use {common}"
        pooled, welch = self.pooled, self.welch
        if pooled and welch and (pooled.p < ALPHA) != (welch.p < ALPHA):
            yield "the pooled and Welch's test disagree: the deviations are unequal; trust Welch's"

    def conclusion(self) -> str:
        """Return one sentence."""
        test, digits = self.pooled, self.metric.digits
        a, b = self.a, self.b
        if test is None:
            return f"Too few seeds to compare {a.name} and {b.name}."
        low, high = fixed(test.low, digits), fixed(test.high, digits)
        size = f"{signed(test.difference, digits)}, 95% interval {low} to {high}"
        if not a.summary.std and not b.summary.std:
            return f"No conclusion for {a.name} and {b.name}: the scores of neither vary over seeds ({size})."
        if test.p < ALPHA:
            gained = (test.difference > 0) == self.metric.larger_is_better
            return f"{a.name} is {'better' if gained else 'worse'} than {b.name} ({size}, {p_value(test.p)})."
        variances = [(side.summary.std or 0.0) ** 2 for side in (a, b)]
        try:
            power = f"; if real, {seeds_needed(test.difference, (sum(variances) / 2) ** 0.5)} seeds each give 80% power"
        except ValueError:  # no number of seeds suffices
            power = ""
        return f"No significant difference between {a.name} and {b.name} ({size}, {p_value(test.p)}){power}."
