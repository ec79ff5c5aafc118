"""A paper's filled table as text: printed and measured numbers, their difference and the verdict,
and its notes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from harness.formatting import count_of, fixed, p_value, points, signed
from harness.method.naming import VariantName
from harness.metrics import AVERAGE, Agreement
from harness.papers.published import PAPER_PROFILE
from harness.papers.schema import PaperColumn
from harness.reporting.seeds.caveats import weakness_notes
from harness.reporting.seeds.controls import powerless
from harness.reporting.seeds.wording import printed_name
from harness.reporting.tables.cells import (
    FilledLine,
    FilledRow,
    FilledTable,
    Judgement,
    PaperCell,
    row_verdict,
)
from harness.reporting.tables.grids import (
    ABSENT,
    BETTER,
    CellText,
    Grid,
    Line,
    LineKind,
    Section,
    cell_text,
)
from harness.stats import ALPHA, CORRECTION

#: the name of a line of public weights
AUTHORS = "authors' weights"
#: the heading of a line, its kind and its cells
LineText = tuple[str, LineKind, list[CellText]]


def paper_grid(filled: FilledTable) -> Grid:
    """Format a filled table."""
    sections = []
    for encoder, rows in filled.blocks:
        lines = _block_lines(filled, rows)
        sections.append(Section(encoder, tuple(lines)))
    return Grid(
        *printed_name(filled.paper, filled.name, filled.table.title, filled.profile),
        ("variant", "setting", "what"),
        tuple(column.name for column in filled.columns),
        tuple(column.task.startswith(AVERAGE) for column in filled.columns),
        tuple(sections),
        tuple(_notes(filled)),
        filled.commands,
        "" if filled.is_measured else no_run_yet(filled.profile),
        filled.coverage if filled.is_paper else None,
        legend=tuple(_legend(filled)),
        caption=_caption(filled),
    )


def no_run_yet(profile: str) -> str:
    """Say that a table is empty."""
    return f"no run of profile {profile} yet"


def _block_lines(filled: FilledTable, rows: Sequence[FilledRow]) -> Iterator[Line]:
    """The lines of an encoder's rows: of each row what is printed, then public weights, then runs."""
    best_printed = _best(filled, rows, [_printed_values(row) for row in rows])
    best_measured = {}
    for origin in {line.origin for line in filled.lines}:
        means = [_means(row.line_from(origin)) for row in rows]
        best_measured[origin] = _best(filled, rows, means)

    for at, row in enumerate(rows):
        parts: list[LineText] = []
        if filled.is_paper and row.row.published:
            parts.append(_printed_line(filled, row.own, best_printed[at]))
        for line in row.released:
            what = _public(row, line)
            parts += _compared_lines(filled, line, what, f", {what}")
        for line in row.lines:
            parts += _measured_lines(filled, row, line, best_measured[line.origin][at])

        name = _named(row)
        group = _group(filled, row)
        for index, (what, kind, cells) in enumerate(parts):
            span = 0 if index else len(parts)
            yield Line((name, row.own.label.setting, what), tuple(cells), kind, span, group)


def _printed_values(row: FilledRow) -> dict[str, float]:
    """The printed numbers of a row, by column."""
    return {name: cell.published.value for name, cell in row.own.cells.items() if cell.published}


def _named(row: FilledRow) -> VariantName:
    """The name of a row with its mark; that of a value stands as values of variants do."""
    name = row.own.label.name
    mark = row.row.mark
    if not mark:
        return name
    text = f"{name.text}, {mark}" if " = " in mark else f"{name.text} ({mark})"
    return VariantName(text, f"{name.code} ({mark})")


def _printed_line(filled: FilledTable, line: FilledLine, bold: Collection[str]) -> LineText:
    pairs = [(column, line.cells[column.name]) for column in filled.columns]
    stated = {cell.published.seeds for _, cell in pairs if cell.published}
    seeds = stated.pop() if len(stated) == 1 else None
    texts = [_printed(column, cell, column.name in bold) for column, cell in pairs]
    return "printed" + (f", {count_of(seeds, 'seed')}" if seeds else ""), "published", texts


def _measured_lines(
    filled: FilledTable, row: FilledRow, line: FilledLine, bold: Collection[str]
) -> Iterator[LineText]:
    """The measured numbers of a line, and how they differ from print."""
    label = _label(row, line)
    if line.seeds:
        yield from _compared_lines(filled, line, f"measured{label}, {_seeds(line)}", label, bold)
    elif filled.is_measured and not row.row.published_only:
        yield f"measured{label}, no run yet", "absent", [CellText(ABSENT)] * len(filled.columns)


