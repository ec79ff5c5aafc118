"""tables.csv: the tables of a report unrounded, one row for each cell of each measured line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.metrics import Score
from harness.papers.published import Published
from harness.plaintext import for_csv
from harness.reporting.seeds.groups import Cell, Label
from harness.reporting.seeds.ranking import RankingTable
from harness.reporting.seeds.seen import SeenTable
from harness.reporting.seeds.summary import BASELINE, SummaryTable
from harness.reporting.seeds.tuned import TunedReport
from harness.reporting.tables.cells import FilledTable, PaperCell

#: `difference`, `low`, `high`, `p` and `p_holm` (after Holm over the `tests` of its family) compare with `against`;
#: all from `minus_published` on with the paper, `p_equivalence` being that of a difference within the `margin`. In a
#: ranking, `mean` is a mean rank with its interval, and `flip` the chance that the variant `against` is ahead with
#: other seeds. `weakened_by` says what weakens the score itself: a collapsed model, weights selected on a test,
#: stale or incomplete runs.
COLUMNS = (
    *(
        "table",
        "profile",
        "suite",
        "task",
        "part",
        "metric",
        "setting",
        "encoder",
        "variant",
        "overrides",
        "group",
        "seeds",
    ),
    *("n", "mean", "std", "against", "difference", "low", "high", "p", "verdict", "p_holm", "tests", "weakened_by"),
    *("published", "published_std", "published_seeds", "published_star", "published_source"),
    *("minus_published", "p_published", "margin", "p_equivalence", "verdict_published", "seeds_to_decide", "command"),
    "flip",
)
#: column -> value; None or no value is an empty field
CsvFields = dict[str, object]


def tidy(
    tables: Sequence[SummaryTable],
    papers: Sequence[FilledTable],
    seen: Sequence[SeenTable] = (),
    tuned: Sequence[TunedReport] = (),
    rankings: Sequence[RankingTable] = (),
) -> str:
    """The text of tables.csv. Fields are empty if a number does not exist."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    ours = (*map(_summary, tables), *map(_ranking, rankings), *map(_seen, seen), *map(_tuned, tuned))
    for one in (*ours, *map(_paper, papers)):
        writer.writerows({name: for_csv(value) for name, value in fields.items()} for fields in one)
    return stream.getvalue()


def _summary(table: SummaryTable, kind: str = "summary") -> Iterator[CsvFields]:
    shown: set[Label] = set()
    for block in table.blocks:
        for row in (row for row in block.rows if row.label not in shown):
            shown.add(row.label)
            baseline = block.baseline(row.label)
            shared = {**row.label._asdict(), "group": row.group, "seeds": " ".join(map(str, row.seeds))}
            for column, cell in ((column, row.cells[column]) for column in table.columns if column in row.cells):
                measured = _measured(cell, baseline.label.variant if baseline else None)
                measured["weakened_by"] = str(row.weakness([column]))
                yield {"table": kind, "suite": table.suite, **shared, **column._asdict(), **measured}


def _ranking(table: RankingTable) -> Iterator[CsvFields]:
    """Mean ranks, from best to worst, each with the next variant."""
    shared = {"table": "ranking", "profile": table.profile, "suite": table.suite, **table.column._asdict()}
    following = [*(row.name.code for row in table.rows[1:]), None]
    for row, after in zip(table.rows, following, strict=True):
        rank = {"mean": row.rank, "low": row.low, "high": row.high, "against": after, "flip": row.flip}
        yield {**shared, "variant": row.name.code, "n": row.seeds, **rank, "weakened_by": row.marks.strip()}


def _tuned(report: TunedReport) -> Iterator[CsvFields]:
    """The test scores of what was picked, and the expected best dev score of each number of trials."""
    for table in report.tables:
        yield from _summary(table, f"tuned {report.tuning.key}")
    shared = {"table": f"budget {report.tuning.key}", "profile": report.tuning.profile, "metric": "expected best dev"}
    for place in report.places:
        where = {"setting": place.setting, "encoder": place.encoder}
        for line in place.lines:
            seeds = {"variant": line.method.name, "seeds": " ".join(str(pick.seed) for pick in line.picks)}
            seeds["weakened_by"] = str(line.freshness)
            for trials, summary in enumerate(line.expected, start=1):
                number = {"task": f"best of {trials}", "n": summary.n, "mean": summary.mean, "std": summary.std}
                yield {**shared, **where, **seeds, **number}


def _seen(table: SeenTable) -> Iterator[CsvFields]:
    """The scores on seen and unseen pairs; the difference is the mean gain by seed."""
    for row in table.rows:
        shared = {**row.label._asdict(), "group": row.group, "seeds": " ".join(map(str, row.seeds))}
        for (task, part), cell in row.cells.items():
            if cell.scores:
                place = {"suite": table.suite, "task": task, "part": part, "metric": table.metric.name}
                fields = _measured(replace(cell.scores, test=cell.gains.test if cell.gains else None), None)
                gain = {"against": BASELINE, "difference": cell.gains.summary.mean} if cell.gains else {}
                weak = {"weakened_by": str(row.weakness())}
                yield {"table": "seen", **shared, **place, **fields, **gain, **weak}


def _measured(cell: Cell, against: str | None) -> CsvFields:
    summary = cell.summary
    fields: CsvFields = {"n": summary.n, "mean": summary.mean, "std": summary.std, "against": against}
    if cell.test:
        fields |= {name: getattr(cell.test, name) for name in ("difference", "low", "high", "p")}
        fields |= {"verdict": cell.verdict, **_corrected(cell)}
    return fields


def _corrected(cell: Cell) -> CsvFields:
    return {"p_holm": cell.corrected.p, "tests": cell.corrected.tests} if cell.corrected else {}


def _paper(filled: FilledTable) -> Iterator[CsvFields]:
    table = f"{filled.paper.name} {filled.name}"
    lines = [(row.row, line) for row in filled.rows for line in (*row.released, *row.lines)]
    for row, line in lines:
        for column in filled.columns:
            score = line.scores.get(column.name, Score(column.suite, column.task, column.metric))
            cell = line.cells[column.name]
            yield {
                **{"table": table, "profile": filled.profile, "command": line.command},
                **score._asdict(),
                "part": line.part,
                **line.place._asdict(),
                **(_measured(cell.measured, line.against) if cell.measured else {}),
                "weakened_by": "; ".join(dict.fromkeys(filter(None, map(str, line.weaknesses([column.name]))))),
                **(_published(cell, cell.published, row.source) if cell.published else {}),
            }


def _published(cell: PaperCell, number: Published, source: str) -> CsvFields:
    judgement = cell.judgement
    return {
        "published": number.value,
        "published_std": number.std,
        "published_seeds": number.seeds,
        "published_star": int(number.star),
        "published_source": source,
        "minus_published": cell.difference,
        "p_published": cell.test.p if cell.test else None,
        "margin": cell.margin if cell.equivalence else None,
        "p_equivalence": cell.equivalence.p if cell.equivalence else None,
        "verdict_published": judgement.verdict if judgement else None,
        "seeds_to_decide": judgement.seeds if judgement else None,
    }
