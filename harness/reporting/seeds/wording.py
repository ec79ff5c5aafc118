"""Words of a report: suites, metrics and verdicts as a reader calls them, and the sentences of its
findings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from harness.evaluation.declared import describe_suite
from harness.formatting import at_most, p_value
from harness.metrics import Column, Significance
from harness.papers.published import PAPER_PROFILE, Paper
from harness.reporting.seeds.cells import Cell
from harness.stats import ALPHA, Equivalence, TTest

#: stands for a number that does not exist
ABSENT = "–"


def name_suite(suite: str) -> str:
    """A suite's title for readers; that of a suite that is not installed is its name."""
    return describe_suite(suite).title


def describe_metric(suite: str, metrics: Collection[str]) -> str:
    """The only metric of a table in words; empty where it has several, which its columns name."""
    if len(metrics) != 1:
        return ""
    [metric] = metrics
    return describe_suite(suite).metric_words(metric).alone or metric


def describe_test(cell: Cell, digits: int) -> str:
    """What the test of a cell says, alone and in its family; empty without a test."""
    if cell.test is None or cell.verdict is None:
        return ""

    is_equal = cell.verdict is Significance.EQUAL
    within = describe_bound(cell.equivalence, digits, equal=is_equal)
    if is_equal:
        parts = [within, format_p(cell.test)]
    elif cell.verdict is Significance.NONE:
        parts = [str(cell.verdict), format_p(cell.test), within]
    elif cell.holds:
        parts = [str(cell.verdict), describe_certainty(cell)]
        # a difference may be certain, and too small to matter
        if cell.equivalence and cell.equivalence.p < ALPHA:
            parts.append(f"but {within}")
    else:
        parts = [f"{cell.verdict} ({format_p(cell.test)})", f"not {_describe_correction(cell)}"]

    if cell.corrected is None:
        parts.append("tested alone")
    parts.append(cell.unequal_seeds)
    return ", ".join(part for part in parts if part)


def describe_bound(test: Equivalence | None, digits: int, *, equal: bool) -> str:
    """How far two means are apart at most: `equal within 0.03 (90 %)` or `at most 0.41 apart (90
    %)`.
    """
    if test is None:
        return ""
    size = at_most(test.bound, digits)
    level = f"({100 * test.level:g} %)"
    return f"equal within {size} {level}" if equal else f"at most {size} apart {level}"


def format_p(test: TTest, p: float | None = None) -> str:
    """The p-value of a test, or another one after its correction, and whether the test is paired."""
    text = p_value(test.p if p is None else p)
    return f"paired {text}" if test.design == "paired" else text


def describe_certainty(cell: Cell) -> str:
    """The p-value that decides, with its family where that has several tests: `p = 0.0322 after
    Holm's correction over 16 tests (variants against SimCSE)`.
    """
    if cell.test is None or cell.p is None:
        return ""
    text = format_p(cell.test, cell.p)
    if cell.corrected is None or cell.corrected.family.tests < 2:
        return text
    return f"{text} after {cell.corrected.family}"


def _describe_correction(cell: Cell) -> str:
    """`after Holm's correction over 16 tests (variants against SimCSE): p = 0.0886`."""
    assert cell.corrected
    return f"after {cell.corrected.family}: {p_value(cell.corrected.p)}"


def name_printed(paper: Paper, entry: str, title: str, profile: str) -> tuple[str, str]:
    """The key and the title of a paper's table or figure (`T1`, `F2`), or of the same one on the
    data of a profile.
    """
    key = f"{paper.name}-{entry}"
    kind = "Figure" if entry in paper.figures else "Table"
    name = f"{paper.heading} {kind} {entry.removeprefix(kind[0])}"
    if profile == PAPER_PROFILE:
        return key, f"{name}: {title}"
    data = "toy data" if profile == "tiny" else f"profile {profile}"
    return f"{key}-{profile}", f"{name} on {data}"


def split_metric_heading(suite: str, metric: str) -> tuple[str, str]:
    """The group of a metric, such as a direction of retrieval, empty for none, and its heading."""
    words = describe_suite(suite).metric_words(metric)
    return words.group, words.heading or metric


def split_column_heading(suite: str, column: Column, *, several: bool) -> tuple[str, str]:
    """The group above a column, which is empty unless the table has `several` metrics, and the
    column's heading.

    The metrics of one task, and of one group of its metrics, are a group.
    """
    if not several:
        return "", column.task
    group, heading = split_metric_heading(suite, column.metric)
    return f"{column.task}, {group}" if group else column.task, heading


class Sentence(NamedTuple):
    """A sentence about a `place`: setting, encoder and profile."""

    place: str
    text: str
