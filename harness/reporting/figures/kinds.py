"""Kinds of figures: the interface of the entry points in the group `harness.figures`.

A kind draws one figure of a paper from the runs that the paper's file names. Imports no plotting
library, so that a kind can be asked for its suites cheaply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from harness.metrics import AVERAGE, ArrayName, Metric, Metrics, Score
from harness.papers.schema import FigureSpec
from harness.reporting.look import ChartSpec
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.stats import Summary

if TYPE_CHECKING:
    import numpy as np

    from harness.store import Result


@dataclass(frozen=True)
class FigureRun:
    """Runs that differ only in their seed: their row in each suite, and the result of the lowest
    seed.
    """

    label: Label
    rows: Mapping[str, Row]
    result: Result
    read_arrays: Callable[[Result], Mapping[ArrayName, np.ndarray]] = field(repr=False)

    @cached_property
    def arrays(self) -> Mapping[ArrayName, np.ndarray]:
        """Arrays stored beside the result of the lowest seed; empty if there are none."""
        return self.read_arrays(self.result)

    def cell(self, score: Score) -> Cell | None:
        """A score over seeds; None if no seed has it."""
        return self.rows[score.suite].cell(score.column) if score.suite in self.rows else None

    def summary(self, score: Score) -> Summary | None:
        """Mean and standard deviation over seeds; None if no seed has the score."""
        cell = self.cell(score)
        return cell.summary if cell else None

    def source(self, score: Score, part: str = "") -> dict[str, object]:
        """The row and the column of a table that a point is from, for the data of the figure."""
        return {**self.label._asdict(), **score._asdict(), "part": part}


def name_labels(labels: Sequence[Label]) -> list[str]:
    """A name for each label: its variant's, and its setting and encoder where the labels differ in
    these.

    Variants that are named alike have their codes.
    """
    settings = {label.setting for label in labels}
    encoders = {label.encoder for label in labels}
    codes: dict[str, set[str]] = {}
    for label in labels:
        codes.setdefault(label.name.text, set()).add(label.name.code)

    names = []
    for label in labels:
        is_unique = len(codes[label.name.text]) == 1
        parts = [label.name.text if is_unique else label.name.code]
        if len(settings) > 1:
            parts.append(label.setting)
        if len(encoders) > 1:
            parts.append(label.encoder)
        names.append(" / ".join(parts))
    return names


def name_places(labels: Sequence[Label]) -> list[str]:
    """A title for each label: its setting, and its encoder where the labels differ in it."""
    several_encoders = len({label.encoder for label in labels}) > 1
    return [label.place if several_encoders else label.setting for label in labels]


@dataclass(frozen=True)
class Drawing:
    """A figure to be rendered: a Vega-Lite specification, a caption and the runs shown."""

    spec: ChartSpec
    text: str
    runs: Sequence[FigureRun]


@dataclass(frozen=True)
class FigureData:
    """Everything a figure may be drawn from.

    `runs` are in the order of the paper's file. `is_paper` says whether printed numbers may be
    shown: `printed` are the named values that the file asks for as lines, empty otherwise. `task`
    is the task of the file, or the suite's first task in another profile. `index` is the figure's
    place among the paper's figures of the same kind and metric, from 0.
    """

    spec: FigureSpec
    runs: Sequence[FigureRun]
    metrics: Metrics
    task: str = ""
    is_paper: bool = False
    printed: Sequence[tuple[str, float]] = ()
    index: int = 0

    @property
    def average(self) -> Score:
        """The average of the suite and metric that the paper's file names."""
        return Score(self.spec.suite, AVERAGE, self.spec.metric)

    @property
    def unevaluated(self) -> str:
        """Why nothing is drawn if no run has scores in the figure's suite."""
        return f"no run has been evaluated on {self.spec.suite} yet"

    def metric(self, suite: str, name: str) -> Metric:
        """A metric as its suite declares it."""
        return self.metrics.get(suite, {}).get(name) or Metric(name)

    def with_arrays(self, what: str, space: str = "") -> tuple[str, list[FigureRun]]:
        """The task that an array belongs to, and the runs that have it.

        The task is that of the paper's file, or the first with such an array in another profile.
        """
        task = self.spec.task
        if not self.is_paper:
            names = chain.from_iterable(run.arrays for run in self.runs)
            tasks = (name.task for name in names if (name.what, name.space) == (what, space))
            task = next(tasks, task)
        return task, [run for run in self.runs if ArrayName(task, what, space) in run.arrays]


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure, as an entry point of `harness.figures` names it.

    `draw` returns a Drawing, or one line that says why there is nothing to draw. `suites` are
    evaluated in addition to the suite that the paper's file names.
    """

    draw: Callable[[FigureData], Drawing | str]
    suites: tuple[str, ...] = ()
