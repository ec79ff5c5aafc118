"""The runs in results/reference, and the pieces of tables that pages make from them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from harness.formatting import p_value, signed
from harness.metrics import Column
from harness.reporting.seeds.cells import Label, Row
from harness.reporting.seeds.choose import select_profile_runs
from harness.reporting.seeds.summary import Block, SummaryTable, make_summary_tables
from harness.reporting.tables.grids import format_cell
from harness.stats import TTest
from harness.store import Frames, Result, Store, frames_of, metrics_of

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
#: the trials of the tunings on docs/grounding.md
TUNED = REFERENCE.parent / "tuning"
#: what reads runs; whatever is made from them is kept by it, so that other runs have their own
Read = Callable[[], Sequence[Result]]


@cache
def read_reference() -> Sequence[Result]:
    """The runs in results/reference. Raises SystemExit where one cannot be read."""
    results = Store(REFERENCE).frames()
    if results.problems:
        sys.exit("\n".join(results.problems))
    return results


def select_runs(profile: str) -> list[Result]:
    """The runs of one profile."""
    return list(_select_runs(read_reference, profile))


@cache
def _select_runs(read: Read, profile: str) -> Sequence[Result]:
    return [run for run in _read_all(read) if run.profile == profile]


@cache
def _read_all(read: Read) -> Sequence[Result]:
    """All runs in memory; those of the reference are read from their files one by one."""
    return list(read())


def find_table(profile: str, suite: str) -> SummaryTable:
    """A suite's table of all runs of one profile."""
    return _find_table(read_reference, profile, suite)


@cache
def _find_table(read: Read, profile: str, suite: str) -> SummaryTable:
    return make_table(_select_runs(read, profile), suite)


def find_frames(profile: str) -> Frames:
    """The frames of all runs of one profile."""
    return _find_frames(read_reference, profile)


@cache
def _find_frames(read: Read, profile: str) -> Frames:
    return select_profile_runs(frames_of(_select_runs(read, profile)), profile)


def make_table(runs: Sequence[Result], suite: str) -> SummaryTable:
    """A suite's table of some runs."""
    tables = make_summary_tables(runs, metrics_of(runs))
    return next(table for table in tables if table.suite == suite)


def find_column(table: SummaryTable, task: str) -> Column:
    """The first column of a task."""
    return next(column for column in table.columns if column.task == task)


def find_block(table: SummaryTable, setting: str) -> Block:
    """The one block of a setting. Raises ValueError where several encoders have one."""
    (block,) = (block for block in table.blocks if block.setting == setting)
    return block


def list_rows_once(
    table: SummaryTable, is_shown: Callable[[Row], bool]
) -> Iterator[tuple[Block, Row]]:
    """Each row of a table that is shown, with its first block: untrained ones are in several."""
    listed = set[Label]()
    for block in table.blocks:
        for row in block.rows:
            if row.label not in listed and is_shown(row):
                listed.add(row.label)
                yield block, row


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table; the columns after the first are aligned to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' ---: |' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def format_score(table: SummaryTable, row: Row | None, column: Column) -> str:
    """Mean, deviation and star of a row, or nothing."""
    cell = row.cells.get(column) if row else None
    if cell is None:
        return ""
    text = str(format_cell(cell, table.metric(column).digits, cell.summary.n))
    return text.replace("*", "\\*")


def format_difference(table: SummaryTable, row: Row, column: Column) -> str:
    """The difference to the baseline with its 95 % interval and the p-value after Holm's correction
    in its family.
    """
    cell = row.cells[column]
    if cell.test is None or cell.p is None:
        return "–"
    return f"{format_interval(cell.test, table.metric(column).digits)}, {p_value(cell.p)}"


def format_gain(table: SummaryTable, block: Block, row: Row, column: Column) -> str:
    """The difference to the baseline; empty for the baseline itself and without training."""
    if not row.is_trained or block.is_baseline(row):
        return ""
    return format_difference(table, row, column)


def format_interval(test: TTest, digits: int) -> str:
    """A difference with its 95 % interval."""
    low = signed(test.low, digits)
    high = signed(test.high, digits)
    return f"{signed(test.difference, digits)} ({low} to {high})"
