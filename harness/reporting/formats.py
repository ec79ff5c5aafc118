"""Cells of tables as text."""

from __future__ import annotations

from dataclasses import dataclass

from harness.formatting import fixed
from harness.reporting.seeds.groups import Cell
from harness.stats import Summary
from harness.verdicts import Significance, Verdict

BETTER, WORSE, ABSENT = "*", "†", "–"


@dataclass(frozen=True)
class CellText:
    """The text of a cell in the pieces that a page styles apart: `73.10 ± 0.42* (n = 2)`.

    `bold` marks the best of a group; `verdict` is set where the cell is a verdict, for its badge.
    """

    value: str
    spread: str = ""
    mark: str = ""
    extra: str = ""
    bold: bool = False
    verdict: Verdict | None = None

    @classmethod
    def judged(cls, verdict: Verdict, extra: str = "") -> CellText:
        """Build the cell of a verdict."""
        return cls(str(verdict), extra=extra, verdict=verdict)

    def __str__(self) -> str:
        middle = f" ± {self.spread}" if self.spread else ""
        return self.value + middle + self.mark + (f" ({self.extra})" if self.extra else "")


def summary_text(summary: Summary, digits: int, mark: str = "", extra: str = "") -> CellText:
    """Format a mean and, if there is one, the sample standard deviation."""
    return CellText(fixed(summary.mean, digits), "" if summary.std is None else fixed(summary.std, digits), mark, extra)


def cell_text(cell: Cell | None, digits: int, seeds: int) -> CellText:
    """Format a cell of a row with this many seeds; the cell's own count is shown where it differs."""
    if cell is None:
        return CellText(ABSENT)
    count = "" if cell.summary.n == seeds else f"n = {cell.summary.n}"
    return summary_text(cell.summary, digits, star(cell), count)


def star(cell: Cell) -> str:
    """Return the mark of a significant cell, or nothing."""
    return {Significance.BETTER: BETTER, Significance.WORSE: WORSE}.get(cell.verdict or Significance.NONE, "")
