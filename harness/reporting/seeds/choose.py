"""Which runs stand for a row of a table, and the row with its cells.

One label may have been run more than once with something else changed: another data set, another
version of a suite. One group of its runs is shown for each suite, of one training and one protocol;
the others are counted, never mixed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.metrics import Column
from harness.papers.published import PAPER_PROFILE
from harness.reporting.seeds.caveats import (
    Caveat,
    GroupState,
    caveats,
    collapsed_runs,
    unread_runs,
)
from harness.reporting.seeds.cells import Cell, Label, PartColumn, Row
from harness.reporting.seeds.galleries import (
    RowGalleries,
    galleries_of,
    gallery_caveat,
    unlike_tasks,
)
from harness.reporting.seeds.spent import read_json
from harness.stats import summarise
from harness.store import PRESENT, UNKNOWN, Frames, lines_of, list_unjudged_metrics

if TYPE_CHECKING:
    import pandas

_LABEL = list(Label._fields)
#: which group stands for a label: a present one before one of unknown state, and that before a
#: stale one
_RANKS = {PRESENT: 2, UNKNOWN: 1}


def chosen(frames: Frames, *scores: pandas.DataFrame) -> pandas.DataFrame:
    """The evaluations of one group of runs and one protocol for each label and suite, the present
    one if there is one.

    Of present groups, the one with most seeds is chosen, of others the newest. Only evaluations
    with some of the `scores` count. The lines are ordered by `row`, a number for each label and
    suite, and by seed; `evaluation` and `run` are rows of the frames, `freshness` is the group's.
    """
    import pandas

    with_scores = np.zeros(len(frames.evaluations), bool)
    for some in scores:
        with_scores[some["evaluation"].to_numpy()] = True
    every = frames.evaluations[["run", "suite", "protocol", "finished"]].assign(
        state=frames.present
    )[with_scores]
    every = every.rename_axis("evaluation").reset_index()
    every = every.join(frames.runs[[*_LABEL, "group", "seed"]], on="run")
    every["time"] = pandas.factorize(every["finished"], sort=True)[0]
    every["row"] = every.groupby([*_LABEL, "suite"], observed=True, sort=False).ngroup()
    grouped = every.groupby(["row", "group", "protocol"], observed=True, sort=False)
    groups = grouped.agg(
        seeds=("seed", "nunique"), time=("time", "max"), state=("state", "first")
    ).reset_index()
    # texts, since categories would be sorted by first appearance
    groups = groups.astype({"group": str, "protocol": str, "state": object})
    groups["rank"] = groups["state"].map(_RANKS).fillna(0)
    groups["most"] = groups["seeds"].where(groups["state"] == PRESENT, 0)
    groups = groups.sort_values(
        ["row", "rank", "most", "time", "group", "protocol"], ascending=False
    )
    best = groups.drop_duplicates("row").index
    kept = every[grouped.ngroup().isin(best)].sort_values(["row", "seed"])
    return kept.assign(freshness=kept["row"].map(_states(groups)))


def groups_of(kept: pandas.DataFrame) -> dict[Label, str]:
    """The chosen group of each label, in the first of its suites."""
    first = kept.drop_duplicates(_LABEL)
    return {
        Label(*label): group
        for *label, group in first[[*_LABEL, "group"]].itertuples(index=False, name=None)
    }


def _states(groups: pandas.DataFrame) -> dict[int, GroupState]:
    """The freshness of each row's first group; the others are hidden."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row, seeds, state in zip(
        *(groups[name].tolist() for name in ("row", "seeds", "state")), strict=True
    ):
        found.setdefault(row, []).append((seeds, state))
    return {row: GroupState(*best, tuple(hidden)) for row, (best, *hidden) in found.items()}


def rows_of(frames: Frames, kept: pandas.DataFrame, *scores: pandas.DataFrame) -> list[Row]:
    """The rows of chosen evaluations, with the cells of all their `scores`, of whole tasks and of
    parts.
    """
    numbers = _by_row(kept, scores)
    groups = kept["group"].unique()
    weak_seeds = WeakSeeds(collapsed_runs(frames, groups), unread_runs(frames, groups))
    runs = frames.runs[["dev_task", "training", "pooling", "batches", "teachers"]]
    lines = kept[kept["row"].isin(numbers.keys())].join(runs, on="run")
    members: dict[int, list[tuple[Any, ...]]] = {}
    columns = (
        lines[name].tolist() for name in ("row", "seed", "run", "group", "dev_task", "batches")
    )
    for row, *member in zip(*columns, strict=True):
        members.setdefault(row, []).append(tuple(member))
    firsts = list(lines_of(lines.drop_duplicates("row")))
    galleries = galleries_of(frames, kept)
    tables: dict[tuple[str, str], list[RowGalleries]] = {}
    for first in firsts:
        tables.setdefault((first.profile, first.suite), []).append(galleries.get(first.row, {}))
    unlike = {place: unlike_tasks(rows) for place, rows in tables.items()}

    rows = []
    for first in firsts:
        row = _row(
            frames,
            first,
            members[first.row],
            numbers[first.row],
            weak_seeds,
            galleries.get(first.row, {}),
            unlike[first.profile, first.suite],
        )
        rows.append(row)
    return rows


