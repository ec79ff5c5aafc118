"""The scores of one run as tables: one row for each task, one column for each metric; parts of tasks separately."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.formatting import fixed
from harness.metrics import AVERAGE, Metric
from harness.reporting.tables.grids import ABSENT
from harness.store import Evaluation, Result

#: Evaluations with more metrics than this show the others than the main ones folded.
MOST_COLUMNS = 8


@dataclass(frozen=True)
class ScoreTable:
    """Scores of a suite as text: the heads and cells of each row. `folded` tables are details."""

    title: str
    suite: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    folded: bool = False


class SuiteMetric(NamedTuple):
    """The metric whose average stands for a suite in the index of runs."""

    suite: str
    metric: Metric


#: heads of a row -> metric -> score
Rows = Mapping[tuple[str, ...], Mapping[str, float]]


def score_tables(result: Result) -> Iterator[ScoreTable]:
    """For the newest evaluation of each suite: its tasks, further metrics, and the parts of its tasks."""
    for evaluation in result.current:
        suite, title = evaluation.suite, f"{evaluation.suite}, protocol {evaluation.protocol.version}"
        tasks: Rows = {(task,): scores for task, scores in evaluation.scores.items()}
        main, others = _columns(evaluation, tasks)
        if main:
            yield _table(title, suite, ("task",), main, tasks)
        if others:
            yield _table("other metrics", suite, ("task",), others, tasks, folded=True)
        parts: Rows = {
            (task, part): scores for task, found in evaluation.parts.items() for part, scores in found.items()
        }
        if parts:
            main, others = _columns(evaluation, parts)
            yield _table("parts of the tasks", suite, ("task", "part"), [*main, *others], parts, folded=True)


def average_columns(results: Sequence[Result]) -> list[SuiteMetric]:
    """The first metric with an average of each suite that any result has."""
    found: dict[str, SuiteMetric] = {}
    for result in results:
        for evaluation in result.current:
            main, _ = _columns(evaluation, {(AVERAGE,): evaluation.scores.get(AVERAGE, {})})
            if main:
                found.setdefault(evaluation.suite, SuiteMetric(evaluation.suite, main[0]))
    return list(found.values())


def average_text(result: Result, column: SuiteMetric) -> str:
    """The average of a suite, or a dash."""
    evaluation = result.latest(column.suite)
    value = evaluation.scores.get(AVERAGE, {}).get(column.metric.name) if evaluation else None
    return ABSENT if value is None else fixed(value, column.metric.digits)


def _columns(evaluation: Evaluation, rows: Rows) -> tuple[list[Metric], list[Metric]]:
    """Metrics to show at once, those that tables show first, and metrics to fold away."""
    names = dict.fromkeys(name for scores in rows.values() for name in scores)
    declared = [metric for metric in evaluation.protocol.metrics if metric.name in names]
    known = {metric.name for metric in declared}
    declared += [_undeclared(name, rows) for name in names if name not in known]
    main = [metric for metric in declared if metric.shown]
    rest = [metric for metric in declared if not metric.shown]
    return ([*main, *rest], []) if len(declared) <= MOST_COLUMNS or not main else (main, rest)


def _undeclared(name: str, rows: Rows) -> Metric:
    """A metric that the protocol does not declare: no digits for counts, four for small numbers, else two."""
    values = [scores[name] for scores in rows.values() if name in scores]
    digits = 0 if all(map(float.is_integer, map(float, values))) else 2 if max(map(abs, values)) >= 10 else 4
    return Metric(name, digits=digits, shown=False)


def _table(
    title: str, suite: str, heads: tuple[str, ...], columns: Sequence[Metric], rows: Rows, *, folded: bool = False
) -> ScoreTable:
    def cells(scores: Mapping[str, float]) -> tuple[str, ...]:
        return tuple(fixed(scores[one.name], one.digits) if one.name in scores else ABSENT for one in columns)

    texts = tuple((at, cells(scores)) for at, scores in rows.items())
    return ScoreTable(title, suite, heads, tuple(metric.name for metric in columns), texts, folded)