def _compared_lines(
    filled: FilledTable, line: FilledLine, what: str, label: str, bold: Collection[str] = ()
) -> Iterator[LineText]:
    """The numbers of a measured line, headed `what`, and how they differ from print, headed with
    its `label`.
    """
    pairs = [(column, line.cells[column.name]) for column in filled.columns]
    texts = (
        (column, cell_text(cell.measured, column.decimals, line.seeds)) for column, cell in pairs
    )
    yield what, "measured", [replace(text, bold=column.name in bold) for column, text in texts]
    judgements = [cell.judgement for _, cell in pairs]
    verdict = row_verdict([judgement for judgement in judgements if judgement], filled.margin)
    if verdict:
        yield (
            f"difference{label}",
            "difference",
            [_difference(column, cell) for column, cell in pairs],
        )
        yield (
            f"verdict{label}: {verdict}",
            "verdict",
            [_verdict(judgement) for judgement in judgements],
        )


def _seeds(line: FilledLine) -> str:
    """The number of seeds of a line, with a word where its runs are stale or incomplete."""
    marks = (row.freshness.mark for row in line.rows.values())
    return ", ".join(dict.fromkeys([count_of(line.seeds, "seed"), *filter(None, marks)]))


def _public(row: FilledRow, line: FilledLine) -> str:
    """The name of a line of public weights, with that of the model if a row has several."""
    several = len({weights.label for weights in row.released}) > 1
    texts = (AUTHORS, line.label.encoder if several else "", line.origin.definition)
    return ", ".join(text for text in texts if text)


def _label(row: FilledRow, line: FilledLine) -> str:
    """What tells a line from the others of its row: its reading, if there are several, and its
    definition.
    """
    named = ""
    if any(line.origin.reading for line in row.lines):
        elsewhere = line.label.setting != row.own.label.setting
        named = line.label.reading + (f" on {line.label.setting}" if elsewhere else "")
    return "".join(f", {text}" for text in (named, line.origin.definition) if text)


def _printed(column: PaperColumn, cell: PaperCell, bold: bool) -> CellText:
    number = cell.published
    if number is None:
        return CellText(ABSENT)
    spread = "" if number.std is None else fixed(number.std, column.decimals)
    return CellText(
        fixed(number.value, column.decimals), spread, BETTER if number.star else "", bold=bold
    )


def _difference(column: PaperColumn, cell: PaperCell) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    return CellText(
        signed(cell.difference, column.decimals), extra=p_value(cell.test.p) if cell.test else ""
    )


def _verdict(judgement: Judgement | None) -> CellText:
    if judgement is None:
        return CellText(ABSENT)
    if judgement.verdict is not Agreement.UNDECIDED:
        return CellText.judged(judgement.verdict)
    seeds = f"{judgement.seeds} seeds" if judgement.seeds else "no number of seeds"
    return CellText.judged(judgement.verdict, "; ".join(filter(None, (judgement.why, seeds))))


def _group(filled: FilledTable, row: FilledRow) -> str:
    """The group of a row within its encoder: rows of one group compete for bold print."""
    return row.own.label.setting if filled.table.groups == "setting" else ""


def _means(line: FilledLine | None) -> Mapping[str, float]:
    cells = line.cells.items() if line else ()
    return {name: cell.measured.summary.mean for name, cell in cells if cell.measured}


def _best(
    filled: FilledTable, rows: Sequence[FilledRow], numbers: Sequence[Mapping[str, float]]
) -> list[set[str]]:
    """For each row, the columns in which it has the best of its group's `numbers`.

    Tied values are all best, unless all values of the group are equal.
    """
    best: list[set[str]] = [set() for _ in rows]
    for column in (
        column for column in filled.columns if column.measure.judged and not column.published_only
    ):
        groups: dict[str, dict[int, float]] = {}
        for at, (row, mine) in enumerate(zip(rows, numbers, strict=True)):
            if column.name in mine and not row.row.published_only:
                groups.setdefault(_group(filled, row), {})[at] = mine[column.name]
        for values in (some for some in groups.values() if len({*some.values()}) > 1):
            top = max(values.values()) if column.better == "higher" else min(values.values())
            for at in (at for at, number in values.items() if number == top):
                best[at].add(column.name)
    return best


def verdict_note(margin: float | None) -> str:
    """Explain the verdicts that are reached with a margin in points, or without one."""
    tests = (
        "Welch's t-tests for all sample or population deviations that round to the printed one, after "
        f"{CORRECTION.name} over the cells of the table"
    )
    differs = f"differs if the means do, with p < {ALPHA}"
    seeds = (
        "not distinguishable, with the number of measured seeds that would decide beside the same printed numbers with "
        "80 % power if the measured difference and deviation are the true ones."
    )
    if margin is None:
        return f"Verdict ({tests}): {differs}, otherwise {seeds} These numbers have no margin, so none is reproduced."
    within = f"reproduced if the means are equivalent within ±{points(margin)}, by two one-sided tests at {ALPHA}"
    small = "even if a smaller difference is significant"
    return f"Verdict ({tests}): {within}, {small}; otherwise {differs}; otherwise {seeds}"


