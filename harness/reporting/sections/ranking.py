"""Variants ranked over settings and encoders, with bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from harness.formatting import fixed, interval_text
from harness.method.naming import VariantName
from harness.metrics import Column, Metric
from harness.reporting.csvfiles import CsvFields
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.gains import has_trained_pooling
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import column_heading, suite_title
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import (
    FEWEST_SEEDS,
    Ranking,
    bootstrap_ranking,
    interquartile_mean,
    probability_of_improvement,
    stratified_interval,
)


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
        return [
            grid
            for table, grid in zip(self.tables, self.grids, strict=True)
            if table.source.profile == profile
        ]


def ranking_rows(table: RankingTable) -> Iterator[CsvFields]:
    """Mean ranks, from best to worst, each with the next variant."""
    profile = table.source.profile
    suite = table.source.suite
    shared = {"table": "ranking", "profile": profile, "suite": suite, **table.column._asdict()}
    columns = table.rows, table.names, [*table.names[1:], None], table.ranks, table.flips
    for rows, name, after, (mean, low, high), flip in zip(*columns, strict=True):
        rank = {"mean": mean, "low": low, "high": high, "against": after, "flip": flip}
        weak = {"weakened_by": table.marks(rows).strip()}
        yield {**shared, "variant": name, "n": table.seeds(rows), **rank, **weak}


#: a ranking of fewer trained variants says less than their table
FEWEST_RANKED = 3
#: the row of each variant in one place
ByPlace = Mapping[VariantName, Row]


@dataclass(frozen=True)
class RankingTable:
    """The variants of a summary table from best to worst in one average, over `places` that have
    all of them.

    `rows` are those of each variant, one for each place. `notes` say what is not ranked, and what
    weakens the scores.
    """

    source: SummaryTable
    column: Column
    places: tuple[str, ...]
    rows: tuple[tuple[Row, ...], ...]
    ranking: Ranking
    notes: tuple[str, ...] = ()

    @property
    def metric(self) -> Metric:
        return self.source.metric(self.column)

    @property
    def title(self) -> str:
        heading = column_heading(self.source.suite, self.column, several=True)
        return ": ".join(filter(None, heading))

    @property
    def names(self) -> list[str]:
        """How commands name the variants."""
        return [rows[0].label.name.code for rows in self.rows]

    @property
    def ranks(self) -> list[tuple[float, float, float]]:
        """The mean rank of each variant and the ends of its interval."""
        ranking = self.ranking
        numbers = (
            some[ranking.order].tolist() for some in (ranking.mean_rank, ranking.low, ranking.high)
        )
        return list(zip(*numbers, strict=True))

    @property
    def flips(self) -> list[float | None]:
        """The chance that the next variant is ahead with other seeds; None for the last one."""
        return [*self.ranking.flips.tolist(), None]

    def seeds(self, rows: Sequence[Row]) -> int:
        """The smallest number of seeds of a variant in any place."""
        return min(row.cells[self.column].summary.n for row in rows)

    def marks(self, rows: Sequence[Row]) -> str:
        """The marks of a variant's caveats in all places."""
        return "".join(dict.fromkeys(row.weakness([self.column]).marks for row in rows))


def ranking_tables(tables: Sequence[SummaryTable]) -> list[RankingTable]:
    """A ranking for each judged average of each summary table with FEWEST_RANKED trained variants
    in two settings.
    """
    return [
        ranking for table in tables for column in table.averages for ranking in _of(table, column)
    ]


def _of(table: SummaryTable, column: Column) -> Iterator[RankingTable]:
    blocks = {block.place: block for block in table.blocks if block.trained}
    by_place = {place: rows for place, block in blocks.items() if (rows := _rows(block, column))}
    places, names = _common(by_place)
    every = [[by_place[place][name] for place in places] for name in names]
    if sum(rows[0].is_trained for rows in every) < FEWEST_RANKED:
        return
    ranking = _ranking(every, column, table.metric(column).larger_is_better)
    ranked = tuple(tuple(every[at]) for at in ranking.order.tolist())
    made = RankingTable(table, column, tuple(places), ranked, ranking)
    yield replace(made, notes=tuple(filter(None, _notes(made, blocks, by_place, names))))


def _notes(
    table: RankingTable,
    blocks: Mapping[str, Block],
    by_place: Mapping[str, ByPlace],
    names: Sequence[VariantName],
) -> Iterator[str]:
    """What is not ranked, and what weakens the scores of ranked variants; some notes are empty."""
    few = [(rows[0], table.seeds(rows)) for rows in table.rows if table.seeds(rows) < FEWEST_SEEDS]
    yield _note(
        f"Unreliable intervals, fewer than {FEWEST_SEEDS} seeds",
        [f"{row.label.name} ({seeds})" for row, seeds in few if row.is_trained],
    )
    untrained = ((block, row) for block in blocks.values() for row in block.untrained)
    pooled = {row.label.name for block, row in untrained if not has_trained_pooling(block, row)}
    yield _note(
        "Read by another pooling than most trained variants",
        [name for name in names if name in pooled],
    )
    every = dict.fromkeys(name for rows in by_place.values() for name in rows)
    yield _note(
        "Not ranked, not run in every pair of setting and encoder",
        [name for name in every if name not in names],
    )
    kept = [rows for place, rows in by_place.items() if place in table.places]
    yield from weakness_notes(
        rows[name].weakness([table.column]) for name in names for rows in kept
    )
    unused = [place for place in by_place if place not in table.places]
    yield _note("Pairs not used, without some of these variants", unused, "; ")


