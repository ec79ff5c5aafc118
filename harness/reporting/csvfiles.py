"""tables.csv and report.csv, unrounded.

report.csv has one row per run, so one per seed, with its hyperparameters and scores as columns;
tables.csv has one row for each cell of each measured line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, TextIO

from harness.formatting import for_csv
from harness.method.naming import name_of
from harness.reporting.seeds.cells import Cell, Label
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.spent import BUDGET, SCORED
from harness.reporting.seeds.summary import SummaryTable, select_shown_scores
from harness.store import Frames, Result, frames_of, lines_of, metrics_of, scored_name

if TYPE_CHECKING:
    import pandas

#: `difference`, `low`, `high`, `p` and `p_corrected` compare with `against`. `correction` names the
#: correction and the family of its `tests`, `verdict` is that after it, `confounded_by` the control
#: that explains the score of the better side, and `conclusion` all of this in words. `design` is
#: that of the t-test, `apart` the larger end of the 90 % interval: the two are at most so far apart,
#: and equal where that is below the margin of "equal" (`p_equal`, before correction).
#: `minus_published` and later columns compare with the paper; `p_equivalence` is from the tests for
#: a difference within the `margin`. In a ranking, `mean` is a mean rank with its interval, and
#: `flip` the chance that the variant `against` is ahead with other seeds. `weakened_by` says what
#: weakens the score itself: a collapsed model, weights selected on a test, stale or incomplete
#: runs.
COLUMNS = (
    *("table", "profile", "suite", "task", "part", "metric"),
    *("setting", "encoder", "variant", "overrides", "group", "seeds"),
    *(
        "n",
        "mean",
        "std",
        "against",
        "difference",
        "low",
        "high",
        "p",
        "p_corrected",
        "correction",
        "tests",
        "verdict",
        "confounded_by",
        "conclusion",
    ),
    *("design", "apart", "p_equal", "weakened_by"),
    *("published", "published_std", "published_seeds", "published_star", "published_source"),
    *(
        "minus_published",
        "p_published",
        "margin",
        "p_equivalence",
        "verdict_published",
        "seeds_to_decide",
        "command",
    ),
    *("flip", *SCORED, *BUDGET, "minutes"),
)
#: column -> value; None or no value is an empty field
CsvFields = dict[str, object]


def write_tidy(rows: Iterable[CsvFields], stream: TextIO) -> None:
    """Write tables.csv. Fields are empty if a number does not exist."""
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: for_csv(value) for name, value in fields.items()} for fields in rows)


def list_summary_fields(table: SummaryTable, kind: str = "summary") -> Iterator[CsvFields]:
    """The rows of a summary table."""
    shown: set[Label] = set()
    for block in table.blocks:
        for row in (row for row in block.rows if row.label not in shown):
            shown.add(row.label)
            baseline = block.baseline(row.label)
            shared = {
                **row.label._asdict(),
                "group": row.group,
                "seeds": " ".join(map(str, row.seeds)),
            }
            shared |= {scored_name(name): value for name, value in row.spent.scored.items()}
            shared |= {**row.spent.budget, "minutes": median(row.spent.minutes)}
            for column, cell in (
                (column, row.cells[column]) for column in table.columns if column in row.cells
            ):
                measured = make_measured_fields(cell, baseline.label.variant if baseline else None)
                conclusion = block.against_baseline(row, column, table.metric(column))
                if conclusion:
                    measured |= _make_conclusion_fields(conclusion)
                measured["weakened_by"] = str(row.weakness([column]))
                yield {
                    "table": kind,
                    "suite": table.suite,
                    **shared,
                    **column._asdict(),
                    **measured,
                }


def _make_conclusion_fields(conclusion: Conclusion) -> CsvFields:
    """The fields of a conclusion that its cell alone does not have."""
    return {"confounded_by": conclusion.confounded, "conclusion": conclusion.words}


def make_measured_fields(cell: Cell, against: str | None) -> CsvFields:
    """The fields of a measured number and its test."""
    summary = cell.summary
    fields: CsvFields = {
        "n": summary.n,
        "mean": summary.mean,
        "std": summary.std,
        "against": against,
    }
    if cell.test:
        fields |= {name: getattr(cell.test, name) for name in ("difference", "low", "high", "p")}
        fields["verdict"] = cell.verdict
        fields["design"] = cell.test.design
    if cell.equivalence:
        fields |= {"apart": cell.equivalence.bound, "p_equal": cell.equivalence.p}
    if cell.corrected:
        fields |= {"p_corrected": cell.corrected.p, "correction": str(cell.corrected.family)}
        fields["tests"] = cell.corrected.family.tests
    return fields


#: columns of every run; those of hyperparameters (GROUP.NAME), teachers (teacher.ROLE) and scores
#: (SUITE.TASK.METRIC) follow, empty where a run has none
RUN_COLUMNS = (
    *("profile", "variant", "name", "method", "setting", "encoder", "seed", "overrides"),
    *("fingerprint", "group", "backend", "dev", "last_dev", *SCORED, *BUDGET, "minutes"),
)


#: runs that are made into rows at a time, to save memory
BLOCK = 1000


def write_runs(results: Sequence[Result], stream: TextIO) -> None:
    """Write report.csv. Scores are those of whole tasks, in the metrics that tables show."""
    frames = frames_of(results)
    runs = frames.runs
    given = [*zip(frames.texts("hyperparameters"), frames.texts("teachers"), strict=True)]
    options = sorted({name for texts in set(given) for name in _read_run_values(*texts)})
    names = [name_of(*run).text for run in zip(runs["variant"], runs["overrides"], strict=True)]
    told = runs.assign(name=names)[[*RUN_COLUMNS]]
    scores = _select_run_scores(frames)
    columns = scores["column"].drop_duplicates().tolist()
    scores = scores.sort_values("run", kind="stable")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(for_csv, (*RUN_COLUMNS, *options, *columns)))
    for first in range(0, len(runs), BLOCK):
        low, high = scores["run"].searchsorted([first, first + BLOCK])
        numbers: dict[int, CsvFields] = {}
        for _, run, column, value in lines_of(scores[low:high]):
            numbers.setdefault(run, {})[column] = value
        block = told[first : first + BLOCK].astype(object)
        for row, *fields in lines_of(block.where(block.notna(), None)):
            some = _read_run_values(*given[row])
            mine = numbers.get(row, {})
            writer.writerow(
                map(for_csv, (*fields, *map(some.get, options), *map(mine.get, columns)))
            )


@lru_cache(maxsize=4096)
def _read_run_values(hyperparameters: str, teachers: str) -> CsvFields:
    """The options and the teachers of a run, by column."""
    groups = json.loads(hyperparameters)
    used = json.loads(teachers)
    options = {
        f"{group}.{name}": value
        for group, values in groups.items()
        for name, value in values.items()
    }
    return {**options, **{f"teacher.{role}": use["teacher"] for role, use in used.items()}}


def _select_run_scores(frames: Frames) -> pandas.DataFrame:
    """The newest scores of the metrics that tables show: run, column, value."""
    import pandas

    scores = select_shown_scores(frames, metrics_of(frames))
    scores = scores.join(frames.newest()[["run", "suite"]], on="evaluation", how="inner")
    kinds = scores[["suite", "task", "metric"]].drop_duplicates()
    names = pandas.Categorical([".".join(kind) for kind in kinds.itertuples(index=False)])
    return scores.merge(kinds.assign(column=names))[["run", "column", "value"]]
