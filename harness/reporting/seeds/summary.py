"""Tables over seeds: one for each profile and suite, each cell tested against plain SimCSE.

Untrained encoders have no setting: their rows stand in the blocks of every setting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from harness.command_line import harness_command
from harness.formatting import count_of
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column, Metric, Metrics
from harness.profiles import typed_profile
from harness.reporting.seeds.groups import Cell, Group, Label, compare, kept_groups
from harness.reporting.seeds.standing import Standing, standings
from harness.reporting.seeds.words import heading
from harness.spec import UNTRAINED
from harness.stats import ALPHA, FEWEST_SEEDS, holm

if TYPE_CHECKING:
    import pandas

BASELINE = "simcse"
#: what bold print means, where there is any
BOLD = "Bold: the best mean of each setting and encoder."
#: how an encoder is usually read before training
UNTRAINED_VARIANTS = ("none[pooling=cls]", "none[pooling=mean]")


@dataclass(frozen=True)
class Row:
    """One label with the values of its `training`. `standing` is that of its runs."""

    label: Label
    group: str
    seeds: tuple[int, ...]
    standing: Standing
    training: Mapping[str, str]
    cells: Mapping[Column, Cell]

    @property
    def is_trained(self) -> bool:
        """Whether its runs were trained; an untrained encoder is not."""
        return self.label.setting != UNTRAINED


@dataclass(frozen=True)
class Block:
    """The rows of one setting and encoder: the untrained encoder, then the `base` variant, then the others."""

    setting: str
    encoder: str
    rows: tuple[Row, ...]
    base: str = BASELINE

    def is_baseline(self, row: Row) -> bool:
        """Whether other rows of the block are compared with this one."""
        return row.label.variant == self.base

    def baseline(self, label: Label) -> Row | None:
        """Return the base variant's row with a label's overrides; None for that row itself or if there is none."""
        return None if label.variant == self.base else self.by_label.get(label._replace(variant=self.base))

    @property
    def trained(self) -> list[Row]:
        """The rows without those of the untrained encoder."""
        return [row for row in self.rows if row.is_trained]

    @property
    def untrained(self) -> list[Row]:
        """The rows of the untrained encoder."""
        return [row for row in self.rows if not row.is_trained]

    @cached_property
    def by_label(self) -> Mapping[Label, Row]:
        """The rows by their labels."""
        return {row.label: row for row in self.rows}


@dataclass(frozen=True)
class SummaryTable:
    """The scores of one profile's runs in one suite. `about` tells tables of one profile and suite apart.

    `legend` says how its numbers are read, `notes` what is missing.
    """

    profile: str
    suite: str
    columns: tuple[Column, ...]
    metrics: Mapping[str, Metric]
    blocks: tuple[Block, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]
    about: str = ""

    @property
    def rows(self) -> list[Row]:
        """The rows of all blocks, each once."""
        return list({row.label: row for block in self.blocks for row in block.rows}.values())

    def metric(self, column: Column) -> Metric:
        """Return the metric of a column."""
        return self.metrics[column.metric]

    def heading(self, column: Column) -> tuple[str, str]:
        """Return the heading of a column's group, "" where it is in none, and its own."""
        return heading(column, several=len({column.metric for column in self.columns}) > 1)

    def title(self, column: Column) -> str:
        """Return a column's full heading; it names the metric where the table has several."""
        return ": ".join(filter(None, self.heading(column)))


def summary_tables(
    frame: pandas.DataFrame, metrics: Metrics, unscored: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({})
) -> list[SummaryTable]:
    """Build a table for each profile and suite of a frame of scores, of the metrics that the suites declare as shown.

    A suite without averages, such as `figures`, has no table. `unscored` are notes on runs that lack scores, by profile
    and suite.
    """
    kept: dict[tuple[str, str], dict[Label, Group]] = {}
    labels: dict[str, set[Label]] = {}
    for (label, suite), group in kept_groups(_shown(frame, metrics)).items():
        kept.setdefault((label.profile, suite), {})[label] = group
        labels.setdefault(label.profile, set()).add(label)
    tables = [_table(*place, groups, metrics.get(place[1], {}), labels[place[0]]) for place, groups in kept.items()]
    return [
        replace(table, notes=(*table.notes, *unscored.get((table.profile, table.suite), ())))
        for table in tables
        if table.columns
    ]


