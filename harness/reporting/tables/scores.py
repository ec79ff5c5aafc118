"""The scores of one run as tables: a row a task, a column a metric; parts of a task apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.formatting import fixed
from harness.metrics import AVERAGE
from harness.reporting.formats import ABSENT, digits_of
from harness.reporting.seeds.summary import MAIN_METRICS
from harness.store import Evaluation, Result

#: More metrics than these are folded away behind the main ones.
MOST_COLUMNS = 8


@dataclass(frozen=True)
class ScoreTable:
    """Scores of a suite. `folded` where it holds what only few will look for."""

    title: str
    suite: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    folded: bool = False


Scores = Mapping[tuple[str, ...], Mapping[str, float]]


def score_tables(result: Result) -> Iterator[ScoreTable]:
    """Each suite: its tasks in all metrics, then the parts of its tasks in a table of their own."""
    for evaluation in result.current:
        whole = {(task,): metrics for task, metrics in evaluation.scores.items() if metrics}
        parts = {(task, part): row for task, rows in evaluation.parts.items() for part, row in rows.items()}
        yield from _tables(evaluation, whole, parts)


def _tables(evaluation: Evaluation, whole: Scores, parts: Scores) -> Iterator[ScoreTable]:
    suite, title = evaluation.suite, f"{evaluation.suite}, protocol {evaluation.protocol.version}"
    names = list(dict.fromkeys(name for metrics in whole.values() for name in metrics))
    main = [name for name in MAIN_METRICS.get(suite, ()) if name in names]
    rest = [name for name in names if name not in main]
    if len(names) <= MOST_COLUMNS:
        main, rest = [*main, *rest], []
    yield _table(title, suite, ("task",), main, whole)
    if rest:
        yield _table("other metrics", suite, ("task",), rest, whole, folded=True)
    if parts:
        names = list(dict.fromkeys(name for metrics in parts.values() for name in metrics))
        yield _table("parts of the tasks", suite, ("task", "part"), names, parts, folded=True)


def _table(
    title: str, suite: str, heads: tuple[str, ...], columns: Sequence[str], scores: Scores, *, folded: bool = False
) -> ScoreTable:
    digits = {name: _digits(name, [row[name] for row in scores.values() if name in row]) for name in columns}
    rows = tuple(
        (at, tuple(fixed(row[name], digits[name]) if name in row else ABSENT for name in columns))
        for at, row in scores.items()
    )
    return ScoreTable(title, suite, heads, tuple(columns), rows, folded)


def _digits(name: str, values: Sequence[float]) -> int:
    """Counts have none, small numbers four, percentages and correlations x 100 two."""
    if name.startswith("n") and all(value.is_integer() for value in values):
        return 0
    return 2 if max(map(abs, values), default=0.0) >= 10 else 4


def average_columns(results: Sequence[Result]) -> list[tuple[str, str, str]]:
    """(title, suite, metric) of each suite's first main metric that any of the results has."""
    found: dict[str, str] = {}
    for one in results:
        for evaluation in one.current:
            suite, average = evaluation.suite, evaluation.scores.get(AVERAGE)
            if average and suite not in found:
                found[suite] = next(
                    (name for name in MAIN_METRICS.get(suite, ()) if name in average), next(iter(average))
                )
    return [(f"{suite} {metric}", suite, metric) for suite, metric in found.items()]


def average_of(result: Result, suite: str, metric: str) -> str:
    """The average of a suite in a metric, or a dash."""
    evaluation = result.latest(suite)
    value = evaluation.scores.get(AVERAGE, {}).get(metric) if evaluation else None
    return ABSENT if value is None else fixed(value, digits_of(metric))
