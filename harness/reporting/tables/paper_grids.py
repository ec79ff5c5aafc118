"""A paper's filled table as text: printed and measured numbers, their difference and the verdict, and its notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from harness.commands import DEFAULT_COMMANDS, Commands
from harness.formatting import count_of, fixed, p_value, points, signed
from harness.method.naming import VariantName, name_of
from harness.metrics import AVERAGE
from harness.papers.published import PAPER_PROFILE, Paper
from harness.papers.schema import PaperColumn
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.wording import by_way, data_of
from harness.reporting.tables.cells import (
    FilledLine,
    FilledRow,
    FilledTable,
    Judgement,
    PaperCell,
    row_verdict,
)
from harness.reporting.tables.filled import filled_tables
from harness.reporting.tables.grids import (
    ABSENT,
    BETTER,
    CellText,
    Grid,
    Line,
    LineKind,
    Section,
    marks,
    star,
    summary_text,
)
from harness.spec import Place
from harness.stats import ALPHA
from harness.store import Result

#: the name of a line of public weights
AUTHORS = "authors' weights"
#: the heading of a line, its kind and its cells
LineText = tuple[str, LineKind, list[CellText]]
#: position of a row in its block, and column, of the cells in bold
BoldCells = set[tuple[int, str]]


def paper_grid(filled: FilledTable) -> Grid:
    """Format a filled table."""
    headings = [by_way(column.name) for column in filled.columns]
    return Grid(
        f"{filled.paper.name}-{filled.name}" + ("" if filled.is_paper else f"-{filled.profile}"),
        table_title(filled.paper, filled.name, filled.table.title, filled.profile),
        ("variant", "setting", "what"),
        tuple(title for _, title in headings),
        tuple(column.task.startswith(AVERAGE) for column in filled.columns),
        tuple(Section(encoder, tuple(_block_lines(filled, rows))) for encoder, rows in filled.blocks),
        tuple(_notes(filled)),
        filled.commands,
        "" if filled.is_measured else no_run_yet(filled.profile),
        filled.coverage if filled.is_paper else None,
        groups=tuple(way for way, _ in headings) if any(way for way, _ in headings) else (),
        legend=tuple(_legend(filled)),
    )


def papers_grids(
    profile: str, results: Sequence[Result], commands: Commands = DEFAULT_COMMANDS, variants: Sequence[str] = ()
) -> dict[str, Grid]:
    """Return the papers' tables by name ("mcse:T1") as one profile's results fill them.

    Those of a profile with stand-ins are there if every row has a run. `variants` are the only rows to show, if any.
    """
    filled = filled_tables(profile, results, commands, variants)
    tables = [shown for table in filled if (shown := table.of(variants) if variants else table).rows]
    return {f"{table.paper.name}:{table.name}": paper_grid(table) for table in tables}


def table_title(paper: Paper, name: str, title: str, profile: str) -> str:
    """Return the title of a paper's table, or of the same rows run on the data of another profile."""
    table = f"{paper.heading} Table {name.removeprefix('T')}"
    return f"{table}: {title}" if profile == PAPER_PROFILE else f"{table} on {data_of(profile)}"


def no_run_yet(profile: str) -> str:
    """Say that a table is empty."""
    return f"no run of profile {profile} yet"


def _block_lines(filled: FilledTable, rows: Sequence[FilledRow]) -> Iterator[Line]:
    own = [row.own for row in rows]
    printed = _best(filled, rows, own, lambda cell: cell.published.value if cell.published else None)
    measured = {
        name: _best(
            filled,
            rows,
            [row.beside(name) for row in rows],
            lambda cell: cell.measured.summary.mean if cell.measured else None,
        )
        for name in {line.family for line in filled.lines}
    }
    for at, row in enumerate(rows):
        name = _named(row)
        parts = [_printed_line(filled, row.own, at, printed)] if filled.is_paper and row.row.published else []
        for line in row.released:
            what = _public(row, line)
            parts += _compared_lines(filled, line, what, f", {what}")
        for line in row.lines:
            parts += _measured_lines(filled, row, line, at, measured[line.family])
        for index, (what, kind, cells) in enumerate(parts):
            span = 0 if index else len(parts)
            yield Line((name, row.own.place.setting, what), tuple(cells), kind, span, _group(filled, row))


def _named(row: FilledRow) -> VariantName:
    name, mark = name_of(row.own.place.variant), f" ({row.row.mark})" if row.row.mark else ""
    return VariantName(name.text + mark, name.code + mark)


def _where(place: Place) -> str:
    return f"{name_of(place.variant)} / {place.setting} / {place.encoder}"


