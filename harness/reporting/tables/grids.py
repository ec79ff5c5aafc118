"""Tables as text, ready for a page or a file to lay out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Literal, TypeVar

from harness.errors import UserError
from harness.formatting import count_of, fixed
from harness.method.naming import VariantName, name_of
from harness.metrics import AVERAGE, Column, Significance, Verdict, is_average
from harness.registry import suggest
from harness.reporting.seeds.cells import Cell, Row
from harness.reporting.seeds.summary import BOLD, Block, SummaryTable, is_paired
from harness.reporting.seeds.wording import ABSENT as ABSENT
from harness.reporting.seeds.wording import describe_metric, name_suite
from harness.reporting.tables.cells import Coverage
from harness.stats import ALPHA, CORRECTION, Summary

T = TypeVar("T")
BETTER = "*"
WORSE = "†"
EQUAL = "≈"
STARS = {
    Significance.BETTER: BETTER,
    Significance.WORSE: WORSE,
    Significance.BETTER_ALONE: f"({BETTER})",
    Significance.WORSE_ALONE: f"({WORSE})",
    Significance.EQUAL: EQUAL,
}
MEANINGS = {
    BETTER: "better, significant",
    WORSE: "worse, significant",
    EQUAL: "equal within the margin",
    f"({BETTER})": f"better, significant only without {CORRECTION.name}",
    f"({WORSE})": f"worse, significant only without {CORRECTION.name}",
}
#: the head of a line that is its number of seeds
SEEDS = "seeds"
#: what a legend says of deviations
_SPREAD_WORDS = (" ± sample standard deviation", " ± SD")
#: a part of a cell beside its value -> the last word of that part's column in a file
PARTS = {"spread": "deviation", "mark": "mark", "caveats": "caveat", "extra": "remark"}
#: absent: a row without a run; sentences: its heads are long texts
LineKind = Literal[
    "plain", "baseline", "published", "measured", "absent", "difference", "verdict", "sentences"
]


@dataclass(frozen=True, slots=True)
class CellText:
    """The text of a cell in pieces that a page styles separately: `73.10 ± 0.42* (n = 2)`.

    `caveats` are marks of what weakens the score itself. `bold` marks the best of a group;
    `verdict` is set where the cell is a verdict, for its badge.
    """

    value: str
    spread: str = ""
    mark: str = ""
    extra: str = ""
    bold: bool = False
    verdict: Verdict | None = None
    caveats: str = ""

    @classmethod
    def from_verdict(cls, verdict: Verdict, extra: str = "") -> CellText:
        return cls(str(verdict), extra=extra, verdict=verdict)

    @property
    def meaning(self) -> str:
        """The mark in words; empty without one."""
        return MEANINGS[self.mark] if self.mark else ""

    @property
    def after(self) -> str:
        """What follows the value."""
        text = f" ± {self.spread}" if self.spread else ""
        text += self.mark + self.caveats
        return f"{text} ({self.extra})" if self.extra else text

    def __str__(self) -> str:
        return self.value + self.after


#: a head of a line; for a variant, its name and its code
LineHead = str | VariantName


def get_code(head: LineHead) -> str:
    """A head as a user types it, for a terminal and for columns of codes."""
    return head.code if isinstance(head, VariantName) else head


@dataclass(frozen=True, slots=True)
class Line:
    """One line: heads that name it, and cells.

    All heads but the last are shared with the `span` - 1 lines below, whose own span is 0. Lines of
    one `group` belong together; a rule may separate them from the next.
    """

    heads: tuple[LineHead, ...]
    cells: tuple[CellText, ...]
    kind: LineKind
    span: int = 1
    group: str = ""


@dataclass(frozen=True)
class Section:
    """Lines under one heading."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A table to lay out. `key` is a short name for files and links, `commands` start the missing
    runs.

    `average` marks the columns of averages, if there are any; `empty` says why nothing is measured
    yet, and `coverage` counts rows and verdicts of a paper's table. `groups` are headings above
    columns, one per column, or empty. `legend` says how the numbers are read; `notes` are all other
    remarks. `caption` are sentences that sum up the legend for a paper's caption, with the number
    of seeds and the test; `paper_title` is the title there, where it differs: a paper knows no
    profiles.
    """

    key: str
    title: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    average: tuple[bool, ...] = ()
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    empty: str = ""
    coverage: Coverage | None = None
    groups: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    paper_title: str = ""

    @property
    def titles(self) -> list[str]:
        """The columns with the headings of their groups, for places without a second row of
        headings.
        """
        groups = self.groups or [""] * len(self.columns)
        return [
            f"{group}: {column}" if group else column
            for group, column in zip(groups, self.columns, strict=True)
        ]

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The headings above columns from left to right, and how many columns each has; none
        without groups.
        """
        return [(group, len(list(columns))) for group, columns in groupby(self.groups)]

    @property
    def lines(self) -> list[tuple[str, Line]]:
        """Each line with the title of its section."""
        return [(section.title, line) for section in self.sections for line in section.lines]

    @property
    def parts(self) -> list[list[str]]:
        """What any cell of each column has beside its value: of PARTS."""
        lines = self.lines
        parts_of_columns = []
        for number in range(len(self.columns)):
            cells = [line.cells[number] for _, line in lines]
            parts_of_columns.append([part for part in PARTS if _has_part(cells, part)])
        return parts_of_columns

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*self.legend, *self.notes)


