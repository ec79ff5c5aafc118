"""Tables over seeds: one for each profile and suite, each cell tested against plain SimCSE.

Untrained encoders have no setting: their rows stand in the blocks of every setting.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.formatting import count_of
from harness.formatting import points as _points
from harness.method.naming import name_of
from harness.metrics import AVERAGE, Column, Metric, Metrics, Significance, is_average
from harness.papers.published import ABLATION_SCORE, Ablation
from harness.reporting.seeds.caveats import group_notes, list_weakness_notes
from harness.reporting.seeds.cells import (
    EQUAL_POINTS,
    Cell,
    Label,
    Row,
    compare_in_any_metric,
    compare_pairs,
)
from harness.reporting.seeds.choose import choose_evaluations, make_rows
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import TableRows
from harness.reporting.seeds.families import (
    OF_METHODS,
    PairTests,
    compare_family,
    find_claim_pairs,
)
from harness.reporting.seeds.galleries import describe_galleries
from harness.reporting.seeds.wording import split_column_heading
from harness.spec import BASELINE, UNTRAINED
from harness.stats import ALPHA, CORRECTION, FEWEST_SEEDS
from harness.store import Frames, Result, frames_of

if TYPE_CHECKING:
    import pandas

#: what bold print means, where there is any
BOLD = "Bold: the best mean of each setting and encoder."


@dataclass(frozen=True)
class Block:
    """The rows of one setting and encoder: the untrained encoder, then the `base` variant, then the
    others.

    `points` is the margin of "equal" in its tests, None for the default one. `about` follows the
    place in a title. `every` are all rows that were tested together, whichever are shown;
    `controls` are those of all blocks, among which controls are looked for.
    """

    setting: str
    encoder: str
    rows: tuple[Row, ...]
    base: str = BASELINE
    points: float | None = None
    about: str = ""
    every: tuple[Row, ...] = field(default=(), repr=False)
    controls: TableRows = field(default_factory=TableRows, compare=False, repr=False)
    _tests: dict[Column, PairTests] = field(default_factory=dict, compare=False, repr=False)

    @property
    def place(self) -> str:
        return f"{self.setting} / {self.encoder}"

    def is_baseline(self, row: Row) -> bool:
        return row.label.variant == self.base

    def baseline(self, label: Label) -> Row | None:
        """Return the base variant's row with a label's overrides; None for that row itself or if
        there is none.
        """
        if label.variant == self.base:
            return None
        return self.by_label.get(label._replace(variant=self.base))

    @property
    def trained(self) -> list[Row]:
        return [row for row in self.rows if row.is_trained]

    @property
    def untrained(self) -> list[Row]:
        return [row for row in self.rows if not row.is_trained and not row.label.is_teacher]

    @cached_property
    def by_label(self) -> Mapping[Label, Row]:
        return {row.label: row for row in self.rows}

    def tests(self, column: Column, metric: Metric) -> PairTests:
        """The tests of all pairs of its rows that a family compares in a column, corrected there."""
        if column not in self._tests:
            self._tests[column] = compare_family(self.every, self.base, column, metric, self.points)
        return self._tests[column]

    def find_test(self, row: Row, other: Row, column: Column, metric: Metric) -> Cell:
        """The cell of a row tested against another one: in the family of the two, else alone."""
        tests = self.tests(column, metric)
        if (row.label, other.label) in tests:
            return tests[row.label, other.label]
        if (other.label, row.label) in tests:
            return tests[other.label, row.label].reversed(row.cells[column])
        return compare_in_any_metric(row, other, column, metric, self.points)

    def conclude(self, row: Row, other: Row, column: Column, metric: Metric) -> Conclusion:
        """What the data say of a row against another one."""
        cell = self.find_test(row, other, column, metric)
        return Conclusion(row, other, column, metric, cell, self.controls)

    def against_baseline(self, row: Row, column: Column, metric: Metric) -> Conclusion | None:
        """What the data say of a row against its baseline; None where it is not tested."""
        base = self.baseline(row.label)
        cell = row.cells[column]
        if base is None or not cell.test:
            return None
        return Conclusion(row, base, column, metric, cell, self.controls)

    def words(self, row: Row, column: Column, metric: Metric) -> str:
        """The conclusion on a row against its baseline in words, or that it is not tested."""
        conclusion = self.against_baseline(row, column, metric)
        return conclusion.words if conclusion else "not tested"


@dataclass(frozen=True)
class SummaryTable:
    """The scores of one profile's runs in one suite. `about` tells tables of one profile and suite
    apart.

    `legend` says how its numbers are read, `notes` what is missing; `lacking` are encoders without
    an untrained run.
    """

    profile: str
    suite: str
    columns: tuple[Column, ...]
    metrics: Mapping[str, Metric]
    blocks: tuple[Block, ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]
    about: str = ""
    lacking: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        return list({row.label: row for block in self.blocks for row in block.rows}.values())

    def where(self, keep: Callable[[Row], bool]) -> SummaryTable:
        """Only some rows; tests remain those of the whole table."""
        blocks = []
        for block in self.blocks:
            rows = tuple(row for row in block.rows if keep(row))
            if rows:
                blocks.append(replace(block, rows=rows))
        return replace(self, blocks=tuple(blocks))

    def of(self, variants: Sequence[str]) -> SummaryTable:
        """Only the rows of these variants, in their order."""
        order = {variant: place for place, variant in enumerate(variants)}
        table = self.where(lambda row: row.label.variant in order)
        blocks = []
        for block in table.blocks:
            rows = sorted(block.rows, key=lambda row: order[row.label.variant])
            blocks.append(replace(block, rows=tuple(rows)))
        return replace(table, blocks=tuple(blocks))

    def metric(self, column: Column) -> Metric:
        return self.metrics[column.metric]

    def with_digits(self, digits: int) -> SummaryTable:
        """Printed with at most so many decimals."""
        metrics = {
            name: replace(metric, digits=min(digits, metric.digits))
            for name, metric in self.metrics.items()
        }
        return replace(self, metrics=metrics)

    def list_tasks(self, metric: str) -> list[Column]:
        """The columns of a metric, without its averages of all tasks or of a kind of them."""
        columns = [column for column in self.columns if column.metric == metric]
        return [column for column in columns if not is_average(column.task)]

    @property
    def averages(self) -> list[Column]:
        """The averages of metrics that are judged."""
        averages = [column for column in self.columns if column.task == AVERAGE]
        return [column for column in averages if self.metric(column).judged]

    def conclude(self, row: Row, other: Row, column: Column) -> Conclusion:
        """What the data say of one of its rows against another one, in the family of the two.

        Rows of two settings or encoders are tested alone. A program that shows only some runs calls
        this of the table of all results in a folder (`harness.results(folder).tables`, one for each
        profile and suite): a table of some runs has other families, and so other p-values.
        """
        metric = self.metric(column)
        for block in self.blocks:
            if {row.label, other.label} <= {member.label for member in block.every}:
                return block.conclude(row, other, column, metric)

        block = self.blocks[0]
        cell = compare_in_any_metric(row, other, column, metric, block.points)
        return Conclusion(row, other, column, metric, cell, block.controls)

    def heading(self, column: Column) -> tuple[str, str]:
        """Return the heading of a column's group, "" where it is in none, and its own."""
        several = len({column.metric for column in self.columns}) > 1
        return split_column_heading(self.suite, column, several=several)

    def title(self, column: Column) -> str:
        """Return a column's full heading; it names the metric where the table has several."""
        group, heading = self.heading(column)
        return f"{group}: {heading}" if group else heading