def _printed_line(filled: FilledTable, line: FilledLine, at: int, bold: BoldCells) -> LineText:
    pairs = [(column, line.cells[column.name]) for column in filled.columns]
    stated = {cell.published.seeds for _, cell in pairs if cell.published}
    seeds = stated.pop() if len(stated) == 1 else None
    texts = [_printed(column, cell, (at, column.name) in bold) for column, cell in pairs]
    return "printed" + (f", {count_of(seeds, 'seed')}" if seeds else ""), "published", texts


def _measured_lines(
    filled: FilledTable, row: FilledRow, line: FilledLine, at: int, bold: BoldCells
) -> Iterator[LineText]:
    """The measured numbers of a line, and how they differ from print."""
    label = _label(row, line)
    if line.seeds:
        columns = {name for row_at, name in bold if row_at == at}
        yield from _compared_lines(filled, line, f"measured{label}, {_seeds(line)}", label, columns)
    elif filled.is_measured and not row.row.published_only:
        yield f"measured{label}, no run yet", "absent", [CellText(ABSENT)] * len(filled.columns)


def _compared_lines(
    filled: FilledTable, line: FilledLine, what: str, label: str, bold: Collection[str] = ()
) -> Iterator[LineText]:
    """The numbers of a measured line, headed `what`, and how they differ from print, headed with its `label`."""
    pairs = [(column, line.cells[column.name]) for column in filled.columns]
    yield what, "measured", [_measured(column, cell, line.seeds, column.name in bold) for column, cell in pairs]
    judgements = [cell.judgement for _, cell in pairs]
    verdict = row_verdict([judgement for judgement in judgements if judgement], filled.margin)
    if verdict:
        yield f"difference{label}", "difference", [_difference(column, cell) for column, cell in pairs]
        yield f"verdict{label}: {verdict}", "verdict", [_verdict(judgement) for judgement in judgements]


def _seeds(line: FilledLine) -> str:
    """The number of seeds of a line, with a word where its runs are stale or incomplete."""
    return ", ".join(
        dict.fromkeys(
            [count_of(line.seeds, "seed"), *(freshness.mark for freshness in line.freshness if freshness.mark)]
        )
    )


def _public(row: FilledRow, line: FilledLine) -> str:
    """The name of a line of public weights, with that of the model if a row has several."""
    several = len({weights.place for weights in row.released}) > 1
    texts = (AUTHORS, line.place.encoder if several else "", line.family.definition)
    return ", ".join(text for text in texts if text)


def _label(row: FilledRow, line: FilledLine) -> str:
    """What tells a line from the others of its row: its reading, if there are several, and its definition."""
    named = ""
    if any(line.family.reading for line in row.lines):
        elsewhere = line.place.setting != row.own.place.setting
        named = line.reading + (f" on {line.place.setting}" if elsewhere else "")
    return "".join(f", {text}" for text in (named, line.family.definition) if text)


def _printed(column: PaperColumn, cell: PaperCell, bold: bool) -> CellText:
    number = cell.published
    if number is None:
        return CellText(ABSENT)
    spread = "" if number.std is None else fixed(number.std, column.decimals)
    return CellText(fixed(number.value, column.decimals), spread, BETTER if number.star else "", bold=bold)


def _measured(column: PaperColumn, cell: PaperCell, seeds: int, bold: bool) -> CellText:
    if cell.measured is None:
        return CellText(ABSENT)
    n = cell.measured.summary.n
    text = summary_text(cell.measured.summary, column.decimals, star(cell.measured))
    return replace(text, bold=bold, extra="" if n == seeds else f"n = {n}", caveats=marks(cell.measured))


def _difference(column: PaperColumn, cell: PaperCell) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    return CellText(signed(cell.difference, column.decimals), extra=p_value(cell.test.p) if cell.test else "")


def _verdict(judgement: Judgement | None) -> CellText:
    if judgement is None:
        return CellText(ABSENT)
    return CellText.judged(judgement.verdict, f"{judgement.seeds} seeds" if judgement.seeds else "")


def _group(filled: FilledTable, row: FilledRow) -> str:
    """The group of a row within its encoder: rows of one group compete for bold print."""
    return row.own.place.setting if filled.table.groups == "setting" else ""


def _best(
    filled: FilledTable,
    rows: Sequence[FilledRow],
    lines: Sequence[FilledLine | None],
    value: Callable[[PaperCell], float | None],
) -> BoldCells:
    """Find the best values of each group by column; each row has one line or None.

    Tied values are all best, unless all values of the group are equal.
    """
    cells = set()
    for column in (column for column in filled.columns if column.measure.judged):
        groups: dict[str, dict[int, float]] = {}
        for at, (row, line) in enumerate(zip(rows, lines, strict=True)):
            number = value(line.cells[column.name]) if line else None
            if number is not None and not (row.row.published_only or column.published_only):
                groups.setdefault(_group(filled, row), {})[at] = number
        for values in groups.values():
            best = max(values.values()) if column.better == "higher" else min(values.values())
            if len(set(values.values())) > 1:
                cells |= {(at, column.name) for at, number in values.items() if number == best}
    return cells


