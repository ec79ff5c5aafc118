"""The old choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.metrics import AVERAGE, Column
from harness.papers.published import PAPER_PROFILE
from harness.reporting.seeds.caveats import Caveat, GroupState, caveats, has_collapsed
from harness.reporting.seeds.cells import Cell, Label
from harness.spec import UNTRAINED, Place
from harness.store import PRESENT, UNKNOWN, unjudged

if TYPE_CHECKING:
    import pandas

#: which group stands for a label: a present one before one of unknown state, and that before a stale one
_RANKS = {PRESENT: 2, UNKNOWN: 1}

#: columns of a frame that its groups read
_COLUMNS = ("suite", "task", "part", "metric", "seed", "value", "training", "pooling", "dev_task")


@dataclass(frozen=True, eq=False)
class Group:
    """The runs that stand for a label in one suite: those of the present code, data and values, or else the newest.

    `rows` are their lines in `frame`, in order of seeds; `columns` are some of its columns as arrays, for speed;
    `collapsed` are the seeds of collapsed runs.
    """

    group: str
    protocol: str
    freshness: GroupState
    frame: pandas.DataFrame
    columns: Mapping[str, NDArray[Any]]
    rows: slice
    collapsed: frozenset[int] = frozenset()

    @property
    def lines(self) -> pandas.DataFrame:
        return self.frame.iloc[self.rows]

    def _values(self, name: str) -> list[Any]:
        values: list[Any] = self.columns[name][self.rows].tolist()
        return values

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._values("seed"))))

    @property
    def training(self) -> Mapping[str, str]:
        """The values of the runs' training as texts; none for an untrained encoder."""
        pairs = (pair.partition("=") for pair in self._shared("training").split(","))
        return {name: value for name, _, value in pairs if name}

    @property
    def pooling(self) -> str:
        return self._shared("pooling")

    def _shared(self, name: str) -> str:
        return str(self.columns[name][self.rows.start])

    @cached_property
    def scores(self) -> Mapping[Column, Mapping[int, float]]:
        """The scores of whole tasks by column and seed."""
        return self.scores_of("")

    def scores_of(self, part: str) -> Mapping[Column, Mapping[int, float]]:
        """The scores of one part of each task that has it, by column and seed; of whole tasks for the part ''."""
        scores: dict[Column, dict[int, float]] = {}
        columns = map(self._values, ("part", "task", "metric", "seed", "value"))
        for of, task, metric, seed, value in zip(*columns, strict=True):
            if of == part:
                scores.setdefault(Column(task, metric), {})[seed] = value
        return scores

    def cells(self, part: str = "") -> dict[Column, Cell]:
        """Return every column's cell, of whole tasks or of one part of each."""
        scores = self.scores_of(part) if part else self.scores
        return {column: Cell.of(values, self.caveats(column)) for column, values in scores.items()}

    def caveats(
        self, column: Column, tasks: Collection[str] = (), seeds: Collection[int] | None = None
    ) -> tuple[Caveat, ...]:
        """The caveats of its scores in a column. `tasks` are those of the suite, by default those with scores.

        `seeds` restricts them to some runs. Selection on a test is no caveat for a metric that is not judged.
        """
        dev = frozenset() if column.metric in unjudged(self._shared("suite")) else self._distinct["dev_task"]
        collapsed = self.collapsed if seeds is None else self.collapsed & {*seeds}
        return caveats(collapsed, dev, column.task, tasks or self._distinct["task"])

    @cached_property
    def _distinct(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(self._values(name)) for name in ("dev_task", "task")}


