"""Cells of tables as text."""

from __future__ import annotations

from dataclasses import dataclass

from harness.formatting import fixed
from harness.metrics import Column
from harness.reporting.seeds.summary import Cell
from harness.stats import Summary

#: Decimals of a metric; everything else (correlations x 100, percent) has two.
_DIGITS = {"alignment": 3, "uniformity": 3}
BETTER, WORSE, ABSENT = "*", "†", "–"


def digits_of(metric: str) -> int:
    """Decimals a metric is shown with."""
    return _DIGITS.get(metric, 2)


@dataclass(frozen=True)
class CellText:
    """A cell in words, in the pieces that a page sets apart: `73.10 ± 0.42* (n = 2)`; `bold` is the best of a group."""

    value: str
    spread: str = ""
    mark: str = ""
    extra: str = ""
    bold: bool = False

    def __str__(self) -> str:
        middle = f" ± {self.spread}" if self.spread else ""
        return self.value + middle + self.mark + (f" ({self.extra})" if self.extra else "")


def summary_text(summary: Summary, digits: int, mark: str = "", extra: str = "") -> CellText:
    """Mean and, where there is one, the sample standard deviation."""
    return CellText(fixed(summary.mean, digits), "" if summary.std is None else fixed(summary.std, digits), mark, extra)


def cell_text(cell: Cell | None, column: Column, seeds: int) -> CellText:
    """A summary cell; its own count is shown where it differs from its row's."""
    if cell is None:
        return CellText(ABSENT)
    count = "" if cell.summary.n == seeds else f"n = {cell.summary.n}"
    return summary_text(cell.summary, digits_of(column.metric), star(cell), count)


def star(cell: Cell) -> str:
    """The mark of a tested cell, or nothing."""
    return {"better": BETTER, "worse": WORSE, None: ""}[cell.verdict]