def make_summary_tables(
    results: Sequence[Result],
    metrics: Metrics,
    unscored: Mapping[tuple[str, str], Sequence[str]] = MappingProxyType({}),
    shown: Collection[Label] | None = None,
    only: str | None = None,
    points: float | None = None,
) -> list[SummaryTable]:
    """Build a table for each profile and suite of results, of the metrics that the suites declare
    as shown.

    A suite without averages, such as `figures`, has no table. `unscored` are notes on runs that
    lack scores, by profile and suite. All rows are tested together; with `shown`, only rows of
    these labels, the untrained encoders and the rows that they are tested against are kept. `only`
    is the one suite whose tables are wanted, `points` the largest difference that counts as equal.
    """
    frames = frames_of(results)
    scores = select_shown_scores(frames, metrics, only)
    rows_by_table: dict[tuple[str, str], list[Row]] = {}
    labels_by_profile: dict[str, set[Label]] = {}
    for row in make_rows(frames, choose_evaluations(frames, scores), scores):
        profile = row.label.profile
        rows_by_table.setdefault((profile, row.suite), []).append(row)
        labels_by_profile.setdefault(profile, set()).add(row.label)

    tables = []
    for (profile, suite), rows in rows_by_table.items():
        declared = metrics.get(suite, {})
        labels = labels_by_profile[profile]
        table = _make_table(profile, suite, rows, declared, labels, shown, points)
        if table.columns and table.blocks:
            lacks = unscored.get((profile, suite), ())
            tables.append(replace(table, notes=(*table.notes, *lacks)))
    return tables


