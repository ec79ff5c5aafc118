"""Tables over seeds: one for each profile and suite, each cell tested against plain SimCSE.

A row is one experiment without its seed. Where the same label was run more than once with something
else changed (another data set, another version of a suite), one group of runs is shown and the others
are counted, never mixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from harness.metrics import AVERAGE, Column
from harness.spec import UNTRAINED
from harness.stats import ALPHA, Summary, TTest, summarise, t_test

if TYPE_CHECKING:
    import pandas

BASELINE = "simcse"
#: The metrics that a suite is judged by; of other suites every metric of the average is shown.
MAIN_METRICS = {
    "sts": ("spearman",),
    "stsb-multi": ("spearman",),
    "geometry": ("alignment", "uniformity"),
    "transfer": ("acc",),
    "mteb": ("main_score",),
    "retrieval": ("i2t_R@1", "i2t_R@5", "i2t_R@10", "t2i_R@1", "t2i_R@5", "t2i_R@10"),
}
SMALLER_IS_BETTER = frozenset({"alignment", "uniformity", "i2t_median_rank", "t2i_median_rank"})


class Label(NamedTuple):
    """What a row is called: everything but the seed that a person chose."""

    profile: str
    variant: str
    setting: str
    encoder: str
    overrides: str

    def __str__(self) -> str:
        return self.variant + (f" ({self.overrides})" if self.overrides else "")


@dataclass(frozen=True)
class Cell:
    """Scores over seeds. `test` is against the baseline's cell; `verdict` is better, worse or None."""

    values: tuple[float, ...]
    summary: Summary
    test: TTest | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Row:
    """One label. `older` counts the groups of runs with this label that are left out."""

    label: Label
    group: str
    seeds: tuple[int, ...]
    older: int
    cells: Mapping[Column, Cell]

    @property
    def is_baseline(self) -> bool:
        """Whether the rest of the block is compared with this row (or with one of other overrides)."""
        return self.label.variant == BASELINE


@dataclass(frozen=True)
class Block:
    """The rows of one setting and encoder, the baseline first."""

    setting: str
    encoder: str
    rows: tuple[Row, ...]

    def baseline(self, label: Label) -> Row | None:
        """The plain SimCSE row with a label's overrides; None for itself and when there is none."""
        wanted = label._replace(variant=BASELINE)
        return next((row for row in self.rows if row.label == wanted != label), None)


@dataclass(frozen=True)
class SummaryTable:
    """Everything one suite says about the runs of one profile."""

    profile: str
    suite: str
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[Row]:
        """The rows of all blocks."""
        return [row for block in self.blocks for row in block.rows]

    def title(self, column: Column) -> str:
        """A column's heading; the metric is named where there is more than one."""
        return column.task if len({column.metric for column in self.columns}) == 1 else f"{column.task} {column.metric}"


@dataclass(frozen=True)
class Group:
    """The runs that stand for a label: the group with the most seeds, of equals the one that ended last."""

    group: str
    older: int


def summary_tables(frame: pandas.DataFrame) -> list[SummaryTable]:
    """One table for each profile and suite in a frame of `Store.frame()`; none for an empty frame.

    A suite without averages, such as `figures`, has none.
    """
    parts = frame.groupby(["profile", "suite"], sort=False)
    tables = [summary_table(part, str(profile), str(suite)) for (profile, suite), part in parts]
    return [table for table in tables if table.columns]


def summary_table(frame: pandas.DataFrame, profile: str, suite: str) -> SummaryTable:
    """The table of one profile and suite."""
    part = frame[(frame["profile"] == profile) & (frame["suite"] == suite) & (frame["part"] == "")]
    columns = _columns(part, suite)
    rows = list(_rows(part, columns))
    places = sorted({(row.label.setting, row.label.encoder) for row in rows}, key=lambda at: (at[0] != UNTRAINED, *at))
    blocks = tuple(_compared(_block(rows, *place)) for place in places)
    return SummaryTable(profile, suite, columns, blocks, tuple(_notes(columns, blocks)))


def kept_groups(frame: pandas.DataFrame) -> dict[Label, Group]:
    """The one group of runs of each label, and how many others there are."""
    found: dict[Label, list[tuple[int, str, str]]] = {}
    for key, part in frame.groupby([*Label._fields, "group"], sort=False):
        *names, group = key if isinstance(key, tuple) else (key,)
        rank = (int(part["seed"].nunique()), str(part["finished"].max()), str(group))
        found.setdefault(Label(*map(str, names)), []).append(rank)
    return {label: Group(max(ranks)[2], len(ranks) - 1) for label, ranks in found.items()}


