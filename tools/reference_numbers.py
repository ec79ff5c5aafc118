"""Numbers in docs/reference-results.md and docs/grounding.md from the runs in results/reference.

A block stands between `<!-- numbers: NAME -->` and `<!-- end -->`; NAME is a key of BLOCKS. The
block `python` is the output of the Python example above it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
import grounding_numbers
from grounding_curves import draw_figures
from grounding_runs import select_main_pair_runs
from reference_runs import (
    find_block,
    find_column,
    find_table,
    format_gain,
    format_interval,
    format_score,
    format_table,
    list_rows_once,
)

from harness.formatting import count_of, fixed
from harness.metrics import AVERAGE, SEEN, UNSEEN, Column, Significance
from harness.reporting.sections.seen import SeenTable, make_seen_tables
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.controls import describe_controls, find_rivals
from harness.reporting.seeds.gains import make_forests, select_methods
from harness.reporting.seeds.summary import SummaryTable
from harness.reporting.seeds.wording import describe_test
from harness.reporting.tables.grids import format_summary
from harness.stats import CORRECTION
from harness.store import Result, metrics_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference-results.md"
GROUNDING = ROOT / "docs" / "grounding.md"
MARKED = re.compile(r"(?<=<!-- numbers: )(\S+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
#: DALR by its text teacher alone
WITHOUT_PICTURES = "dalr[info_weight=0,lambda=0]"
#: examples/field
FIELD = ("moco-simcse", "esimcse", "promptbert", "diffcse", "rankcse")
#: DALR's text teacher
TEACHER = "none[pooling=mean]"
#: the head of a column
DIFFERENCE = f"difference to `simcse` (95 % interval), p after {CORRECTION.name}"


def is_of_field(row: Row) -> bool:
    """Whether a row is a method of examples/field, which has a section of its own."""
    return re.split(r"[\[@]", row.label.variant)[0] in FIELD


def list_verdicts(rows: Iterable[Row], column: Column) -> Iterator[str]:
    """Sentences on which variants are better or worse than SimCSE, alone and in their families."""
    cells = {row.label: row.cells[column] for row in rows if row.cells[column].test}
    sides = (
        ("Better than", Significance.BETTER, Significance.BETTER_ALONE),
        ("Worse than", Significance.WORSE, Significance.WORSE_ALONE),
    )
    for words, verdict, verdict_alone in sides:
        names = [f"`{label}`" for label, cell in cells.items() if cell.verdict is verdict]
        if names:
            yield f"- {words} SimCSE: {', '.join(names)}."

        names_alone = []
        for label, cell in cells.items():
            if cell.verdict is verdict_alone:
                names_alone.append(f"`{label}` ({describe_test(cell, 2)})")
        if names_alone:
            yield f"- {words} SimCSE only before {CORRECTION.name}: {', '.join(names_alone)}."


def list_strongest_controls(table: SummaryTable, column: Column) -> Iterator[tuple[str, str]]:
    """Each setting, and its best method with its strongest control in words."""
    for forest in make_forests(table, column):
        best = select_methods(forest)[0]
        rivals = find_rivals(best.row, forest.rows, column, forest.metric)
        words = describe_controls(rivals, best.row, forest.metric)
        yield forest.block.setting, f"best mean of the methods: `{best.row.label}`.{words}"


def show_tiny() -> Iterator[str]:
    """Every method in both readings on the toy world."""
    table = find_table("tiny", "sts")
    block = find_block(table, "toy")
    column = find_column(table, AVERAGE)
    row_by_variant = {row.label.variant: row for row in block.rows}
    lines = []
    for row in block.rows:
        variant = row.label.variant
        if "@" in variant or not _is_shown(row):
            continue
        lines.append(
            [
                f"`{variant}`",
                format_score(table, row, column),
                format_gain(table, block, row, column),
                format_score(table, row_by_variant.get(f"{variant}@official"), column),
            ]
        )

    seeds = count_of(max(len(row.seeds) for row in block.rows), "seed")
    head = [f"ToySTS, Spearman x 100, {seeds}", "`@paper`", DIFFERENCE, "`@official`"]
    yield from format_table(head, lines)
    yield ""
    for setting, words in list_strongest_controls(table, column):
        if setting == "toy":
            yield f"- {words[0].upper()}{words[1:]}"


def _is_shown(row: Row) -> bool:
    """Whether a row is a method or a control as its profile trains it, not one of a table's
    ablations.
    """
    if row.label.overrides or is_of_field(row):
        return False
    variant = row.label.variant
    return "[" not in variant or "images=" in variant or not row.is_trained


def show_small() -> Iterator[str]:
    """Every variant of the profile small, by setting."""
    table = find_table("small", "sts")
    benchmark = find_column(table, "STS-B")
    average = find_column(table, AVERAGE)
    retrieval = find_table("small", "retrieval")
    recall = next(column for column in retrieval.columns if column.metric == "t2i_R@10")
    # the labels of both suites are those of the same runs
    retrieval_rows = {row.label: row for row in retrieval.rows}

    def is_shown(row: Row) -> bool:
        return not row.label.overrides and not is_of_field(row)

    lines = []
    for block, row in list_rows_once(table, is_shown):
        lines.append(
            [
                f"`{row.label.variant}`",
                row.label.setting if row.is_trained else "–",
                str(len(row.seeds)),
                format_score(table, row, benchmark),
                format_score(table, row, average),
                format_gain(table, block, row, average),
                format_score(retrieval, retrieval_rows.get(row.label), recall),
            ]
        )

    head = [
        "variant",
        "setting",
        "seeds",
        "STS-B",
        "Avg of 7 STS",
        DIFFERENCE,
        "text to image R@10",
    ]
    yield from format_table(head, lines)
    yield ""
    for setting, words in list_strongest_controls(table, average):
        yield f"- `{setting}`: {words}"


def show_field() -> Iterator[str]:
    """Methods of the field beside SimCSE, profiles tiny and small; in the families of the other
    tables.
    """
    yield from _show_field_in("tiny", "toy", "ToySTS")
    yield from _show_field_in("small", "wiki+flickr8k", "Avg of 7 STS")


def _show_field_in(profile: str, setting: str, title: str) -> Iterator[str]:
    """The methods of the field in a setting; `title` names the column of scores."""
    table = find_table(profile, "sts")
    block = find_block(table, setting)
    column = find_column(table, AVERAGE)
    trained = [row for row in block.trained if not row.label.overrides]
    baselines = [row for row in trained if block.is_baseline(row)]
    methods = [row for row in trained if is_of_field(row)]
    lines = []
    for row in [*baselines, *methods]:
        less = format_gain(table, block, row, column)
        score = format_score(table, row, column)
        lines.append([f"`{row.label.variant}`", str(len(row.seeds)), score, less])

    less_simcse = f"less `simcse` (95 %), {CORRECTION.short}'s p"
    yield from format_table(
        [f"profile `{profile}`, setting `{setting}`", "seeds", title, less_simcse], lines
    )
    yield ""
    verdicts = list(list_verdicts(methods, column))
    for verdict in verdicts:
        sentence = verdict.removeprefix("- ")
        yield f"- `{setting}`: {sentence[0].lower()}{sentence[1:]}"
    if verdicts:
        yield ""


def show_seen(results: Sequence[Result]) -> Iterator[str]:
    """Scores and gains over SimCSE on pairs that training has seen and on the others."""
    lines: list[Sequence[str]] = []
    notes = []
    for table in make_seen_tables(results, metrics_of(results)):
        if not table.mean:
            continue
        lines += _list_seen_rows(table)
        notes += [note for note in table.notes() if note.startswith(("Not compared", "Fewer"))]

    head = [
        "variant",
        "setting",
        "tasks",
        "seen pairs",
        "seen",
        "unseen",
        "gain on seen",
        "gain on unseen",
    ]
    yield from format_table(head, lines)
    if notes:
        yield ""
        for note in dict.fromkeys(notes):
            yield f"- {note}"


def _list_seen_rows(table: SeenTable) -> Iterator[Sequence[str]]:
    digits = table.metric.digits
    for row in table.rows:
        if row.label.overrides:
            continue

        scores = []
        gains = []
        for part in (SEEN, UNSEEN):
            cell = table.scores(row, part, table.mean)
            gain = table.gains.get((row.label, part, table.mean))
            scores.append(fixed(cell.summary.mean, digits) if cell else "")
            gains.append(format_interval(gain.test, digits) if gain and gain.test else "")

        pairs = table.pairs(row, SEEN, table.mean)
        yield [
            f"`{row.label}`",
            table.setting,
            ", ".join(table.averaged),
            fixed(pairs.summary.mean, 0) if pairs else "",
            *scores,
            *gains,
        ]


def show_teacher() -> Iterator[str]:
    """What DALR gains by its text teacher and what by pictures, profile small."""
    table = find_table("small", "sts")
    column = find_column(table, AVERAGE)
    digits = table.metric(column).digits
    block = find_block(table, "wiki+flickr8k")
    row_by_variant = {row.label.variant: row for row in block.trained if not row.label.overrides}

    def format_mean(row: Row) -> str:
        return str(format_summary(row.cells[column].summary, digits))

    teacher = next(row for row in block.untrained if row.label.variant == TEACHER)
    simcse = row_by_variant["simcse"]
    lines = [
        [f"the text teacher alone: `{TEACHER}`", format_mean(teacher), ""],
        ["`simcse`", format_mean(simcse), ""],
    ]
    verdict = ""
    previous = simcse
    steps = (("and the text teacher", WITHOUT_PICTURES), ("and the pictures: `dalr`", "dalr"))
    for title, variant in steps:
        row = row_by_variant[variant]
        conclusion = table.conclude(row, previous, column)
        gain = ""
        if conclusion.test:
            verdict = conclusion.words
            gain = f"{format_interval(conclusion.test, digits)}, {verdict}"
        lines.append([title, format_mean(row), gain])
        previous = row

    seeds = previous.cells[column].summary.n
    head = ["", f"Avg of 7 STS, {seeds} seeds", "more than the row above (95 %)"]
    yield from format_table(head, lines)
    yield ""
    yield f"- On this data, DALR with its pictures and without them: {verdict}."


def show_grounding_seen() -> Iterator[str]:
    """The pairs that training has seen, in the runs of the main question of grounding."""
    return show_seen(select_main_pair_runs())


BLOCKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "tiny": show_tiny,
    "small": show_small,
    "teacher": show_teacher,
    "field": show_field,
    **grounding_numbers.BLOCKS,
    "grounding-seen": partial(grounding_numbers.show_or_name_command, show_grounding_seen),
}


def make_page(text: str) -> str:
    """A page with its blocks made anew."""

    def make_block(match: re.Match[str]) -> str:
        name, end_of_mark, _ = match.groups()
        lines = "".join(f"{line}\n" for line in BLOCKS[name]())
        return f"{name}{end_of_mark}{lines}"

    return MARKED.sub(make_block, text)


@click.command(help=__doc__)
@click.option(
    "--write", is_flag=True, help="Write the pages anew; without it, exit with 1 where one differs."
)
def main(write: bool) -> None:
    """Compare, or write."""
    for page in (PAGE, GROUNDING):
        text = page.read_text("utf-8")
        made_anew = make_page(text)
        if write:
            page.write_text(made_anew, "utf-8")
        elif made_anew != text:
            command = "`python tools/reference_numbers.py --write` writes it anew"
            sys.exit(f"{page.name} differs from results/reference; {command}")

    if write:
        for name, svg in draw_figures():
            (GROUNDING.parent / name).write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