def select_shown_scores(
    frames: Frames, metrics: Metrics, only: str | None = None
) -> pandas.DataFrame:
    """The scores in metrics that tables show; in all metrics of a suite that declares none as
    shown.
    """
    scores = frames.scores
    suites = frames.evaluations["suite"].array.take(scores["evaluation"].to_numpy())
    is_shown = np.ones(len(scores), bool)
    if only is not None:
        is_shown = suites == only

    for suite, declared in metrics.items():
        names = [name for name, metric in declared.items() if metric.shown]
        if names:
            is_shown &= (suites != suite) | scores["metric"].isin(names).to_numpy()
    return scores if is_shown.all() else scores[is_shown]


def _make_table(
    profile: str,
    suite: str,
    rows: Sequence[Row],
    declared: Mapping[str, Metric],
    labels: Collection[Label],
    shown: Collection[Label] | None,
    points: float | None,
) -> SummaryTable:
    """The table of a profile and suite; `labels` are those of the profile with runs in any suite."""
    columns = _list_columns(rows, declared)
    metrics = {
        column.metric: declared.get(column.metric, Metric(column.metric)) for column in columns
    }
    rows_in_order = []
    for row in rows:
        cells = {column: row.cells[column] for column in columns if column in row.cells}
        rows_in_order.append(replace(row, cells=cells))

    blocks = make_blocks(rows_in_order, metrics, points=points)
    if shown is not None:
        blocks = tuple(_select_rows(block, shown) for block in blocks if _has_any(block, shown))

    untrained = {label.encoder for label in labels if label.setting == UNTRAINED}
    lacking = {block.encoder for block in blocks if block.trained} - untrained
    table = make_table_of_blocks(profile, suite, columns, metrics, blocks, labels)
    return replace(table, lacking=tuple(sorted(lacking)))


def make_table_of_blocks(
    profile: str,
    suite: str,
    columns: tuple[Column, ...],
    metrics: Mapping[str, Metric],
    blocks: tuple[Block, ...],
    labels: Collection[Label] = (),
) -> SummaryTable:
    """A table with its legend, and with notes on rows that are not tested and runs that are not
    shown.

    `labels` are those with runs in any suite.
    """
    rows = [row for block in blocks for row in block.rows]
    notes = list(_describe_findings(columns, metrics, blocks))
    if any(metric.judged for metric in metrics.values()):
        notes += _explain_untested_rows(blocks, suite, labels)
    notes += list_weakness_notes(row.weakness() for row in rows)
    notes += describe_galleries(row.galleries for row in rows)

    legend = _make_legend(columns, metrics, blocks)
    return SummaryTable(profile, suite, columns, metrics, blocks, legend, tuple(notes))


def _has_any(block: Block, labels: Collection[Label]) -> bool:
    """Whether any of its rows has one of the labels."""
    return any(row.label in labels for row in block.rows)


