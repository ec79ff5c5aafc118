"""A paper's filled table as text: printed and measured numbers, their difference and the verdict,
and its notes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

from harness.formatting import count_of, fixed, p_value, points, signed
from harness.method.naming import VariantName
from harness.metrics import AVERAGE, Agreement
from harness.papers.published import PAPER_PROFILE
from harness.papers.schema import PaperColumn
from harness.reporting.seeds.caveats import list_weakness_notes
from harness.reporting.seeds.controls import describe_powerless
from harness.reporting.seeds.wording import name_printed
from harness.reporting.tables.cells import (
    FilledLine,
    FilledRow,
    FilledTable,
    Judgement,
    PaperCell,
    summarise_verdicts,
)
from harness.reporting.tables.grids import (
    ABSENT,
    BETTER,
    CellText,
    Grid,
    Line,
    LineKind,
    Section,
    format_cell,
)
from harness.stats import ALPHA, CORRECTION

#: the name of a line of public weights
AUTHORS = "authors' weights"
#: the heading of a line, its kind and its cells
LineText = tuple[str, LineKind, list[CellText]]


def make_paper_grid(filled: FilledTable) -> Grid:
    """Format a filled table."""
    key, title = name_printed(filled.paper, filled.name, filled.table.title, filled.profile)
    sections = []
    for encoder, rows in filled.blocks:
        lines = _make_block_lines(filled, rows)
        sections.append(Section(encoder, tuple(lines)))
    return Grid(
        key=key,
        title=title,
        heads=("variant", "setting", "what"),
        columns=tuple(column.name for column in filled.columns),
        average=tuple(column.task.startswith(AVERAGE) for column in filled.columns),
        sections=tuple(sections),
        notes=tuple(_list_notes(filled)),
        commands=filled.commands,
        empty="" if filled.is_measured else describe_no_run(filled.profile),
        coverage=filled.coverage if filled.is_paper else None,
        legend=tuple(_make_legend(filled)),
        caption=_caption_paper_table(filled),
    )


def describe_no_run(profile: str) -> str:
    """Say that a table is empty."""
    return f"no run of profile {profile} yet"


def _make_block_lines(filled: FilledTable, rows: Sequence[FilledRow]) -> Iterator[Line]:
    """The lines of an encoder's rows: of each row what is printed, then public weights, then runs."""
    best_printed = _find_best(filled, rows, [_get_printed_values(row) for row in rows])
    best_measured = {}
    for origin in {line.origin for line in filled.lines}:
        means = [_get_means(row.line_from(origin)) for row in rows]
        best_measured[origin] = _find_best(filled, rows, means)

    for at, row in enumerate(rows):
        parts: list[LineText] = []
        if filled.is_paper and row.row.published:
            parts.append(_format_printed_line(filled, row.own, best_printed[at]))
        for line in row.released:
            heading = _name_public_weights(row, line)
            parts += _format_compared_lines(filled, line, heading, f", {heading}")
        for line in row.lines:
            parts += _format_measured_lines(filled, row, line, best_measured[line.origin][at])

        name = _name_row(row)
        group = _find_group(filled, row)
        for index, (heading, kind, cells) in enumerate(parts):
            span = 0 if index else len(parts)
            yield Line((name, row.own.label.setting, heading), tuple(cells), kind, span, group)


def _get_printed_values(row: FilledRow) -> dict[str, float]:
    """The printed numbers of a row, by column."""
    return {name: cell.published.value for name, cell in row.own.cells.items() if cell.published}


def _name_row(row: FilledRow) -> VariantName:
    """The name of a row with its mark; that of a value stands as values of variants do."""
    name = row.own.label.name
    mark = row.row.mark
    if not mark:
        return name
    text = f"{name.text}, {mark}" if " = " in mark else f"{name.text} ({mark})"
    return VariantName(text, f"{name.code} ({mark})")