def verdict_note(margin: float | None) -> str:
    """Explain the verdicts that are reached with a margin in points, or without one."""
    tests = "pooled t-tests from means, deviations and numbers of seeds; printed deviations are taken as sample ones"
    differs = "differs if 0 lies outside the 95 % interval of measured - printed"
    seeds = (
        "not distinguishable, with the number of seeds on each side, the printed one too, that would decide it with "
        "80 % power if the measured difference and the pooled deviation are the true ones."
    )
    if margin is None:
        return f"Verdict ({tests}): {differs}, otherwise {seeds} These numbers have no margin, so none is reproduced."
    within = f"reproduced if the means are equivalent within ±{points(margin)}, by two one-sided tests at {ALPHA}"
    small = "even if a smaller difference is significant"
    return f"Verdict ({tests}): {within}, {small}; otherwise {differs}; otherwise {seeds}"


def _legend(filled: FilledTable) -> Iterator[str]:
    group = "setting and encoder" if filled.table.groups == "setting" else "encoder"
    bold = f"Bold: the best mean of each {group}."
    measured = "mean ± sample standard deviation over seeds"
    number = filled.name.removeprefix("T")
    if filled.is_paper:
        stars = " Stars of printed numbers are the paper's." if filled.table.test else ""
        ours = f" Measured: runs of profile {PAPER_PROFILE}, {measured}." if filled.is_measured else ""
        yield f"Printed: {filled.paper.title} ({filled.paper.reference}), Table {number}.{ours} {bold}{stars}"
    else:
        yield (
            f"The rows of {filled.paper.heading} Table {number} ({filled.table.title}) rerun with the corpora, encoder "
            f"and tasks of profile {filled.profile}: {measured}. Not comparable with the paper. {bold}"
        )
    yield from _tests(filled)


def _tests(filled: FilledTable) -> Iterator[str]:
    cells = (cell.measured for line in _all_lines(filled) for cell in line.cells.values())
    sizes = {cell.corrected.tests for cell in cells if cell and cell.corrected}
    if filled.table.test and sizes:
        over = ("up to " if len(sizes) > 1 else "") + count_of(max(sizes), "test")
        yield (
            "Measured rows: * significantly better, † significantly worse than the row they are compared with, "
            f"p < {filled.table.test.alpha}, independent two-sample t-test as in the paper, after Holm's correction "
            f"over the tests against one row in one column, setting and encoder ({over}); (*) and (†): alone, not "
            "after the correction."
        )


def _notes(filled: FilledTable) -> Iterator[str]:
    if not filled.is_paper:
        tasks = {name: score.task for line in filled.lines for name, score in line.scores.items()}
        several = ", ".join(f"{column.name} is {tasks[column.name]}" for column in filled.columns)
        same = len(set(tasks.values())) == 1 and len(tasks) > 1
        yield f"All columns: {next(iter(tasks.values()))}." if same else f"Columns: {several}."
    yield from _lines(filled)
    yield from _comparisons(filled)
    if filled.table.note and filled.is_paper:
        yield filled.table.note
    yield from weakness_notes(weak for line in _all_lines(filled) for weak in line.weaknesses())


def _all_lines(filled: FilledTable) -> list[FilledLine]:
    return [*filled.lines, *(line for row in filled.rows for line in row.released)]


def _lines(filled: FilledTable) -> Iterator[str]:
    shown = {line.family for line in _all_lines(filled) if line.seeds}
    if any(family.reading for family in shown):
        yield (
            "A row that was run in several readings of its method has a measured line for each: paper follows the "
            "text, official the public code. Stars and bold print compare lines of one reading."
        )
    labels = [
        definition.label
        for definition in filled.table.definitions
        if definition.label in {family.definition for family in shown}
    ]
    if len(labels) > 1:
        yield (
            f"Computed by {len(labels)} definitions, with a measured line for each: {'; '.join(labels)}. Bold print "
            "compares lines of one definition."
        )
    public = [
        f"{_where(row.own.place)} is {line.place.encoder}, {name_of(line.place.variant)}"
        for row in filled.rows
        for line in row.released
    ]
    if public:
        yield (
            "Authors' weights are the published models of these rows, evaluated here as their authors do; they are not "
            f"tested against other rows: {'; '.join(dict.fromkeys(public))}."
        )


def _comparisons(filled: FilledTable) -> Iterator[str]:
    apart = [
        f"{_where(line.place)}: {line.apart} of {name_of(line.against or '')}"
        for line in filled.lines
        if line.apart and line.seeds
    ]
    if apart:
        yield f"Trained differently from the row they are compared with: {'; '.join(dict.fromkeys(apart))}."
    if any(cell.judgement for line in _all_lines(filled) for cell in line.cells.values()):
        yield verdict_note(filled.margin)
