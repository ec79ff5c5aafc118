"""tables.csv and report.csv, unrounded.

report.csv has one row per run, so one per seed, with its hyperparameters and scores as columns;
tables.csv has one row for each cell of each measured line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, TextIO

from harness.formatting import for_csv
from harness.method.naming import name_of
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.spent import BUDGET, SCORED
from harness.reporting.seeds.summary import Block, SummaryTable, select_shown_scores
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
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    empty_fields = dict.fromkeys(COLUMNS, "")
    for fields in rows:
        if not fields.keys() <= empty_fields.keys():
            raise ValueError(f"tables.csv has no columns {fields.keys() - empty_fields.keys()}")
        cleaned = {name: for_csv(value) for name, value in fields.items()}
        writer.writerow((empty_fields | cleaned).values())


def list_summary_fields(table: SummaryTable, kind: str = "summary") -> Iterator[CsvFields]:
    """The rows of a summary table."""
    listed: set[Label] = set()
    for block in table.blocks:
        for row in block.rows:
            # a row may stand in several blocks
            if row.label not in listed:
                listed.add(row.label)
                yield from _list_row_fields(table, block, row, kind)


def _list_row_fields(table: SummaryTable, block: Block, row: Row, kind: str) -> Iterator[CsvFields]:
    """The fields of each score of a row."""
    baseline = block.baseline(row.label)
    against = baseline.label.variant if baseline else None
    fields: CsvFields = {
        "table": kind,
        "suite": table.suite,
        **row.label._asdict(),
        "group": row.group,
        "seeds": " ".join(map(str, row.seeds)),
        **{scored_name(name): value for name, value in row.spent.scored.items()},
        **row.spent.budget,
        "minutes": median(row.spent.minutes),
    }

    for column in table.columns:
        if column not in row.cells:
            continue

        measured = make_measured_fields(row.cells[column], against)
        conclusion = block.against_baseline(row, column, table.metric(column))
        if conclusion:
            # what the cell alone does not have
            measured["confounded_by"] = conclusion.confounded
            measured["conclusion"] = conclusion.words
        weakness = str(row.weakness([column]))
        yield {**fields, **column._asdict(), **measured, "weakened_by": weakness}


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
        fields["apart"] = cell.equivalence.bound
        fields["p_equal"] = cell.equivalence.p
    if cell.corrected:
        family = cell.corrected.family
        fields["p_corrected"] = cell.corrected.p
        fields["correction"] = str(family)
        fields["tests"] = family.tests
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
    names = [name_of(*run).text for run in zip(runs["variant"], runs["overrides"], strict=True)]
    runs = runs.assign(name=names)[[*RUN_COLUMNS]]

    texts = list(zip(frames.texts("hyperparameters"), frames.texts("teachers"), strict=True))
    values = chain.from_iterable(_read_run_values(*run_texts) for run_texts in set(texts))
    options = sorted(set(values))
    scores = _select_run_scores(frames)
    columns = scores["column"].drop_duplicates().tolist()
    scores = scores.sort_values("run", kind="stable")

    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(for_csv, (*RUN_COLUMNS, *options, *columns)))
    for first in range(0, len(runs), BLOCK):
        low, high = scores["run"].searchsorted([first, first + BLOCK])
        scores_by_run: dict[int, CsvFields] = {}
        for _, run, column, value in lines_of(scores[low:high]):
            scores_by_run.setdefault(run, {})[column] = value

        block = runs[first : first + BLOCK].astype(object)
        for run, *fields in lines_of(block.where(block.notna(), None)):
            own_values = _read_run_values(*texts[run])
            own_scores = scores_by_run.get(run, {})
            fields += map(own_values.get, options)
            fields += map(own_scores.get, columns)
            writer.writerow(map(for_csv, fields))


@lru_cache(maxsize=4096)
def _read_run_values(hyperparameters: str, teachers: str) -> CsvFields:
    """The options and the teachers of a run, by column."""
    values: CsvFields = {}
    for group, values_by_name in json.loads(hyperparameters).items():
        for name, value in values_by_name.items():
            values[f"{group}.{name}"] = value
    for role, use in json.loads(teachers).items():
        values[f"teacher.{role}"] = use["teacher"]
    return values


def _select_run_scores(frames: Frames) -> pandas.DataFrame:
    """The newest scores of the metrics that tables show: run, column, value."""
    import pandas

    scores = select_shown_scores(frames, metrics_of(frames))
    scores = scores.join(frames.newest()[["run", "suite"]], on="evaluation", how="inner")
    kinds = scores[["suite", "task", "metric"]].drop_duplicates()
    names = pandas.Categorical([".".join(kind) for kind in kinds.itertuples(index=False)])
    return scores.merge(kinds.assign(column=names))[["run", "column", "value"]]