def _has_part(cells: Sequence[CellText], part: str) -> bool:
    """Whether any cell has something in a part."""
    return any(getattr(cell, part) for cell in cells)


def pick_columns(grid: Grid, names: Sequence[str]) -> Grid:
    """Only the columns that have these headings or tasks, in this order. Raises UserError for an
    unknown name.
    """
    tasks = [group.partition(",")[0] for group in grid.groups] or grid.columns
    names_of_columns = [set(texts) for texts in zip(grid.columns, grid.titles, tasks, strict=True)]
    names_by_key = {text.casefold(): text for text in chain.from_iterable(names_of_columns)}

    numbers = []
    for name in names:
        if name.casefold() not in names_by_key:
            hint = suggest(name, sorted(names_by_key.values()))
            raise UserError(f"no column '{name}' in the table {grid.key}; {hint}")
        for number, texts in enumerate(names_of_columns):
            if names_by_key[name.casefold()] in texts:
                numbers.append(number)

    def pick(values: Sequence[T]) -> tuple[T, ...]:
        return tuple(values[number] for number in numbers)

    return replace(
        _change_lines(grid, lambda line: replace(line, cells=pick(line.cells))),
        columns=pick(grid.columns),
        average=pick(grid.average) if grid.average else (),
        groups=pick(grid.groups) if grid.groups else (),
    )


def _change_lines(grid: Grid, change: Callable[[Line], Line]) -> Grid:
    """The grid with each of its lines changed."""
    sections = []
    for section in grid.sections:
        lines = tuple(map(change, section.lines))
        sections.append(replace(section, lines=lines))
    return replace(grid, sections=tuple(sections))


def remove_seeds(grid: Grid) -> Grid:
    """The grid without its column of seeds. Raises UserError if it has none."""
    if SEEDS not in grid.heads:
        raise UserError(f"the table {grid.key} has no column of seeds; leave --no-seeds out")

    at = grid.heads.index(SEEDS)

    def remove_head(line: Line) -> Line:
        return replace(line, heads=line.heads[:at] + line.heads[at + 1 :])

    return replace(_change_lines(grid, remove_head), heads=grid.heads[:at] + grid.heads[at + 1 :])


def remove_spread(grid: Grid) -> Grid:
    """The grid without deviations over seeds."""

    def remove_deviations(line: Line) -> Line:
        return replace(line, cells=tuple(replace(cell, spread="") for cell in line.cells))

    return replace(
        _change_lines(grid, remove_deviations),
        legend=tuple(map(_remove_spread_words, grid.legend)),
        caption=tuple(map(_remove_spread_words, grid.caption)),
    )


def _remove_spread_words(text: str) -> str:
    for words in _SPREAD_WORDS:
        text = text.replace(words, "")
    return text


def make_summary_grid(table: SummaryTable, *, whole: bool = False, note: str = "") -> Grid:
    """Format a summary table, with a `note`; an average that repeats the only task is left out
    unless `whole`.
    """
    columns = [column for column in table.columns if whole or not _is_repeated_task(table, column)]
    headings = [table.heading(column) for column in columns]
    groups = tuple(group for group, _ in headings)

    # values of --set that all rows share stand in the title, not in each row
    overrides = {row.label.overrides for row in table.rows if row.is_trained}
    common = overrides.pop() if len(overrides) == 1 else ""
    spaced = common.replace("=", " = ").replace(",", ", ")
    all_rows = f"all rows: {spaced}" if common else ""
    title = name_suite(table.suite)
    words = describe_metric(table.suite, table.metrics)
    if words:
        title = f"{title}: {words}"

    sections = []
    for block in table.blocks:
        lines = _make_block_lines(table, block, columns, common)
        sections.append(Section(block.place + block.about, tuple(lines)))
    return Grid(
        key=_join("-", table.profile, table.suite, table.about),
        title=_join(", ", title, table.about, f"profile {table.profile}", all_rows),
        heads=("variant", SEEDS),
        columns=tuple(heading for _, heading in headings),
        average=tuple(column.task == AVERAGE for column in columns),
        sections=tuple(sections),
        notes=(*table.notes, note) if note else tuple(table.notes),
        groups=groups if any(groups) else (),
        legend=table.legend,
        caption=_caption_suite_table(table),
        paper_title=_join(", ", title, table.about, all_rows),
    )