#: the scores of a row: seeds and values, by part and column
RowScores = Mapping[PartColumn, tuple[tuple[int, ...], tuple[float, ...]]]


def _by_row(kept: pandas.DataFrame, scores: Sequence[pandas.DataFrame]) -> Mapping[int, RowScores]:
    """The scores of chosen evaluations by row; of two of a seed, the first counts."""
    import pandas

    of = ["row", "part", "task", "metric"]
    lines = pandas.concat([some.astype(dict.fromkeys(of[1:], object)) for some in scores])
    lines = lines.merge(kept[["evaluation", "row", "seed"]], on="evaluation").sort_values(
        ["row", "seed"]
    )
    lines["cell"] = pandas.factorize(lines.groupby(of, sort=False).ngroup())[
        0
    ]  # in order of first appearance
    lines = lines.drop_duplicates(["cell", "seed"]).sort_values("cell", kind="stable")
    starts = np.flatnonzero(np.diff(lines["cell"], prepend=-1))
    seeds = lines["seed"].tolist()
    values = lines["value"].tolist()
    column_of = cache(Column)
    shared = cache(
        lambda *seeds: seeds
    )  # one tuple for the many cells of equal seeds, to save memory
    places = pairwise([*starts.tolist(), len(lines)])
    found: dict[int, dict[PartColumn, tuple[tuple[int, ...], tuple[float, ...]]]] = {}
    for (row, part, *column), (start, end) in zip(
        lines[of].iloc[starts].to_numpy(), places, strict=True
    ):
        found.setdefault(row, {})[part, column_of(*column)] = (
            shared(*seeds[start:end]),
            tuple(values[start:end]),
        )
    return found


class WeakSeeds(NamedTuple):
    """The seeds of runs with a weakness, by group: collapsed ones, and those that read no text."""

    collapsed: Mapping[str, Collection[int]]
    unread: Mapping[str, Collection[int]]


def _row(
    frames: Frames,
    first: Any,
    members: Sequence[tuple[Any, ...]],
    numbers: RowScores,
    weak_seeds: WeakSeeds,
    galleries: RowGalleries,
    unlike: Collection[str],
) -> Row:
    """The row of evaluations in order of seeds, of one group or, where each seed picks its trial,
    of several.

    `first` is the line of the first one; each of the `members` has seed, run, group, dev task and
    batches. `galleries` are those of the row, `unlike` the tasks whose rows have several.
    """
    seeds, rows, groups, dev_tasks, batches = zip(*members, strict=True)
    runs = dict[int, int]()
    for seed, run in zip(seeds, rows, strict=True):
        runs.setdefault(seed, run)
    members_of = list(zip(seeds, groups, strict=True))
    collapsed = {seed for seed, group in members_of if seed in weak_seeds.collapsed.get(group, ())}
    unread = {seed for seed, group in members_of if seed in weak_seeds.unread.get(group, ())}
    dev = {*dev_tasks}
    tasks = {column.task for _, column in numbers}
    free = list_unjudged_metrics(first.suite)

    @cache
    def weak(task: str, judged: bool) -> tuple[Caveat, ...]:
        # selection on a test is no caveat for a metric that is not judged
        known = caveats(collapsed, unread, dev if judged else (), task, tasks)
        return (*known, *gallery_caveat(task, unlike, galleries))

    cells = {
        at: Cell(*some, summarise(some[1]), weak(at[1].task, at[1].metric not in free))
        for at, some in numbers.items()
    }
    label = Label(*(getattr(first, name) for name in _LABEL))
    return Row(
        label=label,
        seeds=tuple(runs),
        cells={column: cell for (part, column), cell in cells.items() if not part},
        parts={at: cell for at, cell in cells.items() if at[0]},
        galleries=galleries,
        suite=first.suite,
        group=first.group,
        protocol=first.protocol,
        freshness=first.freshness,
        training=_training(first.training),
        pooling=first.pooling,
        teachers=[(use["of"], use["teacher"]) for use in read_json(first.teachers).values()],
        batches=first.batches if len({*batches}) == 1 else "",
        runs=tuple(runs.values()),
        is_method=label.is_method,
        frames=frames,
    )


@cache
def _training(text: str) -> Mapping[str, str]:
    """The values of a training by name."""
    return {
        name: value for name, _, value in (pair.partition("=") for pair in text.split(",")) if name
    }


def profile_runs(frames: Frames, profile: str, variants: Collection[str] | None = None) -> Frames:
    """The runs of a profile without `--set`, of all or of some variants.

    Runs of the paper profile may be compared with printed numbers, so only those of the profile in
    this package count, not those of a user's profile of the same name.
    """
    wanted: dict[str, Collection[str]] = {"profile": [profile], "overrides": ["{}"]}
    wanted |= {"profile_origin": ["package"]} if profile == PAPER_PROFILE else {}
    return frames.where(**wanted, **({} if variants is None else {"variant": variants}))


def rows_by_label(frames: Frames, *scores: pandas.DataFrame) -> dict[Label, dict[str, Row]]:
    """The rows with some of the `scores`, by label and suite."""
    found: dict[Label, dict[str, Row]] = {}
    for row in rows_of(frames, chosen(frames, *scores), *scores):
        found.setdefault(row.label, {})[row.suite] = row
    return found
