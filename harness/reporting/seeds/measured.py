"""The scores that may fill a paper's tables: of one profile, without overrides, one group of runs a label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.metrics import Score
from harness.papers.schema import BY_THE_WAY
from harness.reporting.seeds.summary import Cell, Group, Label, group_runs, group_values, kept_groups
from harness.spec import Place
from harness.stats import summarise

if TYPE_CHECKING:
    import pandas

#: suite that every run has by the way -> the frame's column of it
_OF_FRAME = {"dev": "dev", "cost": "minutes"}


@dataclass
class Measurements:
    """The runs of a profile. Cells are made when they are asked for."""

    profile: str
    frame: pandas.DataFrame
    groups: Mapping[Label, Group]
    _cells: dict[Place, dict[Score, Cell]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: pandas.DataFrame, profile: str) -> Measurements:
        """Those in a frame of `Store.frame()`."""
        part = frame[(frame["profile"] == profile) & (frame["overrides"] == "")]
        return cls(profile, part, kept_groups(part))

    def cells(self, place: Place) -> Mapping[Score, Cell]:
        """Scores over seeds by suite, task and metric; none for what was not run."""
        if place not in self._cells:
            self._cells[place] = dict(self._found(place))
        return self._cells[place]

    def older(self, place: Place) -> int:
        """How many groups of runs with the same label are left out."""
        kept = self.groups.get(Label(self.profile, *place, ""))
        return kept.older if kept else 0

    def _found(self, place: Place) -> Iterator[tuple[Score, Cell]]:
        label = Label(self.profile, *place, "")
        kept = self.groups.get(label)
        if kept is None:
            return
        runs = group_runs(self.frame, label, kept.group)
        for suite, part in runs.groupby("suite", sort=False):
            for column, values in group_values(part).items():
                yield Score(str(suite), *column), Cell(tuple(values), summarise(values))
        once = runs.drop_duplicates("seed")
        for suite, name in _OF_FRAME.items():
            values = [float(value) for value in once[name].dropna()] if name in once else []
            if values:
                yield Score(suite, *BY_THE_WAY[suite]), Cell(tuple(values), summarise(values))
