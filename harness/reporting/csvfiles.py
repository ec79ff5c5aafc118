"""tables.csv and report.csv, unrounded.

report.csv has one row per run, so one per seed, with its hyperparameters and scores as columns; tables.csv has one row
for each cell of each measured line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TextIO

from harness.formatting import for_csv
from harness.method.naming import name_of
from harness.reporting.seeds.cells import Cell, Label
from harness.reporting.seeds.spent import BUDGET
from harness.reporting.seeds.summary import SummaryTable
from harness.store import Frames, Result, declared_metrics, frames_of

#: `difference`, `low`, `high`, `p` and `p_holm` (after Holm over the `tests` of its family) compare with `against`.
#: `design` is that of the t-test, `apart` the larger end of the 90 % interval: the two are at most so far apart, and
#: equal where that is below the margin of "equal" (`p_equal`, before correction). `minus_published` and later columns
#: compare with the paper; `p_equivalence` is from the tests for a difference within the `margin`. In a ranking, `mean`
#: is a mean rank with its interval, and `flip` the chance that the variant `against` is ahead with other seeds.
#: `weakened_by` says what weakens the score itself: a collapsed model, weights selected on a test, stale or incomplete
#: runs.
COLUMNS = (
    *("table", "profile", "suite", "task", "part", "metric"),
    *("setting", "encoder", "variant", "overrides", "group", "seeds"),
    *("n", "mean", "std", "against", "difference", "low", "high", "p", "verdict", "p_holm", "tests"),
    *("design", "apart", "p_equal", "weakened_by"),
    *("published", "published_std", "published_seeds", "published_star", "published_source"),
    *("minus_published", "p_published", "margin", "p_equivalence", "verdict_published", "seeds_to_decide", "command"),
    *("flip", *BUDGET, "minutes"),
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
            shared |= {**row.spent.budget, "minutes": median(row.spent.minutes)}
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
        fields["design"] = cell.test.design
    if cell.equivalence:
        fields |= {"apart": cell.equivalence.bound, "p_equal": cell.equivalence.p}
    if cell.corrected:
        fields |= {"p_holm": cell.corrected.p, "tests": cell.corrected.tests}
    return fields


#: columns of every run; those of hyperparameters (GROUP.NAME), teachers (teacher.ROLE) and scores (SUITE.TASK.METRIC)
#: follow, empty where a run has none
RUN_COLUMNS = (
    *("profile", "variant", "name", "method", "setting", "encoder", "seed", "overrides"),
    *("fingerprint", "group", "backend", "dev", "last_dev", *BUDGET, "minutes"),
)


def write_runs(results: Sequence[Result], stream: TextIO) -> None:
    """Write report.csv. Scores are those of whole tasks, in the metrics that tables show."""
    frames = frames_of(results)
    runs = frames.runs
    values = [*map(_values, runs["hyperparameters"], runs["teachers"])]
    options = sorted({name for some in values for name in some})
    scores = _shown_scores(frames)
    names = [name_of(*run).text for run in zip(runs["variant"], runs["overrides"], strict=True)]
    told = runs.assign(name=names)[[*RUN_COLUMNS]].astype(object)
    told = told.where(told.notna(), None)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(for_csv, (*RUN_COLUMNS, *options, *scores)))
    for row, (fields, some) in enumerate(zip(told.itertuples(index=False), values, strict=True)):
        numbers = (by_run.get(row) for by_run in scores.values())
        writer.writerow(map(for_csv, (*fields, *map(some.get, options), *numbers)))


def _values(hyperparameters: str, teachers: str) -> CsvFields:
    """The options and the teachers of a run, by column."""
    groups, used = json.loads(hyperparameters), json.loads(teachers)
    options = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    return {**options, **{f"teacher.{role}": use["teacher"] for role, use in used.items()}}


def _shown_scores(frames: Frames) -> dict[str, dict[int, float]]:
    """The newest scores of the metrics that tables show, by column and run; all metrics where none is declared."""
    newest = frames.newest()
    metrics = {text: declared_metrics(text) for text in newest["declared"].unique()}
    shown = {text: {metric.name for metric in declared if metric.shown} for text, declared in metrics.items()}
    scores = frames.scores.join(newest[["run", "suite", "declared"]], on="evaluation", how="inner")
    columns = (scores[name] for name in ("run", "suite", "declared", "task", "metric", "value"))
    found: dict[str, dict[int, float]] = {}
    for run, suite, declared, task, metric, value in zip(*columns, strict=True):
        if not shown[declared] or metric in shown[declared]:
            found.setdefault(f"{suite}.{task}.{metric}", {})[run] = value
    return found
