"""Numbers become text here and nowhere else, so that every page and file rounds alike."""

from __future__ import annotations

from dataclasses import dataclass

from harness.reporting.summary import Cell, Column
from harness.stats import Summary

#: Decimals of a metric; everything else (correlations x 100, percent) has two.
_DIGITS = {"alignment": 3, "uniformity": 3}
BETTER, WORSE, ABSENT = "*", "†", "–"


def digits_of(metric: str) -> int:
    """Decimals a metric is shown with."""
    return _DIGITS.get(metric, 2)


def fixed(value: float, digits: int) -> str:
    """The one rounding rule: to the nearest decimal of the unrounded value; zero has no sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def signed(value: float, digits: int) -> str:
    """As `fixed`, with a plus sign for what is above zero."""
    text = fixed(value, digits)
    return f"+{text}" if float(text) > 0 else text


def p_value(p: float) -> str:
    """`p = 0.0235`, `p = 0.42` or `p < 0.0001`."""
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {fixed(p, 2 if p >= 0.1 else 4)}"


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


def count_of(number: int, thing: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """A wall time a person can read: `12.1 s`, `3 min 20 s`, `5 h 02 min`."""
    if seconds < 60:
        return f"{fixed(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