def _join(mark: str, *texts: str) -> str:
    """The texts that are not empty, with a mark between them."""
    return mark.join(text for text in texts if text)


def _caption_suite_table(table: SummaryTable) -> tuple[str, ...]:
    """The number of seeds and the test of a table in brief, and what bold print means."""
    counts = sorted({len(row.seeds) for row in table.rows if row.is_trained}) or [1]
    seeds = count_of(counts[0], "seed")
    if len(counts) > 1:
        seeds = f"{counts[0]} to {counts[-1]} seeds"
    sentences = [f"Mean ± SD over {seeds}."]

    cells = [cell for row in table.rows for cell in row.cells.values()]
    if any(cell.test for cell in cells):
        base = name_of(table.blocks[0].base)
        test = f"t-test, {CORRECTION.short}, p < {ALPHA}"
        if any(cell.is_alone for cell in cells):
            test += "; in brackets: without it"
        sentences.append(f"* better, † worse than {base} ({test}).")
    if any(cell.verdict is Significance.EQUAL for cell in cells):
        sentences.append("≈ equal within the margin.")
    if any(metric.judged for metric in table.metrics.values()):
        sentences.append(BOLD)
    return tuple(sentences)


def _is_repeated_task(table: SummaryTable, column: Column) -> bool:
    """Whether an average has the same numbers as the only task, in every row."""
    if not is_average(column.task):
        return False

    tasks = table.list_tasks(column.metric)
    if len(tasks) != 1:
        return False
    return all(_get_values(row, tasks[0]) == _get_values(row, column) for row in table.rows)


def _get_values(row: Row, column: Column) -> tuple[float, ...]:
    return row.cells[column].values if column in row.cells else ()


def _make_block_lines(
    table: SummaryTable, block: Block, columns: Sequence[Column], common: str
) -> Iterator[Line]:
    """The lines of a block; names do not repeat overrides that are `common` to all rows."""
    best = {column: _find_best(table, block, column) for column in columns}
    for row in block.rows:
        seeds = len(row.seeds)
        cells = []
        for column in columns:
            digits = table.metric(column).digits
            cells.append(format_cell(row.cells.get(column), digits, seeds, best[column]))

        name = row.label.name
        if row.label.overrides == common:
            name = VariantName(name_of(row.label.variant).text, name.code)
        count = format_seeds(seeds, row.freshness.mark, "paired" if is_paired(row) else "")
        kind: LineKind = "baseline" if block.is_baseline(row) else "plain"
        yield Line((name, count), tuple(cells), kind)


def _find_best(table: SummaryTable, block: Block, column: Column) -> str | None:
    """The best mean of a column in a block, as printed; None if all print the same or the metric is
    not judged.
    """
    metric = table.metric(column)
    if not metric.judged:
        return None

    means = [row.cells[column].summary.mean for row in block.rows if column in row.cells]
    texts = {fixed(mean, metric.digits) for mean in means}
    if len(texts) < 2:
        return None
    return fixed(max(means) if metric.larger_is_better else min(means), metric.digits)


def format_summary(summary: Summary, digits: int, extra: str = "") -> CellText:
    """Format a mean and, if there is one, the sample standard deviation."""
    spread = "" if summary.std is None else fixed(summary.std, digits)
    return CellText(fixed(summary.mean, digits), spread, extra=extra)


def format_cell(cell: Cell | None, digits: int, seeds: int, best: str | None = None) -> CellText:
    """Format a cell of a row with this many seeds, bold if its mean prints as the `best`.

    The cell's own count is shown where it differs.
    """
    if cell is None:
        return CellText(ABSENT)

    summary = format_summary(cell.summary, digits)
    return CellText(
        value=summary.value,
        spread=summary.spread,
        mark=format_star(cell),
        extra="" if cell.summary.n == seeds else f"n = {cell.summary.n}",
        bold=summary.value == best,
        caveats=format_marks(cell),
    )


def format_seeds(seeds: int, *words: str) -> str:
    """A number of seeds, or a seed, with words such as that its runs are stale or its tests paired."""
    nonempty_words = [word for word in words if word]
    return f"{seeds} ({', '.join(nonempty_words)})" if nonempty_words else str(seeds)


def format_marks(cell: Cell) -> str:
    """The marks of a cell's caveats."""
    return "".join(caveat.mark for caveat in cell.caveats)


def format_star(cell: Cell) -> str:
    """Return the mark of an equal or significant cell, in brackets if that is only before
    correction, or nothing.
    """
    return STARS.get(cell.verdict, "") if cell.verdict else ""