def _format_printed_line(filled: FilledTable, line: FilledLine, bold: Collection[str]) -> LineText:
    """The printed numbers, headed with their seeds where all state the same ones."""
    texts = []
    stated = set()
    for column in filled.columns:
        cell = line.cells[column.name]
        texts.append(_format_printed(column, cell, column.name in bold))
        if cell.published:
            stated.add(cell.published.seeds)

    seeds = stated.pop() if len(stated) == 1 else None
    heading = f"printed, {count_of(seeds, 'seed')}" if seeds else "printed"
    return heading, "published", texts


def _format_measured_lines(
    filled: FilledTable, row: FilledRow, line: FilledLine, bold: Collection[str]
) -> Iterator[LineText]:
    """The measured numbers of a line, and how they differ from print."""
    label = _name_line(row, line)
    if line.seeds:
        heading = f"measured{label}, {_describe_seeds(line)}"
        yield from _format_compared_lines(filled, line, heading, label, bold)
    elif filled.is_measured and not row.row.published_only:
        yield f"measured{label}, no run yet", "absent", [CellText(ABSENT)] * len(filled.columns)


def _format_compared_lines(
    filled: FilledTable, line: FilledLine, what: str, label: str, bold: Collection[str] = ()
) -> Iterator[LineText]:
    """The numbers of a measured line, headed `what`, and how they differ from print, headed with
    its `label`.
    """
    measured = []
    differences = []
    judgements = []
    for column in filled.columns:
        cell = line.cells[column.name]
        text = format_cell(cell.measured, column.decimals, line.seeds)
        measured.append(replace(text, bold=column.name in bold))
        differences.append(_format_difference(column, cell))
        judgements.append(cell.judgement)
    yield what, "measured", measured

    made_judgements = [judgement for judgement in judgements if judgement]
    verdict = summarise_verdicts(made_judgements, filled.margin)
    if verdict:
        yield f"difference{label}", "difference", differences
        yield f"verdict{label}: {verdict}", "verdict", list(map(_format_verdict, judgements))


def _describe_seeds(line: FilledLine) -> str:
    """The number of seeds of a line, with a word where its runs are stale or incomplete."""
    texts = {count_of(line.seeds, "seed"): None}
    for row in line.rows.values():
        if row.freshness.mark:
            texts[row.freshness.mark] = None
    return ", ".join(texts)


def _name_public_weights(row: FilledRow, line: FilledLine) -> str:
    """The name of a line of public weights, with that of the model if a row has several."""
    several = len({weights.label for weights in row.released}) > 1
    texts = (AUTHORS, line.label.encoder if several else "", line.origin.definition)
    return ", ".join(text for text in texts if text)


def _name_line(row: FilledRow, line: FilledLine) -> str:
    """What tells a line from the others of its row: its reading, if there are several, and its
    definition.
    """
    text = ""
    if any(line.origin.reading for line in row.lines):
        text += f", {line.label.reading}"
        if line.label.setting != row.own.label.setting:
            text += f" on {line.label.setting}"
    if line.origin.definition:
        text += f", {line.origin.definition}"
    return text


def _format_printed(column: PaperColumn, cell: PaperCell, bold: bool) -> CellText:
    """A printed number with its deviation and its star."""
    number = cell.published
    if number is None:
        return CellText(ABSENT)
    value = fixed(number.value, column.decimals)
    spread = "" if number.std is None else fixed(number.std, column.decimals)
    return CellText(value, spread, BETTER if number.star else "", bold=bold)


def _format_difference(column: PaperColumn, cell: PaperCell) -> CellText:
    if cell.difference is None:
        return CellText(ABSENT)
    p = p_value(cell.test.p) if cell.test else ""
    return CellText(signed(cell.difference, column.decimals), extra=p)


