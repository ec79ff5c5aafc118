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
    find_caveats,
    find_collapsed_runs,
    find_unread_runs,
)
from harness.reporting.seeds.cells import Cell, Label, PartColumn, Row
from harness.reporting.seeds.galleries import (
    RowGalleries,
    find_galleries,
    find_unlike_tasks,
    make_gallery_caveat,
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


def choose_evaluations(frames: Frames, *scores: pandas.DataFrame) -> pandas.DataFrame:
    """The evaluations of one group of runs and one protocol for each label and suite, the present
    one if there is one.

    Of present groups, the one with most seeds is chosen, of others the newest. Only evaluations
    with some of the `scores` count. The lines are ordered by `row`, a number for each label and
    suite, and by seed; `evaluation` and `run` are rows of the frames, `freshness` is the group's.
    """
    import pandas

    has_scores = np.zeros(len(frames.evaluations), bool)
    for scores_of_kind in scores:
        has_scores[scores_of_kind["evaluation"].to_numpy()] = True

    evaluations = frames.evaluations[["run", "suite", "protocol", "finished"]]
    evaluations = evaluations.assign(state=frames.present)[has_scores]
    evaluations = evaluations.rename_axis("evaluation").reset_index()
    evaluations = evaluations.join(frames.runs[[*_LABEL, "group", "seed"]], on="run")
    evaluations["time"] = pandas.factorize(evaluations["finished"], sort=True)[0]
    by_row = evaluations.groupby([*_LABEL, "suite"], observed=True, sort=False)
    evaluations["row"] = by_row.ngroup()

    by_group = evaluations.groupby(["row", "group", "protocol"], observed=True, sort=False)
    groups = by_group.agg(
        seeds=("seed", "nunique"), time=("time", "max"), state=("state", "first")
    ).reset_index()
    # texts, since categories would be sorted by first appearance
    groups = groups.astype({"group": str, "protocol": str, "state": object})
    groups["rank"] = groups["state"].map(_RANKS).fillna(0)
    groups["most"] = groups["seeds"].where(groups["state"] == PRESENT, 0)
    order = ["row", "rank", "most", "time", "group", "protocol"]
    groups = groups.sort_values(order, ascending=False)

    best = groups.drop_duplicates("row").index
    chosen_evaluations = evaluations[by_group.ngroup().isin(best)].sort_values(["row", "seed"])
    return chosen_evaluations.assign(freshness=chosen_evaluations["row"].map(_find_states(groups)))


def find_groups(kept: pandas.DataFrame) -> dict[Label, str]:
    """The chosen group of each label, in the first of its suites."""
    firsts = kept.drop_duplicates(_LABEL)
    lines = firsts[[*_LABEL, "group"]].itertuples(index=False, name=None)
    return {Label(*label): group for *label, group in lines}


def _find_states(groups: pandas.DataFrame) -> dict[int, GroupState]:
    """The freshness of each row's first group; the others are hidden."""
    states_by_row: dict[int, list[tuple[int, str]]] = {}
    lines = groups[["row", "seeds", "state"]].itertuples(index=False, name=None)
    for row, seeds, state in lines:
        states_by_row.setdefault(row, []).append((seeds, state))

    freshness = {}
    for row, (newest_state, *hidden) in states_by_row.items():
        freshness[row] = GroupState(*newest_state, tuple(hidden))
    return freshness


def make_rows(frames: Frames, kept: pandas.DataFrame, *scores: pandas.DataFrame) -> list[Row]:
    """The rows of chosen evaluations, with the cells of all their `scores`, of whole tasks and of
    parts.
    """
    scores_by_row = _group_scores(kept, scores)
    groups = kept["group"].unique()
    weak_seeds = WeakSeeds(find_collapsed_runs(frames, groups), find_unread_runs(frames, groups))

    of_runs = frames.runs[["dev_task", "training", "pooling", "batches", "teachers"]]
    lines = kept[kept["row"].isin(scores_by_row.keys())].join(of_runs, on="run")
    members = _group_members(lines)
    firsts = list(lines_of(lines.drop_duplicates("row")))

    galleries = find_galleries(frames, kept)
    tables: dict[tuple[str, str], list[RowGalleries]] = {}
    for first in firsts:
        tables.setdefault((first.profile, first.suite), []).append(galleries.get(first.row, {}))
    unlike = {place: find_unlike_tasks(rows) for place, rows in tables.items()}

    rows = []
    shared_cells: dict[PartColumn, Cell] = {}
    for first in firsts:
        row = _make_row(
            frames,
            first,
            members[first.row],
            scores_by_row[first.row],
            weak_seeds,
            galleries.get(first.row, {}),
            unlike[first.profile, first.suite],
            shared_cells,
        )
        rows.append(row)
    return rows


class Member(NamedTuple):
    """An evaluation of a row: the seed, row in the frames and group of its run, and two of its
    fields.
    """

    seed: int
    run: int
    group: str
    dev_task: str
    batches: str


def _group_members(lines: pandas.DataFrame) -> dict[int, list[Member]]:
    """The evaluations of each row."""
    members: dict[int, list[Member]] = {}
    columns = [lines[name].tolist() for name in Member._fields]
    for row, *fields in zip(lines["row"].tolist(), *columns, strict=True):
        members.setdefault(row, []).append(Member(*fields))
    return members


#: the scores of a row: seeds and values, by part and column
RowScores = Mapping[PartColumn, tuple[tuple[int, ...], tuple[float, ...]]]


def _group_scores(
    kept: pandas.DataFrame, scores: Sequence[pandas.DataFrame]
) -> Mapping[int, RowScores]:
    """The scores of chosen evaluations by row; of two of a seed, the first counts."""
    import pandas

    place = ["row", "part", "task", "metric"]
    texts = dict.fromkeys(place[1:], object)
    lines = pandas.concat([scores_of_kind.astype(texts) for scores_of_kind in scores])
    lines = lines.merge(kept[["evaluation", "row", "seed"]], on="evaluation")
    lines = lines.sort_values(["row", "seed"])

    # cells are numbered in order of first appearance
    cells = lines.groupby(place, sort=False).ngroup()
    lines["cell"] = pandas.factorize(cells)[0]
    lines = lines.drop_duplicates(["cell", "seed"]).sort_values("cell", kind="stable")
    starts = np.flatnonzero(np.diff(lines["cell"], prepend=-1))
    seeds = lines["seed"].tolist()
    values = lines["value"].tolist()

    make_column = cache(Column)
    # one tuple for the many cells of equal seeds, to save memory
    share_seeds = cache(lambda *seeds: seeds)
    scores_by_row: dict[int, dict[PartColumn, tuple[tuple[int, ...], tuple[float, ...]]]] = {}
    places = lines[place].iloc[starts].to_numpy()
    ends = [*starts.tolist(), len(lines)]
    for (row, part, *column), (start, end) in zip(places, pairwise(ends), strict=True):
        scores_of_row = scores_by_row.setdefault(row, {})
        scores_of_row[part, make_column(*column)] = (
            share_seeds(*seeds[start:end]),
            tuple(values[start:end]),
        )
    return scores_by_row


class WeakSeeds(NamedTuple):
    """The seeds of runs with a weakness, by group: collapsed ones, and those that read no text."""

    collapsed: Mapping[str, Collection[int]]
    unread: Mapping[str, Collection[int]]

    def among(self, members: Sequence[Member]) -> tuple[set[int], set[int]]:
        """The seeds of a row that have collapsed, and those that read no text."""
        collapsed = set()
        unread = set()
        for member in members:
            if member.seed in self.collapsed.get(member.group, ()):
                collapsed.add(member.seed)
            if member.seed in self.unread.get(member.group, ()):
                unread.add(member.seed)
        return collapsed, unread


def _make_row(
    frames: Frames,
    first: Any,
    members: Sequence[Member],
    scores: RowScores,
    weak_seeds: WeakSeeds,
    galleries: RowGalleries,
    unlike: Collection[str],
    shared_cells: dict[PartColumn, Cell],
) -> Row:
    """The row of evaluations in order of seeds, of one group or, where each seed picks its trial,
    of several.

    `first` is the line of the first one. `galleries` are those of the row, `unlike` the tasks whose
    rows have several. `shared_cells` are the newest ones, which the row shares where it has equal
    ones.
    """
    run_by_seed = dict[int, int]()
    for member in members:
        run_by_seed.setdefault(member.seed, member.run)
    collapsed, unread = weak_seeds.among(members)
    dev_tasks = {member.dev_task for member in members}
    tasks = {column.task for _, column in scores}
    unjudged = list_unjudged_metrics(first.suite)

    @cache
    def list_caveats(task: str, is_judged: bool) -> tuple[Caveat, ...]:
        # selection on a test is no caveat for a metric that is not judged
        selected_on = dev_tasks if is_judged else ()
        of_weights = find_caveats(collapsed, unread, selected_on, task, tasks)
        return (*of_weights, *make_gallery_caveat(task, unlike, galleries))

    cells = {}
    parts = {}
    for (part, column), (seeds, values) in scores.items():
        weak = list_caveats(column.task, column.metric not in unjudged)
        cell = shared_cells.get((part, column))
        # many rows have equal numbers of pairs: one cell for all of them saves memory
        if cell is None or (cell.seeds, cell.values, cell.caveats) != (seeds, values, weak):
            cell = Cell(seeds, values, summarise(values), weak)
            shared_cells[part, column] = cell
        if part:
            parts[part, column] = cell
        else:
            cells[column] = cell

    label = Label(*(getattr(first, name) for name in _LABEL))
    teachers = read_json(first.teachers).values()
    has_same_batches = len({member.batches for member in members}) == 1
    return Row(
        label=label,
        seeds=tuple(run_by_seed),
        cells=cells,
        parts=parts,
        galleries=galleries,
        suite=first.suite,
        group=first.group,
        protocol=first.protocol,
        freshness=first.freshness,
        training=_parse_training(first.training),
        pooling=first.pooling,
        teachers=[(use["of"], use["teacher"]) for use in teachers],
        batches=first.batches if has_same_batches else "",
        runs=tuple(run_by_seed.values()),
        is_method=label.is_method,
        frames=frames,
    )


@cache
def _parse_training(text: str) -> Mapping[str, str]:
    """The values of a training by name."""
    values = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if name:
            values[name] = value
    return values


def select_profile_runs(
    frames: Frames, profile: str, variants: Collection[str] | None = None
) -> Frames:
    """The runs of a profile without `--set`, of all or of some variants.

    Runs of the paper profile may be compared with printed numbers, so only those of the profile in
    this package count, not those of a user's profile of the same name.
    """
    selected: dict[str, Collection[str]] = {"profile": [profile], "overrides": ["{}"]}
    if profile == PAPER_PROFILE:
        selected["profile_origin"] = ["package"]
    if variants is not None:
        selected["variant"] = variants
    return frames.where(**selected)


def group_rows(frames: Frames, *scores: pandas.DataFrame) -> dict[Label, dict[str, Row]]:
    """The rows with some of the `scores`, by label and suite."""
    rows_by_suite: dict[Label, dict[str, Row]] = {}
    for row in make_rows(frames, choose_evaluations(frames, *scores), *scores):
        rows_by_suite.setdefault(row.label, {})[row.suite] = row
    return rows_by_suite
