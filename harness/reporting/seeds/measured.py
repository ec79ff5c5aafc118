"""The scores that may fill a paper's tables: one group of runs a label and suite, without overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.metrics import Score
from harness.papers.schema import WITH_EVERY_RUN
from harness.reporting.seeds.groups import Cell, Group, kept_groups
from harness.spec import Place

if TYPE_CHECKING:
    import pandas

#: suite of the numbers that come with every run -> their column in the frame
_COLUMNS = {"dev": "dev", "cost": "minutes"}


@dataclass(frozen=True)
class Measurements:
    """The runs of a profile by place and suite. Cells are computed when they are first needed."""

    profile: str
    groups: Mapping[Place, Mapping[str, Group]]
    _cells: dict[Place, dict[Score, Cell]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: pandas.DataFrame, profile: str) -> Measurements:
        """Take a profile's runs without overrides from a frame of scores."""
        groups: dict[Place, dict[str, Group]] = {}
        part = frame[(frame["profile"] == profile) & (frame["overrides"] == "")]
        for (label, suite), group in kept_groups(part).items():
            groups.setdefault(Place(label.variant, label.setting, label.encoder), {})[suite] = group
        return cls(profile, groups)

    def cells(self, place: Place) -> Mapping[Score, Cell]:
        """Return the scores over seeds of a place; none if it was not run."""
        if place not in self._cells:
            groups = self.groups.get(place, {})
            found = {
                Score(suite, *column): cell for suite, group in groups.items() for column, cell in group.cells().items()
            }
            self._cells[place] = found | _with_every_run(groups)
        return self._cells[place]

    def older(self, place: Place) -> int:
        """Return how many groups of runs of a place are not shown, in the suite with the most."""
        return max((group.older for group in self.groups.get(place, {}).values()), default=0)


def _with_every_run(groups: Mapping[str, Group]) -> dict[Score, Cell]:
    """Dev score and minutes of the runs in the suite with the most seeds."""
    if not groups:
        return {}
    runs = max(groups.values(), key=lambda group: len(group.seeds)).lines.drop_duplicates("seed")
    found = {}
    for suite, name in _COLUMNS.items():
        values = [float(value) for value in runs[name].dropna()]
        if values:
            column, _ = WITH_EVERY_RUN[suite]
            found[Score(suite, *column)] = Cell.of(values)
    return found
