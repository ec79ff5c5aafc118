"""Titles of the papers' tables and the notes below them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.formatting import count_of
from harness.papers.published import PAPER_PROFILE, Paper
from harness.reporting.seeds.summary import older_text
from harness.reporting.tables.cells import FilledTable


def table_title(paper: Paper, name: str, title: str, profile: str) -> str:
    """Return the title of a paper's table, or of the same rows run on another profile."""
    where = f"{paper.heading} {name}" + ("" if profile == PAPER_PROFILE else f" on profile {profile}")
    return f"{where}: {title}"


def no_run_yet(profile: str) -> str:
    """Say that a table is empty."""
    return f"no run of profile {profile} yet"


def table_notes(filled: FilledTable) -> Iterator[str]:
    """Yield the notes that a reader of a filled table needs."""
    yield from _paper_notes(filled) if filled.is_paper else _stand_in_notes(filled)
    tests = sum(cell.tested for cell in filled.cells)
    if filled.table.test and tests:
        yield (
            "Measured rows: * better, † worse than the row they are compared with (independent two-sample t-test at "
            f"{filled.table.test.alpha}, as in the paper), significant after Holm's correction over the table's "
            f"{count_of(tests, 'test')}; (*) and (†) only without the correction."
        )
    if any(cell.judgement for cell in filled.cells):
        yield (
            "Verdict: agrees if 0 lies within the 95 % interval of measured - printed (pooled t-test from means, "
            "deviations and numbers of seeds; the printed deviation is read as the sample form), else differs. "
            "Agreement does not prove equality."
        )
    if filled.table.note and filled.is_paper:
        yield filled.table.note
    older = sum(row.older for row in filled.rows)
    if older:
        yield f"{older_text(older)}."


def _paper_notes(filled: FilledTable) -> Iterator[str]:
    group = "setting and encoder" if filled.table.groups == "setting" else "encoder"
    yield (
        f"Printed numbers: {filled.paper.title} ({filled.paper.reference}), table {filled.name.removeprefix('T')}; "
        f"measured: results of profile {PAPER_PROFILE} only, mean ± sample standard deviation over seeds. Bold: the "
        f"best mean of its {group}." + (" Stars of printed numbers are the paper's." if filled.table.test else "")
    )


def _stand_in_notes(filled: FilledTable) -> Iterator[str]:
    yield (
        f"Not comparable with the paper: runs of profile {filled.profile}, with the stand-ins of its table "
        "[stands_for]; rows and columns without a stand-in are left out. Mean ± sample standard deviation over seeds."
    )
    tasks = {name: score.task for row in filled.rows for name, score in row.scores.items()}
    yield f"Columns: {', '.join(f'{column.name} is {tasks[column.name]}' for column in filled.columns)}."
