"""Which runs a figure of a paper draws, and what to type for those that are missing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.formatting import count_of
from harness.metrics import AVERAGE, Score
from harness.papers.published import Published, PublishedKey
from harness.papers.schema import FigureSpec, pairs_of
from harness.reporting.seeds.summary import Label, group_runs, kept_groups
from harness.reporting.tables.filled import PROFILE
from harness.spec import UNTRAINED
from harness.stats import Summary, summarise
from harness.store.arrays import NamedArrays

if TYPE_CHECKING:
    import pandas

#: gives a result's arrays, as `Store.arrays`
Arrays = Callable[[Any], NamedArrays]


@dataclass(frozen=True)
class Run:
    """Runs that differ by their seed alone: scores by seed, and the result of the lowest seed.

    `parts` has those of parts of a task by score and part.
    """

    label: Label
    scores: Mapping[Score, Mapping[int, float]]
    parts: Mapping[tuple[Score, str], Mapping[int, float]]
    result: Any

    def summary(self, score: Score) -> Summary | None:
        """Mean and spread over seeds; None where there is no such score."""
        values = self.scores.get(score)
        return summarise(list(values.values())) if values else None

    def seeds(self, suite: str) -> list[int]:
        """The seeds that have a score in a suite."""
        return sorted({seed for score, values in self.scores.items() if score.suite == suite for seed in values})

    def told(self, suite: str) -> str:
        """The run in words, with its number of seeds in a suite."""
        place = f"{self.label.variant} / {self.label.setting} / {self.label.encoder}"
        return f"{place} ({count_of(len(self.seeds(suite)), 'seed')})"


@dataclass(frozen=True)
class Material:
    """All that figures of one profile are drawn from."""

    profile: str
    frame: pandas.DataFrame
    results: Sequence[Any]
    arrays: Arrays
    published: Mapping[PublishedKey, Published]

    @property
    def is_paper(self) -> bool:
        """Whether printed numbers may stand beside these runs."""
        return self.profile == PROFILE

    @cached_property
    def _part(self) -> pandas.DataFrame:
        return self.frame[(self.frame["profile"] == self.profile) & (self.frame["overrides"] == "")]

    def places(self, spec: FigureSpec) -> list[tuple[str, str, str]]:
        """Variant, setting and encoder of each run.

        Those of a profile of other data are the figure's variants in every setting and encoder that were run.
        """
        if self.is_paper:
            return [(*run, encoder) for encoder in spec.encoders for run in pairs_of(spec)]
        pairs = zip(self._part["setting"], self._part["encoder"], strict=True)
        there = sorted({(str(setting), str(encoder)) for setting, encoder in pairs if setting != UNTRAINED})
        return [(variant, *place) for place in there for variant in spec.variants]

    def runs(self, spec: FigureSpec) -> list[Run]:
        """The runs that were found, in the figure's order."""
        part = self._part[self._part["suite"] == spec.suite]
        groups = kept_groups(part)
        labels = [Label(self.profile, *place, "") for place in self.places(spec)]
        return [self._run(label, groups[label].group) for label in labels if label in groups]

    def _run(self, label: Label, group: str) -> Run:
        scores: dict[Score, dict[int, float]] = {}
        parts: dict[tuple[Score, str], dict[int, float]] = {}
        mine = group_runs(self._part, label, group)
        columns = (mine[name] for name in ("suite", "task", "metric", "seed", "value"))
        for suite, task, metric, seed, value in zip(*columns, strict=True):
            scores.setdefault(Score(suite, task, metric), {})[int(seed)] = float(value)
        rows = self._part[(self._part["group"] == group) & (self._part["part"] != "")]
        columns = (rows[name] for name in ("suite", "task", "part", "metric", "seed", "value"))
        for suite, task, part, metric, seed, value in zip(*columns, strict=True):
            parts.setdefault((Score(suite, task, metric), part), {})[int(seed)] = float(value)
        same = [one for one in self.results if one.profile == self.profile and one.group == group]
        return Run(label, scores, parts, min(same, key=lambda one: one.spec.seed, default=None))

    def task(self, spec: FigureSpec, runs: Sequence[Run]) -> str:
        """The task that is shown: the figure's own, and of a profile of other data the first that has the metric."""
        if self.is_paper:
            return spec.task
        scores = (score for run in runs for score in run.scores)
        return next((s.task for s in scores if s.suite == spec.suite and s.task != AVERAGE), "")

    def commands(self, spec: FigureSpec, runs: Sequence[Run]) -> tuple[str, ...]:
        """What to type for the runs that are missing; finished ones are not done again."""
        have = {run.label[1:4]: len(run.seeds(spec.suite)) for run in runs}
        wanted = spec.seeds if self.is_paper else 1
        missing = [place for place in self.places(spec) if have.get(place, 0) < wanted]
        if not self.is_paper:
            found = {run.label.variant for run in runs}
            return tuple(self._anywhere(spec, [variant for variant in spec.variants if variant not in found]))
        return tuple(_commands(spec, missing, self.profile))

    def _anywhere(self, spec: FigureSpec, variants: Sequence[str]) -> Iterator[str]:
        if variants:
            words = ["harness", "run", "--profile", self.profile, "--methods", ",".join(variants)]
            yield shlex.join([*words, "--seeds", str(spec.seeds), "--suites", ",".join(_suites(spec))])

    def lines(self, paper: str, figure: str, spec: FigureSpec) -> list[tuple[str, float]]:
        """Printed numbers that are drawn as lines, with their names; none beside runs of other data."""
        if not self.is_paper:
            return []
        found = {key.task: number.value for key, number in self.published.items() if key[:2] == (paper, figure)}
        return [(name, found[task]) for task, name in spec.printed.items() if task in found]


def _commands(spec: FigureSpec, missing: Sequence[tuple[str, str, str]], profile: str) -> Iterator[str]:
    """One command for each setting and encoder."""
    methods: dict[tuple[str, str], list[str]] = {}
    for variant, setting, encoder in missing:
        methods.setdefault((setting, encoder), []).append(variant)
    for (setting, encoder), variants in methods.items():
        words = ["harness", "run", "--profile", profile, "--methods", ",".join(variants), "--settings", setting]
        yield shlex.join(
            [*words, "--encoders", encoder, "--seeds", str(spec.seeds), "--suites", ",".join(_suites(spec))]
        )


def _suites(spec: FigureSpec) -> list[str]:
    return list(dict.fromkeys(["sts", spec.suite])) if spec.kind == "alignment-uniformity" else [spec.suite]