def kept_groups(frame: pandas.DataFrame, every: pandas.DataFrame | None = None) -> dict[tuple[Label, str], Group]:
    """Choose the group of each label and suite in a frame of scores, the present one if there is one.

    If the frame is a part of `every`, collapsed runs are detected in `every`.
    """
    collapsed = _collapsed_runs(frame if every is None else every)
    times = frame["finished"].cat.reorder_categories(sorted(frame["finished"].cat.categories)).cat.codes
    names = [*Label._fields, "suite", "group", "protocol"]
    grouped = frame.assign(time=times).groupby(names, sort=False, observed=True)
    counted = grouped.agg(seeds=("seed", "nunique"), time=("time", "max"), state=("present", "first"))
    ranked: dict[tuple[Label, str], list[Any]] = {}
    for group in counted.reset_index().itertuples():
        ranked.setdefault((Label(*group[1:6]), str(group.suite)), []).append(group)
    for some in ranked.values():
        some.sort(key=_rank, reverse=True)
    chosen = [best.Index for best, *_ in ranked.values()]
    lines, rows = _in_groups(frame.assign(number=grouped.ngroup()), chosen)
    arrays = {name: lines[name].astype(object).to_numpy() for name in _COLUMNS}
    return {
        place: Group(
            best.group,
            best.protocol,
            GroupState(best.seeds, best.state, tuple((other.seeds, other.state) for other in others)),
            lines,
            arrays,
            where,
            collapsed.get(best.group, frozenset()),
        )
        for (place, (best, *others)), where in zip(ranked.items(), rows, strict=True)
    }


def _rank(group: Any) -> tuple[object, ...]:
    """The sort key of a label's groups: of present ones, the one with most seeds is best; of others, the newest."""
    present = group.state == PRESENT
    return _RANKS.get(group.state, 0), group.seeds if present else 0, group.time, group.group, group.protocol


def _in_groups(frame: pandas.DataFrame, chosen: Sequence[int]) -> tuple[pandas.DataFrame, list[slice]]:
    """The lines of the chosen groups, one per score and seed, ordered by group and seed; and each group's slice."""
    lines = frame[frame["number"].isin(chosen)].sort_values(["number", "seed"])
    lines = lines.drop_duplicates(["number", "seed", "task", "part", "metric"]).reset_index(drop=True)
    starts, stops = (np.searchsorted(lines["number"], chosen, side).tolist() for side in ("left", "right"))
    return lines, [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


class PlaceRuns(NamedTuple):
    """The runs of one profile without `--set`: their lines of a frame, and their groups by place and suite."""

    lines: pandas.DataFrame
    groups: Mapping[Place, Mapping[str, Group]]

    @classmethod
    def of(cls, frame: pandas.DataFrame, profile: str) -> PlaceRuns:
        """The runs of a profile in a frame.

        Runs of the paper profile may be compared with printed numbers, so only those of the profile in this package
        count, not those of a user's profile of the same name.
        """
        mine = (frame["profile"] == profile) & (frame["overrides"] == "")
        lines = frame[mine & (frame["profile_origin"] == "package") if profile == PAPER_PROFILE else mine]
        groups: dict[Place, dict[str, Group]] = {}
        for (label, suite), group in kept_groups(lines).items():
            groups.setdefault(Place(*label[1:4]), {})[suite] = group
        return cls(lines, groups)


def _collapsed_runs(frame: pandas.DataFrame) -> Mapping[str, frozenset[int]]:
    """The seeds of collapsed runs by group, as far as a frame has their alignment and uniformity."""
    wanted = frame["metric"].isin(["alignment", "uniformity"]) & (frame["part"] == "")
    lines = frame[wanted & (frame["task"] != AVERAGE) & (frame["setting"] != UNTRAINED)]
    measured: dict[tuple[str, int, str, str], dict[str, float]] = {}
    columns = ("group", "seed", "suite", "task", "metric", "value")
    for *run, metric, value in zip(*(lines[name].tolist() for name in columns), strict=True):
        group, seed, suite, task = run
        measured.setdefault((group, seed, suite, task), {})[metric] = value
    runs: dict[str, set[int]] = {}
    for (group, seed, *_), values in measured.items():
        if "uniformity" in values and has_collapsed(values.get("alignment"), values["uniformity"]):
            runs.setdefault(group, set()).add(seed)
    return {group: frozenset(seeds) for group, seeds in runs.items()}