def group_runs(frame: pandas.DataFrame, label: Label, group: str) -> pandas.DataFrame:
    """The lines of a frame that belong to a label's group, in order of seeds, none twice."""
    part = frame[frame["group"] == group]
    for name, value in label._asdict().items():
        part = part[part[name] == value]
    return _in_order(part)


def _in_order(part: pandas.DataFrame) -> pandas.DataFrame:
    whole = part[part["part"] == ""]
    return whole.drop_duplicates(["seed", "suite", "task", "metric"], keep="last").sort_values("seed", kind="stable")


def group_values(part: pandas.DataFrame) -> dict[Column, list[float]]:
    """The scores of one group of runs in one suite, in order of seeds."""
    values: dict[Column, list[float]] = {}
    for task, metric, value in zip(part["task"], part["metric"], part["value"], strict=True):
        values.setdefault(Column(task, metric), []).append(float(value))
    return values


def compare(cell: Cell, against: Cell, column: Column, alpha: float = ALPHA) -> Cell:
    """A cell with its t-test against another and the verdict at a level of significance."""
    test = t_test(cell.values, against.values)
    verdict = None
    if test is not None and test.p < alpha:
        smaller = test.difference < 0
        verdict = "better" if smaller == (column.metric in SMALLER_IS_BETTER) else "worse"
    return replace(cell, test=test, verdict=verdict)


def _columns(part: pandas.DataFrame, suite: str) -> tuple[Column, ...]:
    tasks = [str(task) for task in part["task"].unique() if task != AVERAGE]
    averaged = [str(metric) for metric in part.loc[part["task"] == AVERAGE, "metric"].unique()]
    metrics: Sequence[str] = MAIN_METRICS.get(suite) or averaged
    there = {Column(str(task), str(metric)) for task, metric in zip(part["task"], part["metric"], strict=True)}
    wanted = (Column(task, metric) for task in (*tasks, AVERAGE) for metric in metrics)
    return tuple(column for column in wanted if column in there)


def _rows(part: pandas.DataFrame, columns: Sequence[Column]) -> Iterator[Row]:
    groups = dict(iter(part.groupby([*Label._fields, "group"], sort=False)))
    for label, kept in kept_groups(part).items():
        mine = _in_order(groups[*label, kept.group])
        values = group_values(mine)
        cells = {
            column: Cell(tuple(values[column]), summarise(values[column])) for column in columns if column in values
        }
        yield Row(label, kept.group, tuple(sorted({int(seed) for seed in mine["seed"]})), kept.older, cells)


def _block(rows: Sequence[Row], setting: str, encoder: str) -> Block:
    mine = [row for row in rows if (row.label.setting, row.label.encoder) == (setting, encoder)]
    mine.sort(key=lambda row: (row.label.overrides, not row.is_baseline, row.label.variant))
    return Block(setting, encoder, tuple(mine))


def _compared(block: Block) -> Block:
    return replace(block, rows=tuple(_tested(row, block.baseline(row.label)) for row in block.rows))


def _tested(row: Row, baseline: Row | None) -> Row:
    if baseline is None:
        return row
    cells = {
        column: compare(cell, baseline.cells[column], column) if column in baseline.cells else cell
        for column, cell in row.cells.items()
    }
    return replace(row, cells=cells)


def _notes(columns: Sequence[Column], blocks: Sequence[Block]) -> Iterator[str]:
    rows = [row for block in blocks for row in block.rows]
    yield "Mean ± sample standard deviation over seeds."
    if any(column.metric in SMALLER_IS_BETTER for column in columns):
        yield "Smaller is better."
    if any(cell.test for row in rows for cell in row.cells.values()):
        yield (
            f"* better and † worse than {BASELINE} in the same setting and encoder, p < {ALPHA} "
            "(independent two-sample t-test, two-sided, equal variances, not corrected for the number of cells)."
        )
    for block in blocks:
        lone = [str(row.label) for row in block.rows if not row.is_baseline and block.baseline(row.label) is None]
        if lone and block.setting != UNTRAINED:
            yield (
                f"No {BASELINE} to compare with in {block.setting} / {block.encoder} under the same overrides: "
                f"no test for {', '.join(lone)}."
            )
        few = [str(row.label) for row in block.rows if len(row.seeds) < 2]
        if few and block.setting != UNTRAINED:
            yield f"One seed only in {block.setting} / {block.encoder}, too few for a test: {', '.join(few)}."
    older = sum(row.older for row in rows)
    if older:
        yield (
            f"{older} older or smaller {'group' if older == 1 else 'groups'} of runs with the same label left out; "
            "of each label the group with the most seeds is shown, of equals the one that ended last."
        )
