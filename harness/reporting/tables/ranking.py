"""The ranking of variants over settings and encoders as a table."""

from __future__ import annotations

from collections.abc import Iterator

from harness.formatting import count_of, fixed
from harness.reporting.seeds.ranking import RankedRow, RankingTable
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import FEWEST_SEEDS

#: decimals of ranks
DIGITS = 2


def ranking_grid(table: RankingTable) -> Grid:
    """Word a ranking: ranks with their intervals, the chance of another order, and the means in each place."""
    columns = ("mean rank", f"{table.level:.0%} interval", "order with the next flips", *table.places)
    places = count_of(len(table.places), "place")
    name = f"{table.suite} {table.column.task} {table.metric.name}"
    return Grid(
        f"ranking-{table.profile}-{table.suite}-{table.column.metric}",
        f"Ranking by {name} over {places}, profile {table.profile}",
        ("variant", "seeds"),
        columns,
        (False,) * len(columns),
        (Section("settings and encoders", tuple(_line(table, row) for row in table.rows)),),
        tuple(_notes(table)),
    )


def _line(table: RankingTable, row: RankedRow) -> Line:
    means = (CellText(fixed(mean, table.metric.digits)) for mean in row.means)
    interval = f"{fixed(row.low, DIGITS)} to {fixed(row.high, DIGITS)}"
    flip = ABSENT if row.flip is None else f"{row.flip:.0%}"
    ranks = (CellText(fixed(row.rank, DIGITS)), CellText(interval), CellText(flip))
    return Line((row.name, str(row.seeds)), (*ranks, *means), "plain")


def _notes(table: RankingTable) -> Iterator[str]:
    yield (
        "Ranks of means over seeds within each setting and encoder, 1 the best, averaged over them. Intervals and "
        "flips: 1,000 bootstrap draws of the seeds of each variant in each place."
    )
    yield (
        "A flip is the next variant ahead with other seeds: 0% is a certain order, 50% a toss-up. With few seeds both "
        "are too sure."
    )
    few = [f"{row.name} ({row.seeds})" for row in table.rows if row.trained and row.seeds < FEWEST_SEEDS]
    if few:
        yield f"Too few seeds for an interval (fewer than {FEWEST_SEEDS}): {', '.join(few)}."
    if table.unranked:
        yield f"Not ranked, not in every place: {', '.join(table.unranked)}."
    if table.left_out:
        yield f"Places left out, which lack some of these variants: {'; '.join(table.left_out)}."
