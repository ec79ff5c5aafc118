"""Two variants compared on one metric: which runs are meant, every test of their scores, and one conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.formatting import count_of, fixed, p_value, signed
from harness.metrics import AVERAGE, Column
from harness.reporting.formats import digits_of
from harness.reporting.seeds.summary import SMALLER_IS_BETTER, Label, group_runs, kept_groups
from harness.spec import UNTRAINED
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

if TYPE_CHECKING:
    import pandas

    from harness.store import Result


@dataclass(frozen=True)
class Side:
    """The scores of one variant by seed. `older` groups of runs with the same label are left out."""

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
    def name(self) -> str:
        """Variant, and overrides where there are any."""
        return str(self.label)


@dataclass(frozen=True)
class Comparison:
    """Everything that the seeds say of a against b; what they are too few for is None."""

    a: Side
    b: Side
    suite: str
    column: Column
    tasks: frozenset[str]

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """The t intervals of both means."""
        return mean_interval(self.a.summary), mean_interval(self.b.summary)

    @property
    def pooled(self) -> TTest | None:
        """The independent t-test of the papers; the conclusion goes by it."""
        return t_test(self.a.values, self.b.values)

    @property
    def welch(self) -> TTest | None:
        """The same with unequal variances."""
        return t_test(self.a.values, self.b.values, equal_variance=False)

    @property
    def common(self) -> list[int]:
        """The seeds that both have."""
        return sorted(self.a.scores.keys() & self.b.scores.keys())

    @property
    def paired(self) -> TTest | None:
        """The t-test of the differences by seed, over the seeds that both have."""
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
        return hedges_g(self.a.values, self.b.values)

    @property
    def dominance(self) -> float | None:
        """The almost-stochastic-order bound of 'a is better than b'."""
        better, worse = (self.b, self.a) if self.column.metric in SMALLER_IS_BETTER else (self.a, self.b)
        return almost_stochastic_order(better.values, worse.values)

    def warnings(self) -> list[str]:
        """What weakens the comparison."""
        return list(_warnings(self))

    def conclusion(self) -> str:
        """One sentence."""
        return _conclusion(self)


def find_sides(
    frame: pandas.DataFrame,
    results: Sequence[Result],
    wanted: tuple[Mapping[str, str], Mapping[str, str]],
    suite: str,
    column: Column,
) -> tuple[Side, Side]:
    """The runs that two descriptions mean, by fields of `Label`; fields that neither gives must be equal in both.

    Runs without overrides are preferred. Raises UserError when none fit, with what there is, or when several do,
    with the option that tells them apart.
    """
    part = frame[(frame["suite"] == suite) & (frame["task"] == column.task) & (frame["metric"] == column.metric)]
    groups = kept_groups(part)
    sides = [[label for label in groups if _fits(label, fields)] for fields in wanted]
    for fields, labels in zip(wanted, sides, strict=True):
        if not labels:
            raise UserError(_unknown(fields, groups))
    pairs = [(a, b) for a in sides[0] for b in sides[1] if a != b and _comparable(a, b, wanted)]
    pairs = [pair for pair in pairs if not any(label.overrides for label in pair)] or pairs
    if not pairs:
        raise UserError(
            f"'{wanted[0]['variant']}' and '{wanted[1]['variant']}' have no runs of one profile, setting, encoder and "
            "overrides; give each as VARIANT/SETTING/ENCODER"
        )
    if len(pairs) > 1:
        raise UserError(_several(pairs))
    first, second = (_side(part, results, label, groups[label].older, groups[label].group) for label in pairs[0])
    return first, second


def _fits(label: Label, fields: Mapping[str, str]) -> bool:
    return all(getattr(label, name) == text for name, text in fields.items())


def _comparable(a: Label, b: Label, wanted: tuple[Mapping[str, str], Mapping[str, str]]) -> bool:
    """Whether two labels agree in all that is not given for each of them; an untrained encoder has no setting."""
    free = {name for name in ("setting", "encoder") if name in wanted[0] and name in wanted[1]}
    if UNTRAINED in (a.setting, b.setting):
        free |= {"setting"}
    return all(getattr(a, name) == getattr(b, name) for name in Label._fields if name not in {"variant", *free})


def _unknown(fields: Mapping[str, str], groups: Mapping[Label, object]) -> str:
    there = sorted({label.variant for label in groups if _fits(label, {**fields, "variant": label.variant})})
    if there:
        return f"no runs of '{fields['variant']}' have this metric; there are {', '.join(there)}"
    where = ", ".join(sorted({f"{label.setting}/{label.encoder} ({label.profile})" for label in groups}))
    given = ", ".join(f"{name} {text}" for name, text in fields.items() if name != "variant")
    return f"no runs with {given} have this metric; there are {where}"


def _several(pairs: Sequence[tuple[Label, Label]]) -> str:
    for name, option in (("profile", "--profile"), ("encoder", "--encoder"), ("setting", "--setting")):
        values = sorted({getattr(a, name) for a, _ in pairs} | {getattr(b, name) for _, b in pairs} - {UNTRAINED})
        if len(values) > 1:
            return f"both were run in several {name}s ({', '.join(values)}); choose with {option}"
    values = sorted({a.overrides or "none" for a, _ in pairs})
    return f"both were run with several overrides ({' | '.join(values)}); choose with --set"


def _side(part: pandas.DataFrame, results: Sequence[Result], label: Label, older: int, group: str) -> Side:
    runs = group_runs(part, label, group)
    scores = {int(seed): float(value) for seed, value in zip(runs["seed"], runs["value"], strict=True)}
    dev = frozenset(r.dev.task for r in results if r.group == group and r.dev.best_step is not None)
    return Side(label, scores, older, dev)


def _warnings(found: Comparison) -> Iterator[str]:
    for side in (found.a, found.b):
        seeds, std = len(side.scores), side.summary.std
        if seeds < 3:
            yield f"{side.name} has {count_of(seeds, 'seed')}: fewer than 3 say little"
        if std is not None and std <= abs(side.summary.mean) * 1e-12:
            yield f"{side.name} has a deviation of zero: its seeds may not differ, and its tests mean nothing"
        if side.older:
            yield f"{side.name}: {count_of(side.older, 'older or smaller group')} of runs with this label left out"
        selected = side.dev_tasks & (found.tasks if found.column.task == AVERAGE else {found.column.task})
        if selected:
            tasks = ", ".join(sorted(selected))
            yield f"{side.name} was selected on {tasks}, which is tested here: its score is too good"
    if found.a.scores.keys() != found.b.scores.keys():
        yield f"the seeds differ: {_seeds(found.a)} and {_seeds(found.b)}; only {len(found.common)} can be paired"
    pooled, welch = found.pooled, found.welch
    if pooled and welch and (pooled.p < ALPHA) != (welch.p < ALPHA):
        yield "pooled and Welch's test disagree: the deviations are unequal, trust Welch's"


def _seeds(side: Side) -> str:
    return ",".join(map(str, sorted(side.scores)))


def _conclusion(found: Comparison) -> str:
    test, digits = found.pooled, digits_of(found.column.metric)
    names = f"{found.a.name} and {found.b.name}"
    if test is None:
        return f"Too few seeds to say whether {names} differ."
    size = f"{signed(test.difference, digits)}, 95% interval {fixed(test.low, digits)} to {fixed(test.high, digits)}"
    if not found.a.summary.std and not found.b.summary.std:
        return f"Nothing can be concluded of {names}: neither varies over its seeds ({size})."
    if test.p < ALPHA:
        better = (test.difference < 0) == (found.column.metric in SMALLER_IS_BETTER)
        return f"{found.a.name} is {'better' if better else 'worse'} than {found.b.name} ({size}, {p_value(test.p)})."
    return f"No difference between {names} is shown ({size}, {p_value(test.p)}){_wanted_seeds(found, test)}."


def _wanted_seeds(found: Comparison, test: TTest) -> str:
    """How many seeds a difference of this size would take, where any number would do."""
    variances = [(side.summary.std or 0.0) ** 2 for side in (found.a, found.b)]
    try:
        needed = seeds_needed(test.difference, (sum(variances) / 2) ** 0.5)
    except ValueError:
        return ""
    return f"; were it true, {needed} seeds each would show it with 80% power"
