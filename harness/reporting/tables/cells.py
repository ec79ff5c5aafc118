"""The cells, rows and tables of a paper filled with measured numbers, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from harness.command_line import harness_command
from harness.formatting import count_of
from harness.metrics import Score
from harness.papers.published import PAPER_PROFILE, Paper, Published
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.reporting.seeds.groups import Cell
from harness.spec import Place
from harness.stats import TTest, holm, t_test_from_summaries
from harness.verdicts import Agreement


class Judgement(NamedTuple):
    """A verdict and, for too few seeds, the reason."""

    verdict: Agreement
    why: str = ""


@dataclass(frozen=True)
class PaperCell:
    """A printed number and the measured one, None where there is none, and their comparison.

    `measured.test` is the paper's own test, against the row that the paper compares with; `corrected` is its p-value
    after Holm's correction over the table and `holds` whether that is below the paper's level.
    """

    published: Published | None = None
    measured: Cell | None = None
    corrected: float | None = None
    holds: bool = False

    @property
    def tested(self) -> bool:
        """Whether the paper's own test was made."""
        return self.measured is not None and self.measured.test is not None

    @property
    def difference(self) -> float | None:
        """Measured - printed."""
        return self.measured.summary.mean - self.published.value if self.measured and self.published else None

    @cached_property
    def test(self) -> TTest | None:
        """The independent two-sample t-test of the difference, pooled; None if either side has too few seeds."""
        printed = self.published.summary if self.published else None
        return t_test_from_summaries(self.measured.summary, printed) if self.measured and printed else None

    @cached_property
    def judgement(self) -> Judgement | None:
        """Whether the measured mean agrees with the printed number.

        It agrees if 0 lies within the 95% interval of the difference. Fewer than two seeds on either side, or a number
        of seeds or a deviation that is not printed, are too few to decide.
        """
        if self.published is None or self.measured is None:
            return None
        number, few = self.published, []
        if self.measured.summary.n < 2:
            few.append(f"{count_of(self.measured.summary.n, 'seed')} measured")
        if number.seeds is None:
            few.append("printed number of seeds not stated")
        elif number.seeds < 2:
            few.append(f"{count_of(number.seeds, 'seed')} printed")
        elif number.std is None:
            few.append("no deviation printed")
        if few or self.test is None:
            return Judgement(Agreement.TOO_FEW, ", ".join(few))
        return Judgement(Agreement.AGREES if self.test.low <= 0 <= self.test.high else Agreement.DIFFERS)


#: the family of the rows' own lines
OWN_FAMILY = ""


@dataclass(frozen=True)
class FilledLine:
    """Measured numbers of a row, with the printed ones beside them: cells by column.

    `label` tells the lines of a row apart: a reading. `place` and `scores` (by column) say which numbers fill it,
    `against` which variant they are tested against. `command` runs what is missing, None if nothing is.
    """

    label: str
    place: Place
    cells: Mapping[str, PaperCell]
    scores: Mapping[str, Score]
    seeds: int
    older: int
    against: str | None
    command: str | None


@dataclass(frozen=True)
class FilledRow:
    """A row and its measured lines: first its own, then one for each other reading that was run."""

    row: PaperRow
    lines: tuple[FilledLine, ...]

    @property
    def own(self) -> FilledLine:
        """The line of the runs that the paper's table names. Rows are counted and judged by it."""
        return self.lines[0]

    @property
    def is_measured(self) -> bool:
        """Whether any of its lines has a run."""
        return any(line.seeds for line in self.lines)

    @property
    def by_family(self) -> dict[str, FilledLine]:
        """Its lines: its own under "", further ones by label. Lines of one family are tested and ranked together."""
        return {OWN_FAMILY: self.own, **{line.label: line for line in self.lines[1:]}}


#: an encoder and its rows
EncoderRows = tuple[str, tuple[FilledRow, ...]]


class Coverage(NamedTuple):
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
    def lines(self) -> list[FilledLine]:
        """The measured lines of all rows."""
        return [line for row in self.rows for line in row.lines]

    @property
    def families(self) -> dict[str, list[FilledLine]]:
        """The lines of all rows by family."""
        found: dict[str, list[FilledLine]] = {}
        for row in self.rows:
            for name, line in row.by_family.items():
                found.setdefault(name, []).append(line)
        return found

    @property
    def planned_rows(self) -> list[FilledRow]:
        """The rows whose runs the table itself asks for, without quoted ones."""
        return [row for row in self.rows if row.row.planned]

    @property
    def measured_rows(self) -> int:
        """How many rows have at least one run of their own."""
        return sum(row.own.seeds > 0 for row in self.rows)

    @property
    def is_measured(self) -> bool:
        """Whether any row has a run."""
        return any(row.is_measured for row in self.rows)

    @property
    def coverage(self) -> Coverage:
        """The table's counts of rows and verdicts, each row by its own line."""
        cells = [cell for row in self.rows for cell in row.own.cells.values()]
        verdicts = [cell.judgement.verdict for cell in cells if cell.judgement]
        counts = (verdicts.count(one) for one in (Agreement.AGREES, Agreement.DIFFERS, Agreement.TOO_FEW))
        return Coverage(len(self.rows), self.measured_rows, *counts)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that fill it: one if none of its planned rows has a run, else one a row; none if it is full."""
        missing = tuple(dict.fromkeys(line.command for line in self.lines if line.command))
        if not missing or any(row.is_measured for row in self.planned_rows):
            return missing
        return (harness_command("run", table=f"{self.paper.name}:{self.name}", profile=self.profile),)


def row_verdict(judgements: Sequence[Judgement]) -> str:
    """Sum up the verdicts of a row; empty if nothing is measured beside print."""
    if not judgements:
        return ""
    verdicts = [one.verdict for one in judgements if one.verdict is not Agreement.TOO_FEW]
    if not verdicts:
        return f"{Agreement.TOO_FEW}: {'; '.join(dict.fromkeys(one.why for one in judgements))}"
    cells, off = count_of(len(verdicts), "cell"), verdicts.count(Agreement.DIFFERS)
    if not off:
        return str(Agreement.AGREES) if len(verdicts) == len(judgements) else f"{Agreement.AGREES} in {cells}"
    return str(Agreement.DIFFERS) if off == len(judgements) else f"{Agreement.DIFFERS} in {off} of {cells}"


def own_tests(lines: Iterable[FilledLine]) -> list[TTest]:
    """Return the paper's own tests of some lines."""
    cells = (cell.measured for line in lines for cell in line.cells.values())
    return [cell.test for cell in cells if cell and cell.test]


def corrected(filled: FilledTable, alpha: float) -> FilledTable:
    """Apply Holm's correction to the paper's own tests, over those of each family of lines."""
    adjusted = {name: iter(holm([test.p for test in own_tests(lines)])) for name, lines in filled.families.items()}

    def with_p(line: FilledLine, values: Iterator[float]) -> FilledLine:
        new = {name: next(values) for name, cell in line.cells.items() if cell.tested}
        tested = {name: replace(line.cells[name], corrected=p, holds=p < alpha) for name, p in new.items()}
        return replace(line, cells={**line.cells, **tested})

    def of_row(row: FilledRow) -> FilledRow:
        return replace(row, lines=tuple(with_p(line, adjusted[name]) for name, line in row.by_family.items()))

    return replace(filled, blocks=tuple((encoder, tuple(map(of_row, rows))) for encoder, rows in filled.blocks))