def _shown(frame: pandas.DataFrame, metrics: Metrics) -> pandas.DataFrame:
    """The lines of whole tasks in metrics that tables show; all metrics of a suite that declares none as shown."""
    kept = (frame["part"] == "").to_numpy()
    for suite, declared in metrics.items():
        if shown := [name for name, metric in declared.items() if metric.shown]:
            kept = kept & ((frame["suite"] != suite) | frame["metric"].isin(shown)).to_numpy()
    return frame if kept.all() else frame[kept]


def _table(
    profile: str, suite: str, groups: Mapping[Label, Group], declared: Mapping[str, Metric], labels: Collection[Label]
) -> SummaryTable:
    """A table of groups; `labels` are those that the profile has runs of in any suite."""
    columns = _columns(groups.values(), declared)
    metrics = {column.metric: declared.get(column.metric, Metric(column.metric)) for column in columns}
    rows = []
    for label, group in groups.items():
        rows.append(Row(label, group.group, group.seeds, group.standing, group.training, group.cells_of(columns)))
    blocks = blocks_of(rows, metrics)
    untrained = {label.encoder for label in labels if label.setting == UNTRAINED}
    lacking = {block.encoder for block in blocks if block.trained} - untrained
    notes = (*notes_on(blocks, suite, labels), without_untrained(profile, sorted(lacking)))
    return SummaryTable(
        profile, suite, columns, metrics, blocks, legend_of(metrics, blocks), tuple(filter(None, notes))
    )


def blocks_of(rows: Iterable[Row], metrics: Mapping[str, Metric], base: str = BASELINE) -> tuple[Block, ...]:
    """Arrange rows by setting and encoder, and test each against the row of the variant `base`.

    Rows of an untrained encoder stand in each of its blocks. Holm's correction is over all tests.
    """
    untrained: dict[str, list[Row]] = {}
    places: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.is_trained:
            places.setdefault((row.label.setting, row.label.encoder), []).append(row)
        else:
            untrained.setdefault(row.label.encoder, []).append(row)
    trained = {encoder for _, encoder in places}
    places |= {(UNTRAINED, encoder): [] for encoder in untrained if encoder not in trained}
    order = sorted(places, key=lambda at: (at[0] != UNTRAINED, *at))
    blocks = [_block([*places[at], *untrained.get(at[1], ())], *at, metrics, base) for at in order]
    return _corrected(blocks)


def _columns(groups: Iterable[Group], declared: Mapping[str, Metric]) -> tuple[Column, ...]:
    """Tasks in order, the average last; of a suite that declares no metrics, all those of the average."""
    there = dict.fromkeys(column for group in groups for column in group.columns)
    metrics = [name for name, metric in declared.items() if metric.shown]
    metrics = metrics or [column.metric for column in there if column.task == AVERAGE]
    tasks = dict.fromkeys(column.task for column in there if column.task != AVERAGE)
    wanted = (Column(task, metric) for task in (*tasks, AVERAGE) for metric in metrics)
    return tuple(column for column in wanted if column in there)


def _block(rows: Sequence[Row], setting: str, encoder: str, metrics: Mapping[str, Metric], base: str) -> Block:
    def place(row: Row) -> tuple[object, ...]:
        return row.is_trained, row.label.overrides, row.label.variant != base, row.label.variant

    block = Block(setting, encoder, tuple(sorted(rows, key=place)), base)
    return replace(block, rows=tuple(_tested(row, block.baseline(row.label), metrics) for row in block.rows))


def _tested(row: Row, baseline: Row | None, metrics: Mapping[str, Metric]) -> Row:
    base = baseline.cells if baseline else {}
    tested = {c: compare(cell, base[c], metrics[c.metric]) for c, cell in row.cells.items() if c in base}
    return replace(row, cells={**row.cells, **tested})


