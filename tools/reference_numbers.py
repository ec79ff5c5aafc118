"""Numbers in docs/reference-results.md and docs/grounding.md from the runs in results/reference.

A block stands between `<!-- numbers: NAME -->` and `<!-- end -->`; NAME is a key of BLOCKS. The
block `python` is the output of the Python example above it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import grounding_numbers
from reference_runs import difference, interval, of, score, table

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
#: its text teacher
TEACHER = "none[pooling=mean]"


def of_field(row: Row) -> bool:
    """Whether a row is a method of examples/field, which has a section of its own."""
    return re.split(r"[\[@]", row.label.variant)[0] in FIELD


def verdicts(rows: Iterable[Row], column: Column) -> Iterator[str]:
    """Sentences on which variants are better or worse than SimCSE, alone and in their families."""
    cells = {row.label: row.cells[column] for row in rows if row.cells[column].test}
    sides = (
        ("Better than", Significance.BETTER, Significance.BETTER_ALONE),
        ("Worse than", Significance.WORSE, Significance.WORSE_ALONE),
    )
    for said, verdict, before_correction in sides:
        names = [f"`{label}`" for label, cell in cells.items() if cell.verdict is verdict]
        if names:
            yield f"- {said} SimCSE: {', '.join(names)}."
        alone = [
            f"`{label}` ({describe_test(cell, 2)})"
            for label, cell in cells.items()
            if cell.verdict is before_correction
        ]
        if alone:
            yield f"- {said} SimCSE only before {CORRECTION.name}: {', '.join(alone)}."


def controls(one: SummaryTable, column: Column) -> Iterator[tuple[str, str]]:
    """The best method of each setting with its strongest control."""
    for forest in make_forests(one, column):
        best = select_methods(forest)[0]
        some = find_rivals(best.row, forest.rows, column, forest.metric)
        said = describe_controls(some, best.row, forest.metric)
        yield forest.block.setting, f"best mean of the methods: `{best.row.label}`.{said}"


def tiny() -> Iterator[str]:
    """Every method in both readings on the toy world."""
    one = of("tiny", "sts")
    (block,) = (block for block in one.blocks if block.setting == "toy")
    column = next(column for column in one.columns if column.task == AVERAGE)
    plain = [row for row in block.rows if "@" not in row.label.variant and _is_shown(row)]
    known = {row.label.variant: row for row in block.rows}
    seeds = count_of(max(len(row.seeds) for row in block.rows), "seed")
    rows = (
        [
            f"`{row.label.variant}`",
            score(one, row, column),
            difference(one, row, column) if row.is_trained and not block.is_baseline(row) else "",
            score(one, known.get(f"{row.label.variant}@official"), column),
        ]
        for row in plain
    )
    yield from table(
        [
            f"ToySTS, Spearman x 100, {seeds}",
            "`@paper`",
            f"difference to `simcse` (95 % interval), p after {CORRECTION.name}",
            "`@official`",
        ],
        rows,
    )
    yield ""
    yield from (
        f"- {said[0].upper()}{said[1:]}"
        for setting, said in controls(one, column)
        if setting == "toy"
    )


def _is_shown(row: Row) -> bool:
    """Whether a row is a method or a control as its profile trains it, not one of a table's
    ablations.
    """
    return not (row.label.overrides or of_field(row)) and (
        "[" not in row.label.variant or "images=" in row.label.variant or not row.is_trained
    )


def small() -> Iterator[str]:
    """Every variant of the profile small, by setting."""
    one = of("small", "sts")
    retrieval = of("small", "retrieval")
    shown = [next(c for c in one.columns if c.task == task) for task in ("STS-B", AVERAGE)]
    found = {row.label: row for row in retrieval.rows}
    recall = next(column for column in retrieval.columns if column.metric == "t2i_R@10")
    rows = []
    seen = set()
    for block in one.blocks:
        for row in block.rows:
            if row.label in seen or row.label.overrides or of_field(row):
                continue
            seen.add(row.label)
            compared = row.is_trained and not block.is_baseline(row)
            rows.append([
                f"`{row.label.variant}`", row.label.setting if row.is_trained else "–", str(len(row.seeds)),
                *(score(one, row, column) for column in shown),
                difference(one, row, shown[1]) if compared else "",
                score(retrieval, found.get(row.label), recall),
            ])  # fmt: skip
    head = [
        "variant",
        "setting",
        "seeds",
        "STS-B",
        "Avg of 7 STS",
        f"difference to `simcse` (95 % interval), p after {CORRECTION.name}",
        "text to image R@10",
    ]
    yield from table(head, rows)
    yield ""
    yield from (f"- `{setting}`: {said}" for setting, said in controls(one, shown[1]))


def _in_setting(setting: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"- `{setting}`: {line[2].lower()}{line[3:]}"


def field() -> Iterator[str]:
    """Methods of the field beside SimCSE, profiles tiny and small; in the families of the other
    tables.
    """
    for profile, setting, said in (
        ("tiny", "toy", "ToySTS"),
        ("small", "wiki+flickr8k", "Avg of 7 STS"),
    ):
        one = of(profile, "sts")
        (block,) = (block for block in one.blocks if block.setting == setting)
        column = next(column for column in one.columns if column.task == AVERAGE)
        trained = [row for row in block.trained if not row.label.overrides]
        mine = [row for row in trained if of_field(row)]
        shown = [*(row for row in trained if block.is_baseline(row)), *mine]
        values = [[str(len(row.seeds)), score(one, row, column)] for row in shown]
        less = ["" if block.is_baseline(row) else difference(one, row, column) for row in shown]
        head = [
            f"profile `{profile}`, setting `{setting}`",
            "seeds",
            said,
            f"less `simcse` (95 %), {CORRECTION.short}'s p",
        ]
        yield from table(
            head,
            ([f"`{r.label.variant}`", *v, d] for r, v, d in zip(shown, values, less, strict=True)),
        )
        yield from (
            ["", *lines, ""] if (lines := [*_in_setting(setting, verdicts(mine, column))]) else [""]
        )


def seen(results: Sequence[Result]) -> Iterator[str]:
    """Scores and gains over SimCSE on pairs that training has seen and on the others."""
    tables = [one for one in make_seen_tables(results, metrics_of(results)) if one.mean]
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
    yield from table(head, (row for one in tables for row in _seen_rows(one)))
    notes = [
        f"- {note}"
        for one in tables
        for note in one.notes()
        if note.startswith(("Not compared", "Fewer"))
    ]
    yield from ["", *dict.fromkeys(notes)] if notes else []


def _seen_rows(one: SeenTable) -> Iterator[Sequence[str]]:
    for row in (row for row in one.rows if not row.label.overrides):
        digits = one.metric.digits
        pairs = one.pairs(row, SEEN, one.mean)
        scores = []
        gains = []
        for part in (SEEN, UNSEEN):
            cell = one.scores(row, part, one.mean)
            gain = one.gains.get((row.label, part, one.mean))
            scores.append(fixed(cell.summary.mean, digits) if cell else "")
            gains.append(interval(gain.test, digits) if gain and gain.test else "")
        yield [
            f"`{row.label}`",
            one.setting,
            ", ".join(one.averaged),
            fixed(pairs.summary.mean, 0) if pairs else "",
            *scores,
            *gains,
        ]


def teacher() -> Iterator[str]:
    """What DALR gains by its text teacher and what by pictures, profile small."""
    one = of("small", "sts")
    column = next(column for column in one.columns if column.task == AVERAGE)
    (block,) = (block for block in one.blocks if block.setting == "wiki+flickr8k")
    known = {row.label.variant: row for row in block.trained if not row.label.overrides}
    steps = (
        ("`simcse`", "simcse"),
        ("and the text teacher", WITHOUT_PICTURES),
        ("and the pictures: `dalr`", "dalr"),
    )
    alone = next(row for row in block.untrained if row.label.variant == TEACHER)
    digits = one.metric(column).digits
    rows = [
        [
            f"the text teacher alone: `{TEACHER}`",
            str(format_summary(alone.cells[column].summary, digits)),
            "",
        ]
    ]
    found = ""
    for (said, variant), before in zip(steps, [None, *steps], strict=False):
        cell = known[variant].cells[column]
        shown = ""
        if before:
            outcome = one.conclude(known[variant], known[before[1]], column)
            if outcome.test:
                found = outcome.words
                shown = f"{interval(outcome.test, digits)}, {found}"
        rows.append([said, str(format_summary(cell.summary, digits)), shown])
    seeds = known["dalr"].cells[column].summary.n
    yield from table(["", f"Avg of 7 STS, {seeds} seeds", "more than the row above (95 %)"], rows)
    yield from ["", f"- On this data, DALR with its pictures and without them: {found}."]


BLOCKS: Mapping[str, Callable[[], Iterator[str]]] = {
    "tiny": tiny,
    "small": small,
    "teacher": teacher,
    "field": field,
    **grounding_numbers.BLOCKS,
    "grounding-seen": lambda: grounding_numbers.or_command(
        lambda: seen(grounding_numbers.main_pair_runs())
    ),
}


def written(text: str) -> str:
    """A page with its blocks made anew."""
    return MARKED.sub(
        lambda block: block[1] + block[2] + "".join(f"{line}\n" for line in BLOCKS[block[1]]()),
        text,
    )


@click.command(help=__doc__)
@click.option(
    "--write", is_flag=True, help="Write the pages anew; without it, exit with 1 where one differs."
)
def main(write: bool) -> None:
    """Compare, or write."""
    for page in (PAGE, GROUNDING):
        old = page.read_text("utf-8")
        new = written(old)
        if write:
            page.write_text(new, "utf-8")
            for name, svg in grounding_numbers.figures() if page == GROUNDING else ():
                (page.parent / name).write_text(svg, "utf-8")
        elif new != old:
            how = "`python tools/reference_numbers.py --write` writes it anew"
            sys.exit(f"{page.name} differs from results/reference; {how}")


if __name__ == "__main__":
    main()
