"""Variants ranked over settings and encoders, with bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from harness.formatting import count_of, fixed, interval_text
from harness.method.naming import VariantName
from harness.metrics import Column, Metric
from harness.reporting.csvfiles import CsvFields
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.gains import has_trained_pooling
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import heading, suite_title
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import FEWEST_SEEDS, bootstrap_ranking


class RankingSection(ReportSection):
    """The variants of each profile and suite ranked over settings and encoders."""

    order = 350
    title = "Rankings"

    @cached_property
    def tables(self) -> list[RankingTable]:
        return ranking_tables(self.contents.tables)

    @cached_property
    def grids(self) -> Sequence[Grid]:
        return list(map(ranking_grid, self.tables))

    def rows(self) -> Iterable[CsvFields]:
        return (fields for table in self.tables for fields in ranking_rows(table))

    @property
    def is_shown(self) -> bool:
        """Whether there is a ranking; the pages of profiles show it."""
        return bool(self.tables)

    def of_profile(self, profile: str) -> Sequence[Grid]:
        return [grid for table, grid in zip(self.tables, self.grids, strict=True) if table.source.profile == profile]


def ranking_rows(table: RankingTable) -> Iterator[CsvFields]:
    """Mean ranks, from best to worst, each with the next variant."""
    profile, suite = table.source.profile, table.source.suite
    shared = {"table": "ranking", "profile": profile, "suite": suite, **table.column._asdict()}
    following = [*(row.name.code for row in table.rows[1:]), None]
    for row, after in zip(table.rows, following, strict=True):
        rank = {"mean": row.rank, "low": row.low, "high": row.high, "against": after, "flip": row.flip}
        yield {**shared, "variant": row.name.code, "n": row.seeds, **rank, "weakened_by": row.marks.strip()}


#: the values of each variant over seeds, in one place
ByPlace = Mapping[VariantName, Sequence[float]]


class RankedRow(NamedTuple):
    """A variant with its mean rank, the interval of that rank, and its mean score in each place.

    `seeds` is its smallest number of seeds in any place, and `marks` are those of its caveats. `flip` is the chance
    that the next row is ahead with other seeds; None in the last row.
    """

    name: VariantName
    seeds: int
    rank: float
    low: float
    high: float
    means: tuple[float, ...]
    flip: float | None
    marks: str = ""


@dataclass(frozen=True)
class RankingTable:
    """The variants of a summary table from best to worst in one average, over `places` that have all of them.

    `level` is that of the intervals; `notes` say what is not ranked, and what weakens the scores.
    """

    source: SummaryTable
    column: Column
    places: tuple[str, ...]
    rows: tuple[RankedRow, ...]
    level: float
    notes: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        return self.source.metric(self.column)

    @property
    def title(self) -> str:
        return ": ".join(filter(None, heading(self.column, several=True)))


def ranking_tables(tables: Sequence[SummaryTable]) -> list[RankingTable]:
    """A ranking for each judged average of each summary table with at least two variants in two places."""
    return [ranking for table in tables for column in table.averages for ranking in _of(table, column)]


def _of(table: SummaryTable, column: Column) -> Iterator[RankingTable]:
    blocks = {block.place: block for block in table.blocks if block.trained}
    by_place = {place: scores for place, block in blocks.items() if (scores := _scores(block, column))}
    places, names = _common(by_place)
    if len(names) < 2:
        return
    kept = [block for block in table.blocks if block.place in places]
    weak = {
        name: [row.weakness([column]) for block in kept for row in block.rows if row.label.name == name]
        for name in names
    }
    rows, level = _ranked([by_place[place] for place in places], names, table.metric(column).larger_is_better)
    marked = [row._replace(marks="".join(dict.fromkeys(weakness.marks for weakness in weak[row.name]))) for row in rows]
    untrained = [(block, row) for block in blocks.values() for row in block.untrained]
    every = dict.fromkeys(name for scores in by_place.values() for name in scores)
    trained = {*names} - {row.label.name for _, row in untrained}
    pooled = {row.label.name for block, row in untrained if not has_trained_pooling(block, row)}
    notes = (
        _note(
            f"Unreliable intervals, fewer than {FEWEST_SEEDS} seeds",
            [f"{row.name} ({row.seeds})" for row in rows if row.name in trained and row.seeds < FEWEST_SEEDS],
        ),
        _note("Read by another pooling than most trained variants", [name for name in names if name in pooled]),
        _note("Not ranked, not run in every place", [name for name in every if name not in names]),
        *weakness_notes(weakness for some in weak.values() for weakness in some),
        _note(
            "Places not used, without some of these variants",
            [place for place in by_place if place not in places],
            "; ",
        ),
    )
    yield RankingTable(table, column, tuple(places), tuple(marked), level, tuple(filter(None, notes)))


def _note(text: str, listed: Sequence[object], separator: str = ", ") -> str:
    """`TEXT: A, B.`; empty if there is nothing to list."""
    return f"{text}: {separator.join(map(str, listed))}." if listed else ""


def _scores(block: Block, column: Column) -> ByPlace:
    return {row.label.name: row.cells[column].values for row in block.rows if column in row.cells}


def _common(by_place: Mapping[str, ByPlace]) -> tuple[list[str], list[VariantName]]:
    """Two or more places and the variants that all of them have, with the largest product of the two numbers.

    Places are added in order of their number of variants, largest first.
    """
    best: tuple[int, list[str], list[VariantName]] = 0, [], []
    places = sorted(by_place, key=lambda place: -len(by_place[place]))
    for count in range(2, len(places) + 1):
        names = [name for name in by_place[places[0]] if all(name in by_place[place] for place in places[:count])]
        if len(names) > 1 and len(names) * count > best[0]:
            best = len(names) * count, places[:count], names
    return sorted(best[1]), best[2]


def _ranked(
    places: Sequence[ByPlace], names: Sequence[VariantName], larger_is_better: bool
) -> tuple[list[RankedRow], float]:
    seeds = max(len(scores[name]) for scores in places for name in names)
    values = np.full((len(names), len(places), seeds), np.nan)
    for at, scores in enumerate(places):
        for row, name in enumerate(names):
            values[row, at, : len(scores[name])] = scores[name]
    ranking = bootstrap_ranking(values if larger_is_better else -values)
    means = np.nanmean(values, axis=2)
    flips = [*ranking.flips.tolist(), None]
    rows = [
        RankedRow(
            names[at],
            min(len(scores[names[at]]) for scores in places),
            float(ranking.mean_rank[at]),
            float(ranking.low[at]),
            float(ranking.high[at]),
            tuple(means[at].tolist()),
            flip,
        )
        for at, flip in zip(ranking.order.tolist(), flips, strict=True)
    ]
    return rows, ranking.level


#: decimals of ranks
DIGITS = 2
LEGEND = (
    "Rank of each mean over seeds within its setting and encoder, 1 the best, averaged over settings and encoders. "
    "Intervals and chances: 1,000 bootstrap draws of the seeds.",
    "Chance to swap: how often the next variant is ahead with other seeds; 0% is a certain order, 50% a tie. Both are "
    "too optimistic with few seeds.",
)


def ranking_grid(table: RankingTable) -> Grid:
    """Tabulate a ranking: ranks with their intervals, the chance of another order, and the means in each place."""
    columns = ("mean rank", f"{table.level:.0%} interval", "chance to swap with the next", *table.places)
    places = count_of(len(table.places), "place")
    name = f"{suite_title(table.source.suite)} {table.title}"
    return Grid(
        f"ranking-{table.source.profile}-{table.source.suite}-{table.column.metric}",
        f"Ranking by {name} over {places}, profile {table.source.profile}",
        ("variant", "seeds"),
        columns,
        (False,) * len(columns),
        (Section("settings and encoders", tuple(_line(table, row) for row in table.rows)),),
        table.notes,
        legend=LEGEND,
    )


def _line(table: RankingTable, row: RankedRow) -> Line:
    means = (CellText(fixed(mean, table.metric.digits)) for mean in row.means)
    flip = ABSENT if row.flip is None else f"{row.flip:.0%}"
    ranks = (CellText(fixed(row.rank, DIGITS)), CellText(interval_text(row.low, row.high, DIGITS)), CellText(flip))
    return Line((row.name, f"{row.seeds}{row.marks}"), (*ranks, *means), "plain")