def _note(text: str, listed: Sequence[object], separator: str = ", ") -> str:
    """`TEXT: A, B.`; empty if there is nothing to list."""
    return f"{text}: {separator.join(map(str, listed))}." if listed else ""


def _rows(block: Block, column: Column) -> ByPlace:
    return {row.label.name: row for row in block.rows if column in row.cells}


def _common(by_place: Mapping[str, ByPlace]) -> tuple[list[str], list[VariantName]]:
    """Two or more places and the variants that all of them have, with the largest product of the
    two numbers.

    Places are added in order of their number of variants, largest first.
    """
    best: tuple[int, list[str], list[VariantName]] = 0, [], []
    places = sorted(by_place, key=lambda place: -len(by_place[place]))
    for count in range(2, len(places) + 1):
        names = [
            name
            for name in by_place[places[0]]
            if all(name in by_place[place] for place in places[:count])
        ]
        if len(names) > 1 and len(names) * count > best[0]:
            best = len(names) * count, places[:count], names
    return sorted(best[1]), best[2]


def _ranking(variants: Sequence[Sequence[Row]], column: Column, larger_is_better: bool) -> Ranking:
    """The ranking of variants by their rows, one for each place."""
    scores = [[row.cells[column].values for row in rows] for rows in variants]
    seeds = max(len(some) for rows in scores for some in rows)
    values = np.full((len(variants), len(variants[0]), seeds), np.nan)
    for variant, rows in enumerate(scores):
        for place, some in enumerate(rows):
            values[variant, place, : len(some)] = some
    return bootstrap_ranking(values if larger_is_better else -values)


#: decimals of ranks
DIGITS = 2
LEGEND = (
    "Rank of each mean over seeds within its setting and encoder, 1 the best, averaged over settings and encoders. "
    "Intervals and chances: 1,000 bootstrap draws of the seeds.",
    "Chance to swap: how often the next variant is ahead with other seeds; 0% is a certain order, 50% a tie. Both are "
    "too optimistic with few seeds.",
    "Interquartile mean: of the middle half of all scores. Probability of improvement: that a seed is ahead of one of "
    "the next variant in the same setting and encoder, ties half, averaged over these. Both have 95 % intervals by a "
    "bootstrap within each (Agarwal et al., NeurIPS 2021).",
)
SWAP = "chance to swap with the next"
IQM = "interquartile mean"
NEXT = "probability of improvement on the next"


def ranking_grid(table: RankingTable) -> Grid:
    """Tabulate a ranking: ranks with their intervals, the chance of another order, and the means in
    each place.
    """
    columns = ("mean rank", f"{table.ranking.level:.0%} interval", SWAP, IQM, NEXT, *table.places)
    places = f"{len(table.places)} pairs of setting and encoder"
    title = f"Ranking by {suite_title(table.source.suite)} {table.title} over {places}"
    return Grid(
        f"ranking-{table.source.profile}-{table.source.suite}-{table.column.metric}",
        f"{title}, profile {table.source.profile}",
        ("variant", "seeds"),
        columns,
        (False,) * len(columns),
        (
            Section(
                "settings and encoders", tuple(map(partial(_line, table), range(len(table.rows))))
            ),
        ),
        table.notes,
        legend=LEGEND,
        paper_title=title,
    )


def _line(table: RankingTable, at: int) -> Line:
    rows = table.rows[at]
    mean, low, high = table.ranks[at]
    flip = table.flips[at]
    digits = table.metric.digits
    means = (CellText(fixed(row.cells[table.column].summary.mean, digits)) for row in rows)
    mine, *after = (
        [np.array(row.cells[table.column].values) for row in some]
        for some in table.rows[at : at + 2]
    )
    ends = stratified_interval(interquartile_mean, mine)
    middle = (
        fixed(float(interquartile_mean(mine)), digits),
        interval_text(ends.low, ends.high, digits),
    )
    shown = (
        fixed(mean, DIGITS),
        interval_text(low, high, DIGITS),
        ABSENT if flip is None else f"{flip:.0%}",
    )
    more = (
        CellText(middle[0], extra=middle[1]),
        _improvement(mine, *after, upward=table.metric.larger_is_better),
    )
    heads = (rows[0].label.name, f"{table.seeds(rows)}{table.marks(rows)}")
    return Line(heads, (*map(CellText, shown), *more, *means), "plain")


def _improvement(
    mine: Sequence[np.ndarray], *next_one: Sequence[np.ndarray], upward: bool
) -> CellText:
    """The probability that a seed is ahead of one of the next variant, with its interval."""
    if not next_one:
        return CellText(ABSENT)
    both = (mine, *next_one) if upward else (*next_one, mine)
    ends = stratified_interval(probability_of_improvement, *both)
    return CellText(
        f"{float(probability_of_improvement(*both)):.0%}",
        extra=f"{ends.low:.0%} to {ends.high:.0%}",
    )
