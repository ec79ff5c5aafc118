"""The report as CSV: all numbers unrounded, one row for each cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from harness.metrics import Column, Score
from harness.reporting.seeds.groups import Cell
from harness.reporting.seeds.summary import Row, SummaryTable
from harness.reporting.tables.cells import FilledRow, FilledTable, PaperCell

#: `difference`, `low`, `high`, `p` and `p_holm` (after Holm over the table) compare with `against`; `minus_published`,
#: `p_published` and `verdict_published` with the paper.
COLUMNS = (
    *("table", "profile", "suite", "task", "metric", "setting", "encoder", "variant", "overrides", "group", "seeds"),
    *("n", "mean", "std", "against", "difference", "low", "high", "p", "verdict", "p_holm"),
    *("published", "published_std", "published_seeds", "published_star", "published_source"),
    *("minus_published", "p_published", "verdict_published", "command"),
)
#: column -> value; missing columns are empty
CsvFields = dict[str, object]


def tidy(tables: Sequence[SummaryTable], papers: Sequence[FilledTable]) -> str:
    """The text of report.csv. CsvFields are empty if a number does not exist."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for table in tables:
        writer.writerows(_summary(table))
    for filled in papers:
        writer.writerows(_paper(filled))
    return stream.getvalue()


def _summary(table: SummaryTable) -> Iterator[CsvFields]:
    for block in table.blocks:
        for row in block.rows:
            baseline = block.baseline(row.label)
            for column in table.columns:
                if column in row.cells:
                    against = str(baseline.label.variant) if baseline else ""
                    yield {
                        "table": "summary",
                        "suite": table.suite,
                        **_row(row),
                        **_measured(row.cells[column], column, against),
                    }


def _row(row: Row) -> CsvFields:
    return {**row.label._asdict(), "group": row.group, "seeds": " ".join(map(str, row.seeds))}


def _measured(cell: Cell, column: Column, against: str) -> CsvFields:
    fields: CsvFields = {
        **column._asdict(),
        "n": cell.summary.n,
        "mean": cell.summary.mean,
        "std": _blank(cell.summary.std),
        "against": against,
    }
    if cell.test:
        fields |= {name: getattr(cell.test, name) for name in ("difference", "low", "high", "p")}
        fields["verdict"] = cell.verdict or ""
    return fields


def _paper(filled: FilledTable) -> Iterator[CsvFields]:
    for row in filled.rows:
        for column in filled.columns:
            score = row.scores.get(column.name, Score(column.suite, column.task, column.metric))
            yield {
                "table": f"{filled.paper.name} {filled.name}",
                "profile": filled.profile,
                "suite": score.suite,
                **score.column._asdict(),
                **_paper_cell(row, row.cells[column.name], score.column),
            }


def _paper_cell(row: FilledRow, cell: PaperCell, column: Column) -> CsvFields:
    against = row.row.against or ""
    return {
        **row.place._asdict(),
        **(_measured(cell.measured, column, against) if cell.measured else {}),
        "p_holm": _blank(cell.corrected),
        **_published(row, cell),
        "command": row.command or "",
    }


def _published(row: FilledRow, cell: PaperCell) -> CsvFields:
    number = cell.published
    if number is None:
        return {}
    return {
        "published": number.value,
        "published_std": _blank(number.std),
        "published_seeds": _blank(number.seeds),
        "published_star": int(number.star),
        "published_source": row.row.source,
        "minus_published": _blank(cell.difference),
        "p_published": cell.test.p if cell.test else "",
        "verdict_published": cell.judgement.verdict if cell.judgement else "",
    }


def _blank(value: float | None) -> float | str:
    return "" if value is None else value