def _select_rows(block: Block, shown: Collection[Label]) -> Block:
    """A block with the rows of some labels, their baselines and the untrained encoders."""
    kept_labels = set(shown)
    for row in block.rows:
        if row.label in shown:
            kept_labels.add(row.label._replace(variant=block.base))
    rows = [row for row in block.rows if row.label in kept_labels or not row.is_trained]
    return replace(block, rows=tuple(rows))


def make_blocks(
    rows: Iterable[Row],
    metrics: Mapping[str, Metric],
    base: str = BASELINE,
    points: float | None = None,
) -> tuple[Block, ...]:
    """Arrange rows by setting and encoder, and test each against the row of the variant `base`.

    Rows of an untrained encoder stand in each of its blocks.
    """
    untrained: dict[str, list[Row]] = {}
    trained: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.is_trained:
            trained.setdefault((row.label.setting, row.label.encoder), []).append(row)
        else:
            untrained.setdefault(row.label.encoder, []).append(row)

    # an encoder without trained rows has a block of its own
    places = list(trained)
    trained_encoders = {encoder for _, encoder in trained}
    places += [(UNTRAINED, encoder) for encoder in untrained if encoder not in trained_encoders]
    places.sort(key=lambda place: (place[0] != UNTRAINED, *place))

    blocks = []
    for setting, encoder in places:
        members = [*trained.get((setting, encoder), ()), *untrained.get(encoder, ())]
        block = Block(setting, encoder, _sort_rows(members, base), base, points)
        blocks.append(_test_block(block, metrics))
    controls = TableRows((row.label, row) for block in blocks for row in block.rows)
    return tuple(replace(block, controls=controls) for block in blocks)


def _list_columns(rows: Iterable[Row], declared: Mapping[str, Metric]) -> tuple[Column, ...]:
    """Tasks in order, the average last; a suite that declares no shown metrics has all metrics of
    its average.
    """
    scored = dict.fromkeys(column for row in rows for column in row.cells)
    metrics = [name for name, metric in declared.items() if metric.shown]
    if not metrics:
        metrics = [column.metric for column in scored if column.task == AVERAGE]
    tasks = dict.fromkeys(column.task for column in scored if column.task != AVERAGE)

    columns = []
    for task, metric in product((*tasks, AVERAGE), metrics):
        column = Column(task, metric)
        if column in scored:
            columns.append(column)
    return tuple(columns)


def _sort_rows(rows: Iterable[Row], base: str) -> tuple[Row, ...]:
    """The untrained encoder, then the base variant, then the others."""

    def place(row: Row) -> tuple[object, ...]:
        return row.is_trained, row.label.overrides, row.label.variant != base, row.label.variant

    return tuple(sorted(rows, key=place))


def _test_block(block: Block, metrics: Mapping[str, Metric]) -> Block:
    """A block whose rows are tested against the base variant's, unless their scores are the same."""
    pairs = []
    for row in block.rows:
        base = block.baseline(row.label)
        if base and row.data != base.data:
            pairs.append((row, base))

    cells = {row.label: dict(row.cells) for row in block.rows}
    against = name_of(block.base).text
    for column in dict.fromkeys(column for row in block.rows for column in row.cells):
        scored = [(a, b) for a, b in pairs if column in a.cells and column in b.cells]
        metric = metrics[column.metric]
        for row, _, cell in compare_pairs(scored, column, metric, block.points, against=against):
            cells[row.label][column] = cell
    rows = tuple(replace(row, cells=cells[row.label]) for row in block.rows)
    return replace(block, rows=rows, every=rows)


