"""The ranking of variants over settings and encoders as a table."""

from __future__ import annotations

from collections.abc import Iterator

from harness.formatting import count_of, fixed
from harness.reporting.seeds.ranking import RankedRow, RankingTable
from harness.reporting.seeds.words import suite_title
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import FEWEST_SEEDS

#: decimals of ranks
DIGITS = 2
LEGEND = (
    "Rank of each mean over seeds within its setting and encoder, 1 the best, averaged over settings and encoders. "
    "Intervals and chances: 1,000 bootstrap draws of the seeds.",
    "Chance to swap: how often the next variant is ahead with other seeds; 0% is a certain order, 50% a tie. Both are "
    "too optimistic with few seeds.",
)


def ranking_grid(table: RankingTable) -> Grid:
    """Word a ranking: ranks with their intervals, the chance of another order, and the means in each place."""
    columns = ("mean rank", f"{table.level:.0%} interval", "chance to swap with the next", *table.places)
    places = count_of(len(table.places), "place")
    name = f"{suite_title(table.suite)} {table.title}"
    return Grid(
        f"ranking-{table.profile}-{table.suite}-{table.column.metric}",
        f"Ranking by {name} over {places}, profile {table.profile}",
        ("variant", "seeds"),
        columns,
        (False,) * len(columns),
        (Section("settings and encoders", tuple(_line(table, row) for row in table.rows)),),
        tuple(_notes(table)),
        legend=LEGEND,
    )


def _line(table: RankingTable, row: RankedRow) -> Line:
    means = (CellText(fixed(mean, table.metric.digits)) for mean in row.means)
    interval = f"{fixed(row.low, DIGITS)} to {fixed(row.high, DIGITS)}"
    flip = ABSENT if row.flip is None else f"{row.flip:.0%}"
    ranks = (CellText(fixed(row.rank, DIGITS)), CellText(interval), CellText(flip))
    return Line((row.name, f"{row.seeds}{row.marks}"), (*ranks, *means), "plain")


def _notes(table: RankingTable) -> Iterator[str]:
    few = [f"{row.name} ({row.seeds})" for row in table.rows if row.trained and row.seeds < FEWEST_SEEDS]
    if few:
        yield f"Unreliable intervals, fewer than {FEWEST_SEEDS} seeds: {', '.join(few)}."
    if table.other_pooling:
        yield f"Read by another pooling than most trained variants: {', '.join(map(str, table.other_pooling))}."
    if table.unranked:
        yield f"Not ranked, not run in every place: {', '.join(map(str, table.unranked))}."
    yield from table.weak
    if table.left_out:
        yield f"Places not used, without some of these variants: {'; '.join(table.left_out)}."