def _corrected(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Apply Holm's correction to all tests. The average over one task is the test of that task, not another one."""
    rows = [row for block in blocks for row in block.rows]
    tests = list(dict.fromkeys((row.label, cell.test) for row in rows for cell in row.cells.values() if cell.test))
    adjusted = dict(zip(tests, holm([test.p for _, test in tests]), strict=True))

    def of(row: Row, cell: Cell) -> Cell:
        return replace(cell, corrected=adjusted[row.label, cell.test]) if cell.test else cell

    def of_row(row: Row) -> Row:
        return replace(row, cells={column: of(row, cell) for column, cell in row.cells.items()})

    return tuple(replace(block, rows=tuple(map(of_row, block.rows))) for block in blocks)


def legend_of(metrics: Mapping[str, Metric], blocks: Sequence[Block]) -> tuple[str, ...]:
    """Say how the numbers of blocks are made, and what their marks mean."""
    rows = [row for block in blocks for row in block.rows]
    counts = {len(row.seeds) for row in rows if row.is_trained}
    seeds = count_of(counts.pop(), "seed") if len(counts) == 1 else "seeds"
    found = [f"Mean ± sample standard deviation over {seeds}.", BOLD]
    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    if lower:
        found.append("Lower is better." if len(lower) == len(metrics) else f"Lower is better for {', '.join(lower)}.")
    tests = {(row.label, cell.test) for row in rows for cell in row.cells.values() if cell.test}
    if tests:
        found.append(
            f"* significantly better and † significantly worse than {name_of(blocks[0].base)} in the same setting and "
            f"encoder: p < {ALPHA}, independent two-sample t-test, two-sided, equal variances, after Holm's correction "
            f"over {count_of(len(tests), 'test')}; (*) and (†) only without the correction."
        )
    return tuple(found)


def notes_on(blocks: Sequence[Block], suite: str, labels: Collection[Label] = ()) -> Iterator[str]:
    """Say which rows of a suite's blocks are not tested and which runs are not shown.

    `labels` are those with runs in any suite.
    """
    yield from _untested(blocks, suite, labels)
    yield from standings(
        (f"{block.setting} / {block.encoder}", row.label.name.text, row.standing)
        for block in blocks
        for row in block.rows
    )


def without_untrained(profile: str, encoders: Sequence[str]) -> str:
    """Name the command that evaluates encoders before training; empty for none."""
    command = harness_command("run", profile=typed_profile(profile), methods=UNTRAINED_VARIANTS, encoders=encoders)
    return f"Untrained {' and '.join(encoders)} not evaluated; `{command}` adds it." * bool(encoders)


def _untested(blocks: Sequence[Block], suite: str, labels: Collection[Label]) -> Iterator[str]:
    """One note for each reason why rows are not tested. Names may contain commas."""
    base = name_of(blocks[0].base).text if blocks else ""
    found: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        where = f"{block.setting} / {block.encoder}"
        for row in block.trained:
            reason, name = _reason(block, row, labels), row.label.name.text
            if reason == "few":
                name += f" ({len(row.seeds)})"
            if reason:
                found.setdefault(reason, {}).setdefault(where, []).append(name)
    whys = {
        "score": f"{base} has no {suite} score",
        "run": f"no run of {base}",
        "overrides": f"no run of {base} with the same --set values",
        "few": f"fewer than {FEWEST_SEEDS} seeds",
    }
    for reason, places in found.items():
        listed = " ".join(f"In {where}: {'; '.join(names)}." for where, names in places.items())
        yield f"Not tested, {whys[reason]}. {listed}"


def _reason(block: Block, row: Row, labels: Collection[Label]) -> str:
    """Why a row is not tested; empty if it is, or is the baseline itself with enough seeds."""
    base = block.baseline(row.label)
    if base is None and not block.is_baseline(row):
        if row.label._replace(variant=block.base) in labels:
            return "score"
        return "overrides" if any(block.is_baseline(one) for one in block.trained) else "run"
    counts = [len(one.seeds) for one in (row, base) if one]
    return "few" if min(counts) < FEWEST_SEEDS else ""
