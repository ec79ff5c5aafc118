"""Variants ranked over settings and encoders, with bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from harness.formatting import fixed, interval_text
from harness.method.naming import VariantName
from harness.metrics import Column, Metric
from harness.reporting.csvfiles import CsvFields
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.caveats import list_weakness_notes
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.gains import has_trained_pooling
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.wording import name_suite, split_column_heading
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
        return rank_tables(self.contents.tables)

    @cached_property
    def grids(self) -> Sequence[Grid]:
        return list(map(make_ranking_grid, self.tables))

    def rows(self) -> Iterable[CsvFields]:
        for table in self.tables:
            yield from list_ranking_fields(table)

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


def list_ranking_fields(table: RankingTable) -> Iterator[CsvFields]:
    """The lines of tables.csv of a ranking: mean ranks from best to worst, each with the next
    variant.
    """
    names = table.names
    next_names = [*names[1:], None]
    for index, rows in enumerate(table.rows):
        mean, low, high = table.ranks[index]
        yield {
            "table": "ranking",
            "profile": table.source.profile,
            "suite": table.source.suite,
            **table.column._asdict(),
            "variant": names[index],
            "n": table.seeds(rows),
            "mean": mean,
            "low": low,
            "high": high,
            "against": next_names[index],
            "flip": table.flips[index],
            "weakened_by": table.marks(rows).strip(),
        }


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
        heading = split_column_heading(self.source.suite, self.column, several=True)
        return ": ".join(filter(None, heading))

    @property
    def names(self) -> list[str]:
        """How commands name the variants."""
        return [rows[0].label.name.code for rows in self.rows]

    @property
    def ranks(self) -> list[tuple[float, float, float]]:
        """The mean rank of each variant and the ends of its interval."""
        ranking = self.ranking
        means = ranking.mean_rank[ranking.order].tolist()
        lows = ranking.low[ranking.order].tolist()
        highs = ranking.high[ranking.order].tolist()
        return list(zip(means, lows, highs, strict=True))

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


def rank_tables(tables: Sequence[SummaryTable]) -> list[RankingTable]:
    """A ranking for each judged average of each summary table with FEWEST_RANKED trained variants
    in two settings.
    """
    rankings = []
    for table in tables:
        for column in table.averages:
            ranking = rank_variants(table, column)
            if ranking is not None:
                rankings.append(ranking)
    return rankings


def rank_variants(table: SummaryTable, column: Column) -> RankingTable | None:
    """Rank the variants that two or more places have; None where too few trained ones are left."""
    blocks = {block.place: block for block in table.blocks if block.trained}
    by_place: dict[str, ByPlace] = {}
    for place, block in blocks.items():
        rows = {row.label.name: row for row in block.rows if column in row.cells}
        if rows:
            by_place[place] = rows

    places, names = find_common_variants(by_place)
    rows_of_variants = [_list_rows(by_place, places, name) for name in names]
    trained = [rows for rows in rows_of_variants if rows[0].is_trained]
    if len(trained) < FEWEST_RANKED:
        return None

    ranking = draw_ranking(rows_of_variants, column, table.metric(column).larger_is_better)
    ranked = tuple(tuple(rows_of_variants[index]) for index in ranking.order.tolist())
    unnoted = RankingTable(table, column, tuple(places), ranked, ranking)
    notes = filter(None, list_notes(unnoted, blocks, by_place, names))
    return replace(unnoted, notes=tuple(notes))


def _list_rows(
    by_place: Mapping[str, ByPlace], places: Sequence[str], name: VariantName
) -> list[Row]:
    """The rows of a variant, one for each place."""
    return [by_place[place][name] for place in places]


def list_notes(
    table: RankingTable,
    blocks: Mapping[str, Block],
    by_place: Mapping[str, ByPlace],
    names: Sequence[VariantName],
) -> Iterator[str]:
    """What is not ranked, and what weakens the scores of ranked variants; some notes are empty."""
    few_seeds = []
    for ranked_rows in table.rows:
        seeds = table.seeds(ranked_rows)
        if ranked_rows[0].is_trained and seeds < FEWEST_SEEDS:
            few_seeds.append(f"{ranked_rows[0].label.name} ({seeds})")
    yield make_note(f"Unreliable intervals, fewer than {FEWEST_SEEDS} seeds", few_seeds)

    otherwise_pooled = set()
    for block in blocks.values():
        for row in block.untrained:
            if not has_trained_pooling(block, row):
                otherwise_pooled.add(row.label.name)
    yield make_note(
        "Read by another pooling than most trained variants",
        [name for name in names if name in otherwise_pooled],
    )

    all_names = dict.fromkeys(chain.from_iterable(by_place.values()))
    unranked = [name for name in all_names if name not in names]
    yield make_note("Not ranked, not run in every pair of setting and encoder", unranked)

    used_places = [place for place in by_place if place in table.places]
    rows = chain.from_iterable(_list_rows(by_place, used_places, name) for name in names)
    yield from list_weakness_notes(row.weakness([table.column]) for row in rows)

    unused_places = [place for place in by_place if place not in table.places]
    yield make_note("Pairs not used, without some of these variants", unused_places, "; ")


def make_note(text: str, listed: Sequence[object], separator: str = ", ") -> str:
    """`TEXT: A, B.`; empty if there is nothing to list."""
    return f"{text}: {separator.join(map(str, listed))}." if listed else ""


def find_common_variants(by_place: Mapping[str, ByPlace]) -> tuple[list[str], list[VariantName]]:
    """Two or more places and the variants that all of them have, with the largest product of the
    two numbers.

    Places are added in order of their number of variants, largest first.
    """
    most_cells = 0
    best_places: list[str] = []
    best_names: list[VariantName] = []

    places = sorted(by_place, key=lambda place: -len(by_place[place]))
    names = list(by_place[places[0]]) if places else []
    for count in range(2, len(places) + 1):
        names = [name for name in names if name in by_place[places[count - 1]]]
        if len(names) > 1 and len(names) * count > most_cells:
            most_cells = len(names) * count
            best_places = places[:count]
            best_names = names
    return sorted(best_places), best_names


def draw_ranking(
    variants: Sequence[Sequence[Row]], column: Column, larger_is_better: bool
) -> Ranking:
    """The ranking of variants by their rows, one for each place, with bootstrap draws of seeds."""
    cells = [row.cells[column] for row in chain.from_iterable(variants)]
    most_seeds = max(len(cell.values) for cell in cells)
    # missing seeds are NaN, which draws leave out
    values = np.full((len(cells), most_seeds), np.nan)
    for index, cell in enumerate(cells):
        values[index, : len(cell.values)] = cell.values

    scores = values.reshape(len(variants), len(variants[0]), most_seeds)
    return bootstrap_ranking(scores if larger_is_better else -scores)


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


def make_ranking_grid(table: RankingTable) -> Grid:
    """Tabulate a ranking: ranks with their intervals, the chance of another order, and the means in
    each place.
    """
    columns = ("mean rank", f"{table.ranking.level:.0%} interval", SWAP, IQM, NEXT, *table.places)
    places = f"{len(table.places)} pairs of setting and encoder"
    title = f"Ranking by {name_suite(table.source.suite)} {table.title} over {places}"
    lines = [format_rank(table, index) for index in range(len(table.rows))]
    return Grid(
        key=f"ranking-{table.source.profile}-{table.source.suite}-{table.column.metric}",
        title=f"{title}, profile {table.source.profile}",
        heads=("variant", "seeds"),
        columns=columns,
        sections=(Section("settings and encoders", tuple(lines)),),
        notes=table.notes,
        legend=LEGEND,
        paper_title=title,
    )


def format_rank(table: RankingTable, index: int) -> Line:
    """The line of a variant, the first one being the best."""
    rows = table.rows[index]
    mean, low, high = table.ranks[index]
    flip = table.flips[index]
    digits = table.metric.digits
    scores = collect_scores(table, index)
    middle = float(interquartile_mean(scores))
    ends = stratified_interval(interquartile_mean, scores)

    improvement = CellText(ABSENT)
    if index + 1 < len(table.rows):
        next_scores = collect_scores(table, index + 1)
        is_upward = table.metric.larger_is_better
        improvement = format_improvement(scores, next_scores, larger_is_better=is_upward)

    cells = [
        CellText(fixed(mean, DIGITS)),
        CellText(interval_text(low, high, DIGITS)),
        CellText(ABSENT if flip is None else f"{flip:.0%}"),
        CellText(fixed(middle, digits), extra=interval_text(ends.low, ends.high, digits)),
        improvement,
    ]
    cells += [CellText(fixed(row.cells[table.column].summary.mean, digits)) for row in rows]
    heads = (rows[0].label.name, f"{table.seeds(rows)}{table.marks(rows)}")
    return Line(heads, tuple(cells), "plain")


def collect_scores(table: RankingTable, index: int) -> list[np.ndarray]:
    """A variant's scores over seeds in each place."""
    return [np.array(row.cells[table.column].values) for row in table.rows[index]]


def format_improvement(
    scores: Sequence[np.ndarray], next_scores: Sequence[np.ndarray], *, larger_is_better: bool
) -> CellText:
    """The probability that a seed is ahead of one of the next variant, with its interval."""
    sides = (scores, next_scores) if larger_is_better else (next_scores, scores)
    probability = float(probability_of_improvement(*sides))
    ends = stratified_interval(probability_of_improvement, *sides)
    return CellText(f"{probability:.0%}", extra=f"{ends.low:.0%} to {ends.high:.0%}")
