"""The runs in results/reference, and the pieces of tables that pages make from them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from harness.formatting import p_value, signed
from harness.metrics import Column
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.reporting.tables.grids import cell_text
from harness.stats import TTest
from harness.store import Result, Store, metrics_of

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
#: the trials of the tunings on docs/grounding.md
TUNED = REFERENCE.parent / "tuning"


@cache
def reference() -> Sequence[Result]:
    """The runs in results/reference. Raises SystemExit where one cannot be read."""
    found = Store(REFERENCE).frames()
    if found.problems:
        sys.exit("\n".join(found.problems))
    return found


def runs_of(profile: str) -> list[Result]:
    """The runs of one profile."""
    return [one for one in reference() if one.profile == profile]


def of(profile: str, suite: str, runs: Sequence[Result] | None = None) -> SummaryTable:
    """A suite's table of one profile, of all its runs or of some."""
    results = runs_of(profile) if runs is None else runs
    return next(one for one in summary_tables(results, metrics_of(results)) if one.suite == suite)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table; the columns after the first are aligned to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def score(one: SummaryTable, row: Row | None, column: Column) -> str:
    """Mean, deviation and star of a row, or nothing."""
    cell = row.cells.get(column) if row else None
    return (
        str(cell_text(cell, one.metric(column).digits, cell.summary.n)).replace("*", "\\*")
        if cell
        else ""
    )


def difference(one: SummaryTable, row: Row, column: Column) -> str:
    """The difference to the baseline with its 95 % interval and the p-value after Holm's correction
    in its family.
    """
    cell = row.cells[column]
    if cell.test is None or cell.p is None:
        return "–"
    return f"{interval(cell.test, one.metric(column).digits)}, {p_value(cell.p)}"


def interval(test: TTest, digits: int) -> str:
    """A difference with its 95 % interval."""
    low, high = (signed(value, digits) for value in (test.low, test.high))
    return f"{signed(test.difference, digits)} ({low} to {high})"