def _bold(filled: FilledTable) -> str:
    """What bold print means."""
    group = "setting and encoder" if filled.table.groups == "setting" else "encoder"
    return f"Bold: the best mean of each {group}."


def _legend(filled: FilledTable) -> Iterator[str]:
    bold = _bold(filled)
    measured = "mean ± sample standard deviation over seeds"
    number = filled.name.removeprefix("T")
    if filled.is_paper:
        stars = " Stars of printed numbers are the paper's." if filled.table.test else ""
        ours = (
            f" Measured: runs of profile {PAPER_PROFILE}, {measured}." if filled.is_measured else ""
        )
        yield f"Printed: {filled.paper.title} ({filled.paper.reference}), Table {number}.{ours} {bold}{stars}"
    else:
        yield (
            f"The rows of {filled.paper.heading} Table {number} ({filled.table.title}) rerun with the corpora, encoder "
            f"and tasks of profile {filled.profile}: {measured}. Not comparable with the paper. {bold}"
        )
    yield from _tests(filled)


def _caption(filled: FilledTable) -> tuple[str, ...]:
    """Where printed numbers are from and how measured ones are computed and tested, in brief."""
    sentences = []
    if filled.is_paper:
        sentences.append(f"Printed: {filled.paper.reference}.")
    if filled.is_measured:
        alpha = filled.table.test.alpha if filled.table.test and any(_tests(filled)) else None
        sentences.append("Measured: mean ± SD over seeds.")
        if alpha:
            how = f"t-test, {CORRECTION.short}, p < {alpha}"
            sentences.append(f"* better, † worse than the row compared with ({how}).")
    return (*sentences, _bold(filled))


def _tests(filled: FilledTable) -> Iterator[str]:
    cells = (cell.measured for line in _all_lines(filled) for cell in line.cells.values())
    sizes = {cell.corrected.family.tests for cell in cells if cell and cell.corrected}
    if filled.table.test and sizes:
        over = ("up to " if len(sizes) > 1 else "") + count_of(max(sizes), "test")
        yield (
            "Measured rows: * significantly better, † significantly worse than the row they are compared with, "
            f"p < {filled.table.test.alpha}, pooled two-sample t-test as in the paper, after {CORRECTION.name} "
            f"over the tests against one row in one column, setting and encoder ({over}); (*) and (†): alone, not "
            "after the correction."
        )


def _notes(filled: FilledTable) -> Iterator[str]:
    if not filled.is_paper:
        cells = (item for line in filled.lines for item in line.cells.items())
        tasks = {name: cell.score.task for name, cell in cells if cell.score}
        if len(tasks) > 1 and len(set(tasks.values())) == 1:
            yield f"All columns: {next(iter(tasks.values()))}."
        elif others := [f"{name} is {task}" for name, task in tasks.items() if name != task]:
            yield f"Columns: {', '.join(others)}."
    yield from _lines(filled)
    yield from _comparisons(filled)
    if filled.table.note and filled.is_paper:
        yield filled.table.note
    yield from weakness_notes(weak for line in _all_lines(filled) for weak in line.weaknesses())


def _all_lines(filled: FilledTable) -> list[FilledLine]:
    return [*filled.lines, *(line for row in filled.rows for line in row.released)]


def _lines(filled: FilledTable) -> Iterator[str]:
    shown = {line.origin for line in _all_lines(filled) if line.seeds}
    if any(origin.reading for origin in shown):
        yield (
            "A row that was run in several readings of its method has a measured line for each: paper follows the "
            "text, official the public code. Stars and bold print compare lines of one reading."
        )
    labels = [
        definition.label
        for definition in filled.table.definitions
        if definition.label in {origin.definition for origin in shown}
    ]
    if len(labels) > 1:
        yield (
            f"Computed by {len(labels)} definitions, with a measured line for each: {'; '.join(labels)}. Bold print "
            "compares lines of one definition."
        )
    public = [
        f"{row.own.label.name} / {row.own.label.place} is {line.label.encoder}, {line.label.name}"
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
        f"{line.label.name} / {line.label.place}: {line.apart} of {line.against.name}"
        for line in filled.lines
        if line.against and line.apart and line.seeds
    ]
    if apart:
        yield f"Trained differently from the row they are compared with: {'; '.join(dict.fromkeys(apart))}."
    rows = {line.label: next(iter(line.rows.values())) for line in filled.lines if line.rows}
    said = [
        (full.name, row.name, powerless(full, row)) for full, row in combinations(rows.values(), 2)
    ]
    yield from dict.fromkeys(f"{row} beside {full} {shown}." for full, row, shown in said if shown)
    if any(cell.judgement for line in _all_lines(filled) for cell in line.cells.values()):
        yield verdict_note(filled.margin)
