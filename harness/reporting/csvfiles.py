"""tables.csv and report.csv, unrounded.

report.csv has one row per run, so one per seed, with its hyperparameters and scores as columns; tables.csv has one row
for each cell of each measured line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from harness.formatting import for_csv
from harness.method.naming import name_of
from harness.reporting.seeds.groups import Cell, Label
from harness.reporting.seeds.summary import SummaryTable
from harness.store import Result, overrides_text

#: `difference`, `low`, `high`, `p` and `p_holm` (after Holm over the `tests` of its family) compare with `against`.
#: `minus_published` and later columns compare with the paper; `p_equivalence` is from the tests for a difference within
#: the `margin`. In a ranking, `mean` is a mean rank with its interval, and `flip` the chance that the variant `against`
#: is ahead with other seeds. `weakened_by` says what weakens the score itself: a collapsed model, weights selected on a
#: test, stale or incomplete runs.
COLUMNS = (
    *("table", "profile", "suite", "task", "part", "metric"),
    *("setting", "encoder", "variant", "overrides", "group", "seeds"),
    *("n", "mean", "std", "against", "difference", "low", "high", "p", "verdict", "p_holm", "tests", "weakened_by"),
    *("published", "published_std", "published_seeds", "published_star", "published_source"),
    *("minus_published", "p_published", "margin", "p_equivalence", "verdict_published", "seeds_to_decide", "command"),
    "flip",
)
#: column -> value; None or no value is an empty field
CsvFields = dict[str, object]


def tidy(rows: Iterable[CsvFields]) -> str:
    """The text of tables.csv. Fields are empty if a number does not exist."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: for_csv(value) for name, value in fields.items()} for fields in rows)
    return stream.getvalue()


def summary_rows(table: SummaryTable, kind: str = "summary") -> Iterator[CsvFields]:
    """The rows of a summary table."""
    shown: set[Label] = set()
    for block in table.blocks:
        for row in (row for row in block.rows if row.label not in shown):
            shown.add(row.label)
            baseline = block.baseline(row.label)
            shared = {**row.label._asdict(), "group": row.group, "seeds": " ".join(map(str, row.seeds))}
            for column, cell in ((column, row.cells[column]) for column in table.columns if column in row.cells):
                measured = measured_fields(cell, baseline.label.variant if baseline else None)
                measured["weakened_by"] = str(row.weakness([column]))
                yield {"table": kind, "suite": table.suite, **shared, **column._asdict(), **measured}


def measured_fields(cell: Cell, against: str | None) -> CsvFields:
    """The fields of a measured number and its test."""
    summary = cell.summary
    fields: CsvFields = {"n": summary.n, "mean": summary.mean, "std": summary.std, "against": against}
    if cell.test:
        fields |= {name: getattr(cell.test, name) for name in ("difference", "low", "high", "p")}
        fields["verdict"] = cell.verdict
    if cell.corrected:
        fields |= {"p_holm": cell.corrected.p, "tests": cell.corrected.tests}
    return fields


#: columns of every run; those of hyperparameters (GROUP.NAME), teachers (teacher.ROLE) and scores (SUITE.TASK.METRIC)
#: follow, empty where a run has none
RUN_COLUMNS = (
    *("profile", "variant", "name", "method", "setting", "encoder", "seed", "overrides"),
    *("fingerprint", "group", "backend", "dev", "minutes"),
)


def write_runs(results: Sequence[Result], stream: TextIO) -> None:
    """Write report.csv, one result at a time. Scores are those of whole tasks, in the metrics that tables show."""
    values: dict[str, None] = {}
    scores: dict[str, None] = {}
    for result in results:
        values.update(dict.fromkeys(name for name, _ in _option_values(result)))
        scores.update(dict.fromkeys(name for name, _ in _scores(result)))
    writer = csv.DictWriter(stream, (*RUN_COLUMNS, *sorted(values), *scores), restval="", lineterminator="\n")
    writer.writerow({name: for_csv(name) for name in writer.fieldnames})
    for result in results:
        fields = {**_fields(result), **dict(_option_values(result)), **dict(_scores(result))}
        writer.writerow({name: for_csv(value) for name, value in fields.items()})


def _fields(result: Result) -> CsvFields:
    overrides = overrides_text(result.overrides)
    return {
        **result.spec.model_dump(),
        "profile": result.profile,
        "name": name_of(result.spec.variant, overrides).text,
        "overrides": overrides,
        "fingerprint": result.fingerprint,
        "group": result.group,
        "backend": result.backend,
        "dev": result.best_dev,
        "minutes": result.train_seconds / 60,
    }


def _option_values(result: Result) -> Iterator[tuple[str, object]]:
    for group, values in result.hyperparameters.items():
        for name, value in values.items():
            yield f"{group}.{name}", value
    for role, used in result.teachers.items():
        yield f"teacher.{role}", used.teacher


def _scores(result: Result) -> Iterator[tuple[str, object]]:
    for suite in result.suites:
        evaluation = result.latest(suite)
        shown = {metric.name for metric in evaluation.protocol.metrics if metric.shown} if evaluation else set()
        for task, values in evaluation.scores.items() if evaluation else ():
            for name, value in values.items():
                if not shown or name in shown:
                    yield f"{suite}.{task}.{name}", value
