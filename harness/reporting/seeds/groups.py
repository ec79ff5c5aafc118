"""Which runs stand for a row of a table, and their scores over seeds.

One label may have been run more than once with something else changed: another data set, another version of a suite.
One group of its runs is shown for each suite, of one training and one protocol; the others are counted, never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from harness.metrics import Column, Metric
from harness.papers.published import PAPER_PROFILE
from harness.stats import ALPHA, Summary, TTest, summarise, t_test
from harness.verdicts import Significance

if TYPE_CHECKING:
    import pandas


class Label(NamedTuple):
    """The name of a row: all that is chosen for its runs, except the seed."""

    profile: str
    variant: str
    setting: str
    encoder: str
    overrides: str

    def __str__(self) -> str:
        return self.variant + (f" ({self.overrides})" if self.overrides else "")


@dataclass(frozen=True)
class Cell:
    """Scores over seeds. `test` compares them with another cell; without it there is no `verdict`."""

    values: tuple[float, ...]
    summary: Summary
    test: TTest | None = None
    verdict: Significance | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Cell:
        """Summarise scores, one a seed."""
        return cls(tuple(values), summarise(values))


@dataclass(frozen=True)
class Group:
    """The runs that stand for a label in one suite: those with the most seeds (ties: newest).

    `lines` are their lines of the frame in order of seeds; `older` counts the other groups of the label.
    """

    group: str
    protocol: str
    older: int
    lines: pandas.DataFrame

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, ascending."""
        return tuple(sorted({int(seed) for seed in self.lines["seed"]}))

    @property
    def training(self) -> Mapping[str, str]:
        """The values of the runs' training as texts; none for an untrained encoder."""
        pairs = str(self.lines["training"].iloc[0]).split(",")
        return {name: value for name, _, value in (pair.partition("=") for pair in pairs) if name}

    @cached_property
    def scores(self) -> Mapping[Column, Mapping[int, float]]:
        """The scores of whole tasks by column and seed."""
        return self.scores_of("")

    def scores_of(self, part: str) -> Mapping[Column, Mapping[int, float]]:
        """The scores of one part of each task that has it, by column and seed; of whole tasks for the part ''."""
        found: dict[Column, dict[int, float]] = {}
        lines = self.lines[self.lines["part"] == part]
        columns = (lines[name] for name in ("task", "metric", "seed", "value"))
        for task, metric, seed, value in zip(*columns, strict=True):
            found.setdefault(Column(str(task), str(metric)), {})[int(seed)] = float(value)
        return found

    def cells(self, part: str = "") -> dict[Column, Cell]:
        """Return every column's cell, of whole tasks or of one part of each."""
        scores = self.scores_of(part) if part else self.scores
        return {column: Cell.of(list(values.values())) for column, values in scores.items()}


def kept_groups(frame: pandas.DataFrame) -> dict[tuple[Label, str], Group]:
    """Choose the group of each label and suite in a frame of scores."""
    ranked: dict[tuple[Label, str], list[tuple[tuple[int, str, str, str], pandas.DataFrame]]] = {}
    for key, part in frame.groupby([*Label._fields, "suite", "group", "protocol"], sort=False):
        *names, suite, group, protocol = map(str, key if isinstance(key, tuple) else (key,))
        rank = (int(part["seed"].nunique()), str(part["finished"].max()), group, protocol)
        ranked.setdefault((Label(*names), suite), []).append((rank, part))
    found = {}
    for place, ranks in ranked.items():
        (_, _, group, protocol), lines = max(ranks, key=lambda ranked: ranked[0])
        lines = lines.drop_duplicates(["seed", "task", "part", "metric"]).sort_values("seed", kind="stable")
        found[place] = Group(group, protocol, len(ranks) - 1, lines)
    return found


def compare(cell: Cell, against: Cell, metric: Metric, alpha: float = ALPHA) -> Cell:
    """Return a cell with its t-test against another and the verdict at a level of significance."""
    test = t_test(cell.values, against.values)
    if test is None:
        return replace(cell, test=None, verdict=None)
    verdict = Significance.NONE
    if test.p < alpha:
        gained = (test.difference > 0) == metric.larger_is_better
        verdict = Significance.BETTER if gained else Significance.WORSE
    return replace(cell, test=test, verdict=verdict)


def trained_apart(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Say which values of the training two sides of a comparison do not share; empty if there are none.

    `epochs 1 against 3, precision fp16 against fp32`. A value that one side does not have is not compared.
    """
    return ", ".join(
        f"{name} {one[name]} against {other[name]}" for name in one if one[name] != other.get(name, one[name])
    )


def beside_print(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the lines that may stand beside printed numbers.

    They come from the paper profile as shipped with this package, whatever a user's own profile is called.
    """
    return frame[(frame["profile"] == PAPER_PROFILE) & (frame["profile_origin"] == "package")]