def _make_legend(
    columns: Sequence[Column], metrics: Mapping[str, Metric], blocks: Sequence[Block]
) -> tuple[str, ...]:
    """Say how the numbers of blocks are made, and what their marks mean."""
    rows = [row for block in blocks for row in block.rows]
    counts = {len(row.seeds) for row in rows if row.is_trained}
    seeds = count_of(counts.pop(), "seed") if len(counts) == 1 else "seeds"
    lines = [f"Mean ± sample standard deviation over {seeds}."]

    unjudged = [name for name, metric in metrics.items() if not metric.judged]
    if len(unjudged) < len(metrics):
        lines.append(BOLD)
    if unjudged:
        names = " and ".join(unjudged)
        lines.append(f"Read {names} together: alone, none of them says which row is better.")

    lower = [name for name, metric in metrics.items() if not metric.larger_is_better]
    if lower:
        for_metrics = "" if len(lower) == len(metrics) else f" for {', '.join(lower)}"
        lines.append(f"Lower is better{for_metrics}.")
    if blocks:
        lines += _explain_tests(columns, rows, blocks[0])
    return tuple(lines)


def _explain_tests(columns: Sequence[Column], rows: Sequence[Row], block: Block) -> Iterator[str]:
    """What the marks of tested rows mean, and which tests are corrected together; nothing without
    tests.
    """
    methods = _count_tests(rows, is_method=True)
    variants = _count_tests(rows, is_method=False)
    if not methods and not variants:
        return

    base = name_of(block.base)
    yield (
        f"* significantly better and † significantly worse than {base} in the same setting and encoder: "
        f"p < {ALPHA} after {CORRECTION.name}, {_describe_design(rows)}; (*) and (†): alone, not after the correction; "
        f"≈ equal: the 90 % interval is within {describe_margin(block.points)}, after the correction."
    )
    families = []
    if methods:
        families.append(f"methods against {base} ({methods})")
    if variants:
        families.append(f"variants against {base} ({variants})")
    together = " and apart ".join(families)
    yield f"Tests corrected together: in each column, {together}.{_name_primary(columns)}"


def _describe_design(rows: Sequence[Row]) -> str:
    """The designs of the t-tests of a table, in words."""
    if any(is_paired(row) for row in rows):
        by_seed = "paired by seed for rows marked 'paired', which share its batches"
        return f"two-sided t-test, {by_seed}, else Welch's"
    return "two-sided t-test, Welch's"


def is_paired(row: Row) -> bool:
    """Whether a row is tested by seed against the row that it is compared with."""
    return any(cell.test and cell.test.design == "paired" for cell in row.cells.values())


def describe_margin(points: float | None) -> str:
    """The margin of "equal" in words."""
    if points is not None:
        return f"±{_points(points)}"
    return f"±{EQUAL_POINTS:g} points, or a tenth of the smaller deviation over seeds if larger"


#: names in a note on one setting and encoder; tables.csv has all
MOST_NOTED = 20


def _describe_findings(
    columns: Sequence[Column], metrics: Mapping[str, Metric], blocks: Sequence[Block]
) -> Iterator[str]:
    """What tests on the primary column show of rows without a difference from the baseline, and of
    variants.
    """
    primary = _find_primary(columns)
    if len(primary) != 1 or not blocks or not metrics[primary[0].metric].judged:
        return

    column = primary[0]
    metric = metrics[column.metric]
    findings = {
        f"No difference from {name_of(blocks[0].base)} on {column.task}": _find_undecided,
        f"Confounded on {column.task}": _find_confounded,
        f"Variants against their methods on {column.task}, tested together": compare_block_with_methods,
    }
    for text, find_tests in findings.items():
        lines = list[tuple[str, str, str]]()
        for block in blocks:
            names = []
            for row, compared_row, _ in find_tests(block, column, metric):
                words = block.conclude(row, compared_row, column, metric).words
                names.append(f"{row.label.name.text}, {words}")
            if len(names) > MOST_NOTED:
                names[MOST_NOTED:] = [f"and {len(names) - MOST_NOTED} more"]
            lines += [(text, block.place, name) for name in names]
        yield from group_notes(lines)


def _find_undecided(
    block: Block, column: Column, metric: Metric
) -> Iterator[tuple[Row, Row, Cell]]:
    """The rows without a difference from their baseline."""
    for row in block.trained:
        base = block.baseline(row.label)
        cell = row.cells.get(column)
        if base and cell and cell.verdict in (Significance.EQUAL, Significance.NONE):
            yield row, base, cell


