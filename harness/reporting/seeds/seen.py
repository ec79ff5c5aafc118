"""Scores on test pairs that training has seen and on the others, and the gains over plain SimCSE on each.

Both kinds are parts of a task, as `harness.evaluation.sts` stores them. Gains are differences by seed, since the runs
of one seed read the same batches; they are given where both runs have seen the same pairs, as far as numbers tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.method.naming import name_of
from harness.metrics import AVERAGE, SEEN, UNSEEN, Column, Metric, Metrics
from harness.reporting.seeds.caveats import Caveat, Freshness, Weakness, weakness_notes
from harness.reporting.seeds.groups import Cell, Group, Label, kept_groups
from harness.reporting.seeds.summary import BASELINE
from harness.reporting.seeds.words import suite_title
from harness.stats import paired_t_test

if TYPE_CHECKING:
    import pandas

#: task -> seed -> number
Numbers = Mapping[str, Mapping[int, float]]
#: Two runs have seen the same pairs if their numbers of seen pairs differ by at most this share of the larger one.
SHARE = 0.05


@dataclass(frozen=True)
class SeenCell:
    """One part of a task over seeds: its pairs, its scores, and its gains over the baseline with their paired t-test.

    Seeds with too few pairs have no score; without any score or gain the cell is None.
    """

    pairs: Cell
    scores: Cell | None
    gains: Cell | None = None


@dataclass(frozen=True)
class SeenLine:
    """One label, with a cell for each task and part. `problem` says why it has no gains; the baseline has none."""

    label: Label
    group: str
    seeds: tuple[int, ...]
    freshness: Freshness
    cells: Mapping[tuple[str, str], SeenCell]
    problem: str = ""

    @property
    def is_baseline(self) -> bool:
        """Whether other rows of the block are compared with this one."""
        return self.label.variant == BASELINE

    def weakness(self) -> Weakness:
        """What weakens its scores."""
        caveats = (caveat for cell in self.cells.values() if cell.scores for caveat in cell.scores.caveats)
        where = f"{self.label.setting} / {self.label.encoder}"
        return Weakness(where, self.label.name.text, tuple(dict.fromkeys(caveats)), self.freshness)

    @property
    def is_compared(self) -> bool:
        """Whether the row has gains."""
        return not (self.is_baseline or self.problem)


@dataclass(frozen=True)
class SeenTable:
    """Scores on the parts of each task of a suite, of one profile, setting and encoder, the baseline first.

    `metric` is the suite's main one. `averaged` are the tasks in which all compared rows have gains on both parts in
    all seeds; `mean` is the name of the task that holds the means over them, empty if there are none.
    """

    key: str
    profile: str
    suite: str
    setting: str
    encoder: str
    metric: Metric
    rows: tuple[SeenLine, ...]
    averaged: tuple[str, ...]
    mean: str

    @property
    def tasks(self) -> list[str]:
        """All tasks in order, with those of means last."""
        found = list(dict.fromkeys(task for row in self.rows for task, _ in row.cells))
        return sorted(found, key=lambda task: (task == self.mean and task not in self.averaged, task == AVERAGE))

    @property
    def title(self) -> str:
        """What the table is about."""
        where = f"{self.setting} / {self.encoder}, profile {self.profile}"
        return f"{suite_title(self.suite)} on seen and unseen pairs: {where}"

    @property
    def has_seen(self) -> bool:
        """Whether training read a sentence of any pair, in any row."""
        return any(
            cell.pairs.summary.mean > 0 for row in self.rows for (_, part), cell in row.cells.items() if part == SEEN
        )

    def legend(self) -> Iterator[str]:
        """Say how the numbers are made."""
        yield f"Scores in {self.metric.title}. Mean ± sample standard deviation over seeds."
        yield (
            "Seen: training read at least one sentence of the pair, compared in lower case, without anything but "
            "letters and digits. Unseen: it read neither."
        )
        yield (
            f"Gains over {name_of(BASELINE)} are differences by seed, over the seeds in which the numbers of seen "
            f"pairs of both differ by at most {SHARE:.0%}."
        )

    def notes(self) -> Iterator[str]:
        """Say what is averaged, and why rows are not compared."""
        if len(self.averaged) > 1 and self.mean != AVERAGE:
            yield f"{self.mean}, those with scores on both kinds of pairs: {', '.join(self.averaged)}."
        problems: dict[str, list[str]] = {}
        for row in self.rows:
            if row.problem:
                problems.setdefault(row.problem, []).append(row.label.name.text)
        for problem, labels in problems.items():
            yield f"Not compared, {problem}: {'; '.join(labels)}."
        yield from weakness_notes(row.weakness() for row in self.rows)


@dataclass(frozen=True)
class _Runs:
    """The runs of one label in numbers: pairs, and scores in a metric, of each part by task and seed.

    `averaged` are the tasks whose means are a task of their own, by its name.
    """

    label: Label
    group: Group
    metric: str
    pairs: Mapping[str, Numbers]
    scores: Mapping[str, Numbers]
    averaged: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, label: Label, group: Group, metric: str) -> _Runs:
        pairs: dict[str, dict[str, Mapping[int, float]]] = {SEEN: {}, UNSEEN: {}}
        scores: dict[str, dict[str, Mapping[int, float]]] = {SEEN: {}, UNSEEN: {}}
        for part in (SEEN, UNSEEN):
            for column, found in group.scores_of(part).items():
                if column.metric in ("n", metric):
                    (pairs if column.metric == "n" else scores)[part][column.task] = found
        return cls(label, group, metric, pairs, scores)

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(task for part in (UNSEEN, SEEN) for task in self.pairs[part]))

    def seen(self, seed: int) -> float:
        """The number of seen pairs of all tasks."""
        return sum(found.get(seed, 0.0) for task, found in self.pairs[SEEN].items() if task != AVERAGE)

    def has_both(self, task: str, seeds: Sequence[int]) -> bool:
        """Whether both parts of a task have a score for all seeds."""
        return all(set(seeds) <= self.scores[part].get(task, {}).keys() for part in (SEEN, UNSEEN))

    def with_mean(self, name: str, tasks: Sequence[str]) -> _Runs:
        """Add a task with the mean scores and the sum of the pairs of others, for the seeds that have all of them."""

        def joined(numbers: Numbers, share: float) -> Numbers:
            found = [numbers.get(task, {}) for task in tasks]
            seeds = [seed for seed in found[0] if all(seed in one for one in found)]
            mean = {seed: sum(one[seed] for one in found) * share for seed in seeds}
            return {**numbers, name: mean} if mean else numbers

        pairs = {part: joined(numbers, 1.0) for part, numbers in self.pairs.items()}
        scores = {part: joined(numbers, 1 / len(tasks)) for part, numbers in self.scores.items()}
        return replace(self, pairs=pairs, scores=scores, averaged={name: tasks})

    def caveats(self, task: str) -> tuple[Caveat, ...]:
        """What weakens the scores of a task, or of the mean over some."""
        tasks = self.averaged.get(task, ())
        return self.group.caveats(Column(AVERAGE if tasks else task, self.metric), tasks)


@dataclass(frozen=True)
class _Against:
    """The baseline of a row and the seeds over which they are compared; `problem` says why there are none."""

    base: _Runs | None = None
    seeds: tuple[int, ...] = ()
    problem: str = ""


def seen_tables(frame: pandas.DataFrame, metrics: Metrics) -> list[SeenTable]:
    """Build a table for each profile, suite, setting and encoder of a frame of scores that has these parts."""
    kept: dict[tuple[str, str, str, str], list[_Runs]] = {}
    for (label, suite), group in kept_groups(frame[frame["part"].isin((SEEN, UNSEEN))], frame).items():
        place = (label.profile, suite, label.setting, label.encoder)
        kept.setdefault(place, []).append(_Runs.of(label, group, _main(metrics, suite).name))
    return [
        _table(f"seen-{number}-{place[0]}-{place[1]}", place, runs, _main(metrics, place[1]))
        for number, (place, runs) in enumerate(sorted(kept.items()), start=1)
    ]


def _main(metrics: Metrics, suite: str) -> Metric:
    """The first metric that a suite's tables show."""
    return next((metric for metric in metrics.get(suite, {}).values() if metric.shown), Metric("spearman"))