def _format_verdict(judgement: Judgement | None) -> CellText:
    """A verdict, with the seeds that would decide where it is open."""
    if judgement is None:
        return CellText(ABSENT)
    if judgement.verdict is not Agreement.UNDECIDED:
        return CellText.from_verdict(judgement.verdict)
    seeds = f"{judgement.seeds} seeds" if judgement.seeds else "no number of seeds"
    reason = f"{judgement.why}; {seeds}" if judgement.why else seeds
    return CellText.from_verdict(judgement.verdict, reason)


def _find_group(filled: FilledTable, row: FilledRow) -> str:
    """The group of a row within its encoder: rows of one group compete for bold print."""
    return row.own.label.setting if filled.table.groups == "setting" else ""


def _get_means(line: FilledLine | None) -> Mapping[str, float]:
    """The measured means of a line, by column; none without a line."""
    if line is None:
        return {}
    cells = line.cells.items()
    return {name: cell.measured.summary.mean for name, cell in cells if cell.measured}


def _find_best(
    filled: FilledTable, rows: Sequence[FilledRow], numbers: Sequence[Mapping[str, float]]
) -> list[set[str]]:
    """For each row, the columns in which it has the best of its group's `numbers`.

    Tied values are all best, unless all values of the group are equal.
    """
    best: list[set[str]] = [set() for _ in rows]
    for column in filled.columns:
        if not column.measure.judged or column.published_only:
            continue

        values_by_group: dict[str, dict[int, float]] = {}
        for at, (row, numbers_of_row) in enumerate(zip(rows, numbers, strict=True)):
            if column.name in numbers_of_row and not row.row.published_only:
                values = values_by_group.setdefault(_find_group(filled, row), {})
                values[at] = numbers_of_row[column.name]

        for values in values_by_group.values():
            top = max(values.values()) if column.better == "higher" else min(values.values())
            best_rows = [at for at, number in values.items() if number == top]
            if len(set(values.values())) > 1:
                for at in best_rows:
                    best[at].add(column.name)
    return best


def explain_verdicts(margin: float | None) -> str:
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


def _explain_bold(filled: FilledTable) -> str:
    """What bold print means."""
    group = "setting and encoder" if filled.table.groups == "setting" else "encoder"
    return f"Bold: the best mean of each {group}."


def _make_legend(filled: FilledTable) -> Iterator[str]:
    """Where the numbers of a table are from, and how they are tested."""
    bold = _explain_bold(filled)
    measured = "mean ± sample standard deviation over seeds"
    number = filled.name.removeprefix("T")

    if filled.is_paper:
        text = f"Printed: {filled.paper.title} ({filled.paper.reference}), Table {number}."
        if filled.is_measured:
            text += f" Measured: runs of profile {PAPER_PROFILE}, {measured}."
        text += f" {bold}"
        if filled.table.test:
            text += " Stars of printed numbers are the paper's."
        yield text
    else:
        yield (
            f"The rows of {filled.paper.heading} Table {number} ({filled.table.title}) rerun with the corpora, encoder "
            f"and tasks of profile {filled.profile}: {measured}. Not comparable with the paper. {bold}"
        )

    yield from _explain_tests(filled)


def _caption_paper_table(filled: FilledTable) -> tuple[str, ...]:
    """Where printed numbers are from and how measured ones are computed and tested, in brief."""
    sentences = []
    if filled.is_paper:
        sentences.append(f"Printed: {filled.paper.reference}.")
    if filled.is_measured:
        sentences.append("Measured: mean ± SD over seeds.")
        if filled.table.test and any(_explain_tests(filled)):
            test = f"t-test, {CORRECTION.short}, p < {filled.table.test.alpha}"
            sentences.append(f"* better, † worse than the row compared with ({test}).")
    return (*sentences, _explain_bold(filled))


