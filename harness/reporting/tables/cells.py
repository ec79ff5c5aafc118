"""The cells, rows and tables of a paper filled with measured numbers, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.command_line import harness_command
from harness.formatting import count_of
from harness.metrics import Score
from harness.papers.published import PAPER_PROFILE, Paper, Published
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.reporting.seeds.groups import Cell
from harness.spec import Place
from harness.stats import TTest, holm, t_test_from_summaries
from harness.verdicts import Agreement


@dataclass(frozen=True)
class Judgement:
    """A verdict and, for too few seeds, the reason."""

    verdict: Agreement
    why: str = ""


@dataclass(frozen=True)
class PaperCell:
    """A printed number, the measured one, and their comparison; None where impossible.

    `difference` is measured - printed and `test` its t-test. `measured.test` is the paper's own test, against the row
    that the paper compares with; `corrected` is its p-value after Holm's correction over the table and `holds` whether
    that is below the paper's level.
    """

    published: Published | None = None
    measured: Cell | None = None
    difference: float | None = None
    test: TTest | None = None
    judgement: Judgement | None = None
    corrected: float | None = None
    holds: bool = False

    @classmethod
    def of(cls, number: Published | None, cell: Cell | None) -> PaperCell:
        """Compare a measured cell with the printed number."""
        if number is None or cell is None:
            return cls(number, cell)
        return cls(number, cell, cell.summary.mean - number.value, beside(number, cell), judge(number, cell))

    @property
    def tested(self) -> bool:
        """Whether the paper's own test was made."""
        return self.measured is not None and self.measured.test is not None


@dataclass(frozen=True)
class FilledRow:
    """A row with its cells by column. `command` runs what is missing, None if nothing is.

    `place` and `scores` (by column) say which numbers fill it; a printed-only row has no scores.
    """

    row: PaperRow
    place: Place
    cells: Mapping[str, PaperCell]
    scores: Mapping[str, Score]
    seeds: int
    older: int
    command: str | None


#: an encoder and its rows
EncoderRows = tuple[str, tuple[FilledRow, ...]]


@dataclass(frozen=True)
class Coverage:
    """How many rows of a table are measured, and how many cells agree with print."""

    rows: int
    measured: int
    agrees: int
    differs: int
    too_few: int


@dataclass(frozen=True)
class FilledTable:
    """A paper's table, encoder by encoder, filled by the runs of a profile.

    `columns` are the paper's, or those with a stand-in.
    """

    paper: Paper
    name: str
    table: PaperTable
    blocks: tuple[EncoderRows, ...]
    columns: tuple[PaperColumn, ...]
    profile: str = PAPER_PROFILE

    @property
    def is_paper(self) -> bool:
        """Whether printed numbers stand in it."""
        return self.profile == PAPER_PROFILE

    @property
    def rows(self) -> list[FilledRow]:
        """The rows of all encoders."""
        return [row for _, rows in self.blocks for row in rows]

    @property
    def cells(self) -> list[PaperCell]:
        """The cells of all rows."""
        return [cell for row in self.rows for cell in row.cells.values()]

    @property
    def planned_rows(self) -> list[FilledRow]:
        """The rows whose runs the table itself asks for, without quoted ones."""
        return [row for row in self.rows if row.row.planned]

    @property
    def measured_rows(self) -> int:
        """How many rows have at least one run."""
        return sum(row.seeds > 0 for row in self.rows)

    @property
    def coverage(self) -> Coverage:
        """The table's counts of rows and verdicts."""
        verdicts = [cell.judgement.verdict for cell in self.cells if cell.judgement]
        counts = (verdicts.count(one) for one in (Agreement.AGREES, Agreement.DIFFERS, Agreement.TOO_FEW))
        return Coverage(len(self.rows), self.measured_rows, *counts)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that fill it: one if none of its planned rows has a run, else one a row; none if it is full."""
        missing = tuple(dict.fromkeys(row.command for row in self.rows if row.command))
        if not missing or any(row.seeds for row in self.planned_rows):
            return missing
        return (harness_command("run", table=f"{self.paper.name}:{self.name}", profile=self.profile),)


def judge(number: Published, cell: Cell) -> Judgement:
    """Decide whether a measured mean agrees with the printed number.

    It agrees if 0 lies within the 95% interval of measured - printed (independent two-sample t-test, pooled, from
    means, sample standard deviations and numbers of seeds). Fewer than two seeds on either side, or a number of seeds
    or a deviation that is not printed, are too few to say.
    """
    few = []
    if cell.summary.n < 2:
        few.append(f"{count_of(cell.summary.n, 'seed')} measured")
    if number.seeds is None:
        few.append("printed number of seeds not stated")
    elif number.seeds < 2:
        few.append(f"{count_of(number.seeds, 'seed')} printed")
    elif number.std is None:
        few.append("no deviation printed")
    test = beside(number, cell)
    if few or test is None:
        return Judgement(Agreement.TOO_FEW, ", ".join(few))
    return Judgement(Agreement.AGREES if test.low <= 0 <= test.high else Agreement.DIFFERS)


def beside(number: Published, cell: Cell) -> TTest | None:
    """Test a measured cell against print; None if either side has too few seeds."""
    return t_test_from_summaries(cell.summary, number.summary) if number.summary else None


def row_verdict(cells: Sequence[PaperCell]) -> str:
    """Sum up the verdicts of a row; empty if nothing is measured beside print."""
    found = [cell.judgement for cell in cells if cell.judgement]
    if not found:
        return ""
    verdicts = [one.verdict for one in found if one.verdict is not Agreement.TOO_FEW]
    if not verdicts:
        return f"{Agreement.TOO_FEW}: {'; '.join(dict.fromkeys(one.why for one in found))}"
    cells_text, off = count_of(len(verdicts), "cell"), verdicts.count(Agreement.DIFFERS)
    if not off:
        return str(Agreement.AGREES) if len(verdicts) == len(found) else f"{Agreement.AGREES} in {cells_text}"
    return str(Agreement.DIFFERS) if off == len(found) else f"{Agreement.DIFFERS} in {off} of {cells_text}"


def corrected(blocks: Sequence[EncoderRows], alpha: float) -> tuple[EncoderRows, ...]:
    """Apply Holm's correction to the paper's own test over all cells that have one."""
    cells = [cell.measured for _, rows in blocks for row in rows for cell in row.cells.values()]
    adjusted = iter(holm([cell.test.p for cell in cells if cell and cell.test]))
    return tuple((encoder, tuple(_with_p(row, adjusted, alpha) for row in rows)) for encoder, rows in blocks)


def _with_p(row: FilledRow, adjusted: Iterator[float], alpha: float) -> FilledRow:
    cells = {}
    for name, cell in row.cells.items():
        if cell.tested:
            p = next(adjusted)
            cell = replace(cell, corrected=p, holds=p < alpha)
        cells[name] = cell
    return replace(row, cells=cells)