def _table(key: str, place: tuple[str, str, str, str], runs: Sequence[_Runs], metric: Metric) -> SeenTable:
    runs = sorted(runs, key=lambda one: (one.label.overrides, one.label.variant != BASELINE, one.label.variant))
    found = {one.label: one for one in runs}
    against = {label: _against(one, found.get(label._replace(variant=BASELINE))) for label, one in found.items()}
    tasks = list(dict.fromkeys(task for one in runs for task in one.tasks if task != AVERAGE))
    sides = [
        (side, other.seeds) for label, other in against.items() if other.base for side in (found[label], other.base)
    ]
    averaged = tuple(task for task in tasks if sides and all(side.has_both(task, seeds) for side, seeds in sides))
    mean = _mean_name(averaged, tasks, all(side.has_both(AVERAGE, seeds) for side, seeds in sides))
    if len(averaged) > 1 and mean != AVERAGE:
        found = {label: one.with_mean(mean, averaged) for label, one in found.items()}
    rows = tuple(_row(one, found, against[label]) for label, one in found.items())
    return SeenTable(key, *place, metric, rows, averaged, mean)


def _mean_name(averaged: Sequence[str], tasks: Sequence[str], has_average: bool) -> str:
    """The name of the task that holds the means over some tasks: the suite's own average where it is the same."""
    if len(averaged) < 2:
        return "".join(averaged)
    return AVERAGE if has_average and len(averaged) == len(tasks) else f"mean of {len(averaged)} tasks"