def _find_confounded(
    block: Block, column: Column, metric: Metric
) -> Iterator[tuple[Row, Row, Cell]]:
    """The rows that differ from their baseline, where a control explains the better side."""
    for row in block.trained:
        if column not in row.cells:
            continue
        conclusion = block.against_baseline(row, column, metric)
        if conclusion and conclusion.confounded_by:
            yield row, conclusion.b, conclusion.cell


def compare_block_with_methods(
    block: Block, column: Column, metric: Metric
) -> Iterator[tuple[Row, Row, Cell]]:
    """The variants of a block with their methods as the profile trains them, tested in one family."""
    by_label = {row.label: row for row in block.every}
    for (label, compared_label), cell in block.tests(column, metric).items():
        if cell.corrected and cell.corrected.family.name == OF_METHODS:
            yield by_label[label], by_label[compared_label], cell


class ClaimTest(NamedTuple):
    """A claim with the rows that it is about, and the conclusion on the better one."""

    claim: Ablation
    better: Row
    worse: Row
    conclusion: Conclusion


def claim_tests(block: Block, metric: Metric) -> Iterator[ClaimTest]:
    """Test the papers' claims whose two variants have runs in a setting and encoder."""
    column = ABLATION_SCORE.column
    for claim, better, worse in find_claim_pairs(block.every, column):
        yield ClaimTest(claim, better, worse, block.conclude(better, worse, column, metric))


def _count_tests(rows: Sequence[Row], *, is_method: bool) -> str:
    """The number of tests in a family, in words, for the largest one; empty without tests."""
    sizes = set()
    for row in rows:
        if row.is_method != is_method:
            continue
        for cell in row.cells.values():
            if cell.corrected:
                sizes.add(cell.corrected.family.tests)

    if not sizes:
        return ""
    largest = count_of(max(sizes), "test")
    return f"up to {largest}" if len(sizes) > 1 else largest


def _name_primary(columns: Sequence[Column]) -> str:
    """Which column is primary, the only average or else the only task; empty where there is only
    one number.
    """
    primary = _find_primary(columns)
    if len(primary) != 1:
        return " No column is primary." if len(columns) > 1 else ""
    tasks = {column.task for column in columns if not is_average(column.task)}
    if len(tasks) < 2:
        return ""
    return f" {primary[0].task} is primary, the other columns are secondary."


def _find_primary(columns: Sequence[Column]) -> Sequence[Column]:
    """The averages, or else all columns; the only one of them is primary."""
    averages = [column for column in columns if column.task == AVERAGE]
    return averages or columns


def _explain_untested_rows(
    blocks: Sequence[Block], suite: str, labels: Collection[Label]
) -> Iterator[str]:
    """One note for each reason why rows are not tested."""
    lines = []
    for block in blocks:
        for row in block.trained:
            reason, seeds = _find_reason(block, row, suite, labels)
            if reason:
                name = row.label.name.text + seeds
                lines.append((f"Not tested, {reason}", block.place, name))
    return group_notes(lines)


def _find_reason(block: Block, row: Row, suite: str, labels: Collection[Label]) -> tuple[str, str]:
    """Why a row is not tested, and its seeds if these are too few; empty if it is, or is the
    baseline itself.
    """
    base = block.baseline(row.label)
    name = name_of(block.base)
    if base is None and not block.is_baseline(row):
        if row.label._replace(variant=block.base) in labels:
            return f"{name} has no {suite} score", ""
        has_other_baseline = any(block.is_baseline(trained) for trained in block.trained)
        values = " with the same --set values" if has_other_baseline else ""
        return f"no run of {name}{values}", ""

    if base and row.data == base.data:
        return f"the same scores as {name}", ""
    fewest = min(len(side.seeds) for side in (row, base) if side)
    if fewest < FEWEST_SEEDS:
        return f"fewer than {FEWEST_SEEDS} seeds", f" ({len(row.seeds)})"
    return "", ""