def _explain_tests(filled: FilledTable) -> Iterator[str]:
    """What the stars of measured rows mean; nothing without tests."""
    sizes = set()
    for line in _list_lines(filled):
        for cell in line.cells.values():
            if cell.measured and cell.measured.corrected:
                sizes.add(cell.measured.corrected.family.tests)
    if not filled.table.test or not sizes:
        return

    size = count_of(max(sizes), "test")
    over = f"up to {size}" if len(sizes) > 1 else size
    yield (
        "Measured rows: * significantly better, † significantly worse than the row they are compared with, "
        f"p < {filled.table.test.alpha}, pooled two-sample t-test as in the paper, after {CORRECTION.name} "
        f"over the tests against one row in one column, setting and encoder ({over}); (*) and (†): alone, not "
        "after the correction."
    )


def _list_notes(filled: FilledTable) -> Iterator[str]:
    """What a reader has to know of columns, lines and scores."""
    if not filled.is_paper:
        yield from _explain_columns(filled)
    yield from _explain_lines(filled)
    yield from _explain_comparisons(filled)
    if filled.table.note and filled.is_paper:
        yield filled.table.note

    lines = _list_lines(filled)
    yield from list_weakness_notes(chain.from_iterable(line.weaknesses() for line in lines))


def _explain_columns(filled: FilledTable) -> Iterator[str]:
    """Which tasks of a profile stand in the paper's columns, where they differ."""
    tasks = {}
    for line in filled.lines:
        for name, cell in line.cells.items():
            if cell.score:
                tasks[name] = cell.score.task

    renamed = [f"{name} is {task}" for name, task in tasks.items() if name != task]
    if len(tasks) > 1 and len(set(tasks.values())) == 1:
        yield f"All columns: {next(iter(tasks.values()))}."
    elif renamed:
        yield f"Columns: {', '.join(renamed)}."


def _list_lines(filled: FilledTable) -> list[FilledLine]:
    """The lines of its runs, then those of public weights."""
    public = chain.from_iterable(row.released for row in filled.rows)
    return [*filled.lines, *public]


def _explain_lines(filled: FilledTable) -> Iterator[str]:
    """Why a row has several measured lines: readings, definitions and public weights."""
    origins = {line.origin for line in _list_lines(filled) if line.seeds}
    if any(origin.reading for origin in origins):
        yield (
            "A row that was run in several readings of its method has a measured line for each: paper follows the "
            "text, official the public code. Stars and bold print compare lines of one reading."
        )

    names = {origin.definition for origin in origins}
    definitions = filled.table.definitions
    labels = [definition.label for definition in definitions if definition.label in names]
    if len(labels) > 1:
        yield (
            f"Computed by {len(labels)} definitions, with a measured line for each: {'; '.join(labels)}. Bold print "
            "compares lines of one definition."
        )

    public = dict[str, None]()
    for row in filled.rows:
        name = f"{row.own.label.name} / {row.own.label.place}"
        for line in row.released:
            public[f"{name} is {line.label.encoder}, {line.label.name}"] = None
    if public:
        yield (
            "Authors' weights are the published models of these rows, evaluated here as their authors do; they are not "
            f"tested against other rows: {'; '.join(public)}."
        )


def _explain_comparisons(filled: FilledTable) -> Iterator[str]:
    """What to know of the comparisons: other values of the training, terms that carry nothing, and
    how verdicts are reached.
    """
    apart = dict[str, None]()
    for line in filled.lines:
        if line.against and line.apart and line.seeds:
            text = f"{line.label.name} / {line.label.place}: {line.apart} of {line.against.name}"
            apart[text] = None
    if apart:
        yield f"Trained differently from the row they are compared with: {'; '.join(apart)}."

    rows = {line.label: next(iter(line.rows.values())) for line in filled.lines if line.rows}
    remarks = dict[str, None]()
    for full, row in combinations(rows.values(), 2):
        carried = describe_powerless(full, row)
        if carried:
            remarks[f"{row.name} beside {full.name} {carried}."] = None
    yield from remarks

    cells = chain.from_iterable(line.cells.values() for line in _list_lines(filled))
    if any(cell.judgement for cell in cells):
        yield explain_verdicts(filled.margin)
