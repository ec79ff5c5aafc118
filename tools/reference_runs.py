"""The runs in results/reference, and the pieces of tables that pages make from them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from harness.formatting import p_value, signed
from harness.metrics import Column
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.choose import select_profile_runs
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
from harness.reporting.tables.grids import format_cell
from harness.stats import TTest
from harness.store import Frames, Result, Store, frames_of, metrics_of

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
#: the trials of the tunings on docs/grounding.md
TUNED = REFERENCE.parent / "tuning"
#: What reads runs. Whatever is made from them is kept by it, so that other runs have their own.
Read = Callable[[], Sequence[Result]]


@cache
def reference() -> Sequence[Result]:
    """The runs in results/reference. Raises SystemExit where one cannot be read."""
    found = Store(REFERENCE).frames()
    if found.problems:
        sys.exit("\n".join(found.problems))
    return found


def runs_of(profile: str) -> list[Result]:
    """The runs of one profile."""
    return [*_runs_of(reference, profile)]


@cache
def _runs_of(read: Read, profile: str) -> Sequence[Result]:
    return [run for run in _read_all(read) if run.profile == profile]


@cache
def _read_all(read: Read) -> Sequence[Result]:
    """All runs in memory; those of `reference` are read from their files one by one."""
    return [*read()]


def of(profile: str, suite: str) -> SummaryTable:
    """A suite's table of all runs of one profile."""
    return _table_of(reference, profile, suite)


@cache
def _table_of(read: Read, profile: str, suite: str) -> SummaryTable:
    return of_runs(_runs_of(read, profile), suite)


def frames_of_profile(profile: str) -> Frames:
    """The frames of all runs of one profile."""
    return _frames_of(reference, profile)


@cache
def _frames_of(read: Read, profile: str) -> Frames:
    return select_profile_runs(frames_of(_runs_of(read, profile)), profile)


def of_runs(runs: Sequence[Result], suite: str) -> SummaryTable:
    """A suite's table of some runs."""
    tables = make_summary_tables(runs, metrics_of(runs))
    return next(table for table in tables if table.suite == suite)


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
        str(format_cell(cell, one.metric(column).digits, cell.summary.n)).replace("*", "\\*")
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
