"""Tables over seeds: one for each profile and suite, each cell tested against plain SimCSE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from harness.formatting import count_of
from harness.metrics import AVERAGE, Column, Metric, Metrics
from harness.reporting.seeds.groups import Cell, Group, Label, compare, kept_groups
from harness.spec import UNTRAINED
from harness.stats import ALPHA

if TYPE_CHECKING:
    import pandas

BASELINE = "simcse"


@dataclass(frozen=True)
class Row:
    """One label with the values of its `training`. `older` counts the groups of runs with it that are not shown."""

    label: Label
    group: str
    seeds: tuple[int, ...]
    older: int
    training: Mapping[str, str]
    cells: Mapping[Column, Cell]

    @property
    def is_baseline(self) -> bool:
        """Whether other rows of the block are compared with this one."""
        return self.label.variant == BASELINE


@dataclass(frozen=True)
class Block:
    """The rows of one setting and encoder, the baseline first."""

    setting: str
    encoder: str
    rows: tuple[Row, ...]

    def baseline(self, label: Label) -> Row | None:
        """Return the plain SimCSE row with a label's overrides; None for that row itself or if there is none."""
        return None if label.variant == BASELINE else self.by_label.get(label._replace(variant=BASELINE))

    @cached_property
    def by_label(self) -> Mapping[Label, Row]:
        """The rows by their labels."""
        return {row.label: row for row in self.rows}


@dataclass(frozen=True)
class SummaryTable:
    """The scores of one profile's runs in one suite."""

    profile: str
    suite: str
    columns: tuple[Column, ...]
    metrics: Mapping[str, Metric]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[Row]:
        """The rows of all blocks."""
        return [row for block in self.blocks for row in block.rows]

    def metric(self, column: Column) -> Metric:
        """Return the metric of a column."""
        return self.metrics[column.metric]

    def title(self, column: Column) -> str:
        """Return a column's heading; it names the metric where the table has several."""
        return column.task if len({column.metric for column in self.columns}) == 1 else f"{column.task} {column.metric}"


def summary_tables(frame: pandas.DataFrame, metrics: Metrics) -> list[SummaryTable]:
    """Build a table for each profile and suite of a frame of scores, of the metrics that the suites declare as shown.

    A suite without averages, such as `figures`, has no table.
    """
    kept: dict[tuple[str, str], dict[Label, Group]] = {}
    for (label, suite), group in kept_groups(_shown(frame, metrics)).items():
        kept.setdefault((label.profile, suite), {})[label] = group
    tables = [_table(*place, groups, metrics.get(place[1], {})) for place, groups in kept.items()]
    return [table for table in tables if table.columns]


def _shown(frame: pandas.DataFrame, metrics: Metrics) -> pandas.DataFrame:
    """The lines of whole tasks in metrics that tables show; all metrics of a suite that declares none as shown."""
    kept = (frame["part"] == "").to_numpy()
    for suite, declared in metrics.items():
        if shown := [name for name, metric in declared.items() if metric.shown]:
            kept = kept & ((frame["suite"] != suite) | frame["metric"].isin(shown)).to_numpy()
    return frame if kept.all() else frame[kept]


def _table(profile: str, suite: str, groups: Mapping[Label, Group], declared: Mapping[str, Metric]) -> SummaryTable:
    columns = _columns(groups.values(), declared)
    metrics = {column.metric: declared.get(column.metric, Metric(column.metric)) for column in columns}
    rows = []
    for label, group in groups.items():
        rows.append(Row(label, group.group, group.seeds, group.older, group.training, group.cells_of(columns)))
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        places.setdefault((row.label.setting, row.label.encoder), []).append(row)
    order = sorted(places, key=lambda at: (at[0] != UNTRAINED, *at))
    blocks = tuple(_block(places[place], *place, metrics) for place in order)
    return SummaryTable(profile, suite, columns, metrics, blocks, tuple(_notes(metrics, blocks)))


def _columns(groups: Iterable[Group], declared: Mapping[str, Metric]) -> tuple[Column, ...]:
    """Tasks in order, the average last; of a suite that declares no metrics, all those of the average."""
    there = dict.fromkeys(column for group in groups for column in group.columns)
    metrics = [name for name, metric in declared.items() if metric.shown]
    metrics = metrics or [column.metric for column in there if column.task == AVERAGE]
    tasks = dict.fromkeys(column.task for column in there if column.task != AVERAGE)
    wanted = (Column(task, metric) for task in (*tasks, AVERAGE) for metric in metrics)
    return tuple(column for column in wanted if column in there)


def _block(rows: Sequence[Row], setting: str, encoder: str, metrics: Mapping[str, Metric]) -> Block:
    mine = sorted(rows, key=lambda row: (row.label.overrides, not row.is_baseline, row.label.variant))
    block = Block(setting, encoder, tuple(mine))
    return replace(block, rows=tuple(_tested(row, block.baseline(row.label), metrics) for row in mine))


def _tested(row: Row, baseline: Row | None, metrics: Mapping[str, Metric]) -> Row:
    base = baseline.cells if baseline else {}
    tested = {c: compare(cell, base[c], metrics[c.metric]) for c, cell in row.cells.items() if c in base}
    return replace(row, cells={**row.cells, **tested})


def _notes(metrics: Mapping[str, Metric], blocks: Sequence[Block]) -> Iterator[str]:
    rows = [row for block in blocks for row in block.rows]
    yield "Mean ± sample standard deviation over seeds."
    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    if lower:
        yield "Lower is better." if len(lower) == len(metrics) else f"Lower is better for {', '.join(lower)}."
    if any(cell.test for row in rows for cell in row.cells.values()):
        yield (
            f"* better and † worse than {BASELINE} in the same setting and encoder, p < {ALPHA} "
            "(independent two-sample t-test, two-sided, equal variances, not corrected for the number of cells)."
        )
    for block in blocks:
        if block.setting != UNTRAINED:
            yield from _untested(block)
    older = sum(row.older for row in rows)
    if older:
        yield f"{older_text(older)}; each row shows the group with the most seeds (ties: newest)."


def older_text(count: int) -> str:
    """Describe groups of runs that are not shown."""
    return f"Not shown: {count_of(count, 'older or smaller group')} of runs with the same label"


def _untested(block: Block) -> Iterator[str]:
    where = f"Not tested in {block.setting} / {block.encoder}"
    rows = [row for row in block.rows if not row.is_baseline and block.baseline(row.label) is None]
    if rows:
        yield f"{where}, no {BASELINE} run with the same overrides: {', '.join(str(row.label) for row in rows)}."
    few = [str(row.label) for row in block.rows if len(row.seeds) < 2]
    if few:
        yield f"{where}, only one seed: {', '.join(few)}."