def _against(runs: _Runs, base: _Runs | None) -> _Against:
    if runs.label.variant == BASELINE:
        return _Against()
    if base is None:
        return _Against(problem=f"no matching run of {name_of(BASELINE)}")
    if base.group.protocol != runs.group.protocol:
        return _Against(problem=f"{name_of(BASELINE)} was evaluated with another version or other data of the suite")
    common = sorted(set(runs.group.seeds) & set(base.group.seeds))
    if not common:
        return _Against(problem=f"no seed in common with {name_of(BASELINE)}")
    seeds = tuple(seed for seed in common if _alike(runs.seen(seed), base.seen(seed)))
    if not seeds:
        return _Against(
            problem=f"the numbers of seen pairs differ from those of {name_of(BASELINE)} by more than {SHARE:.0%}"
        )
    return _Against(base, seeds)


def _alike(first: float, second: float) -> bool:
    return abs(first - second) <= SHARE * max(first, second)


def _row(runs: _Runs, found: Mapping[Label, _Runs], against: _Against) -> SeenLine:
    base, group = found[against.base.label] if against.base else None, runs.group
    cells = {
        (task, part): _cell(runs, base, against.seeds, task, part)
        for part in (SEEN, UNSEEN)
        for task in runs.pairs[part]
    }
    return SeenLine(runs.label, group.group, group.seeds, group.freshness, cells, against.problem)


def _cell(runs: _Runs, base: _Runs | None, seeds: Sequence[int], task: str, part: str) -> SeenCell:
    mine, pairs = runs.scores[part].get(task, {}), runs.pairs[part][task]
    scores = Cell.of(list(mine.values()), runs.caveats(task)) if mine else None
    theirs = base.scores[part].get(task, {}) if base else {}
    both = [seed for seed in seeds if seed in mine and seed in theirs]
    gains = None
    if both:
        test = paired_t_test([mine[seed] for seed in both], [theirs[seed] for seed in both])
        gains = replace(Cell.of([mine[seed] - theirs[seed] for seed in both]), test=test)
    return SeenCell(Cell.of(list(pairs.values())), scores, gains)
