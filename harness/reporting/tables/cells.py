"""What a cell, a row and a table of a paper come to, and how measured numbers are judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.formatting import count_of
from harness.metrics import Score
from harness.papers.published import Paper, Published
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.reporting.seeds.summary import Cell
from harness.spec import UNTRAINED, Place
from harness.stats import TTest, holm, t_test_from_summaries

#: The only profile whose results may stand beside printed numbers.
PROFILE = "paper"
AGREES, DIFFERS, TOO_FEW = "agrees", "differs", "too few seeds to say"


@dataclass(frozen=True)
class Verdict:
    """`word` is agrees, differs or too few seeds to say; `why` says of the last which seeds."""

    word: str
    why: str = ""


@dataclass(frozen=True)
class PaperCell:
    """A printed number, the measured one, their difference (measured - printed) and its test; None where impossible.

    `measured.test` is the paper's own test, against the row that the paper compares with; `corrected` is its p-value
    after Holm's correction over the table and `holds` whether that is below the paper's level.
    """

    published: Published | None = None
    measured: Cell | None = None
    difference: float | None = None
    test: TTest | None = None
    verdict: Verdict | None = None
    corrected: float | None = None
    holds: bool = False


@dataclass(frozen=True)
class FilledRow:
    """A row with its cells by column. `command` fills what is missing, None when nothing is.

    `place` names its runs and `scores` their numbers by column, none for what is printed alone.
    """

    row: PaperRow
    place: Place
    cells: Mapping[str, PaperCell]
    scores: Mapping[str, Score]
    seeds: int
    older: int
    command: str | None

    @property
    def encoder(self) -> str:
        """The encoder of its runs."""
        return self.place.encoder


#: an encoder and its rows
Block = tuple[str, tuple[FilledRow, ...]]


@dataclass(frozen=True)
class FilledTable:
    """A paper's table, encoder by encoder, filled by the runs of a profile.

    The columns are the paper's, or those of them that have a stand-in.
    """

    paper: Paper
    name: str
    table: PaperTable
    blocks: tuple[Block, ...]
    columns: tuple[PaperColumn, ...]
    profile: str = PROFILE

    @property
    def rows(self) -> list[FilledRow]:
        """The rows of all encoders."""
        return [row for _, rows in self.blocks for row in rows]

    @property
    def planned_rows(self) -> list[FilledRow]:
        """Those that the table itself asks for runs of: not quoted ones."""
        return [row for row in self.rows if row.row.planned]

    @property
    def measured_rows(self) -> int:
        """How many rows have at least one run."""
        return sum(row.seeds > 0 for row in self.rows)

    @property
    def commands(self) -> tuple[str, ...]:
        """What fills it: one command for the whole where no row of its own has a run, else one a row."""
        if any(row.seeds for row in self.planned_rows):
            return tuple(dict.fromkeys(row.command for row in self.rows if row.command))
        profile = [] if self.profile == PROFILE else ["--profile", self.profile]
        return (shlex.join(["harness", "run", "--table", f"{self.paper.name}:{self.name}", *profile]),)


def judge(number: Published, cell: Cell) -> Verdict:
    """Whether a measured mean is what was printed.

    It agrees where 0 lies within the 95% interval of the difference measured - printed (independent two-sample t-test,
    pooled, from means, sample standard deviations and numbers of seeds). Fewer than two seeds on a side, or a number
    of seeds or a spread that is not printed, say nothing.
    """
    few = []
    if cell.summary.n < 2:
        few.append(f"{count_of(cell.summary.n, 'seed')} measured")
    if number.seeds is None:
        few.append("printed number of seeds not stated")
    elif number.seeds < 2:
        few.append(f"{count_of(number.seeds, 'seed')} printed")
    elif number.std is None:
        few.append("no spread printed")
    test = beside(number, cell)
    if few or test is None:
        return Verdict(TOO_FEW, ", ".join(few))
    return Verdict(AGREES if test.low <= 0 <= test.high else DIFFERS)


def beside(number: Published, cell: Cell) -> TTest | None:
    """The test of a measured cell against print; None where a side has too few seeds."""
    return t_test_from_summaries(cell.summary, number.summary) if number.summary else None


def row_verdict(cells: Sequence[PaperCell]) -> str:
    """A row's verdict in words; empty where nothing is measured beside print."""
    found = [cell.verdict for cell in cells if cell.verdict]
    if not found:
        return ""
    said = [verdict for verdict in found if verdict.word != TOO_FEW]
    if not said:
        reasons = dict.fromkeys(verdict.why for verdict in found)
        return f"{TOO_FEW}: {'; '.join(reasons)}"
    off = sum(verdict.word == DIFFERS for verdict in said)
    if not off:
        return AGREES if len(said) == len(found) else f"{AGREES} in {count_of(len(said), 'cell')}"
    return DIFFERS if off == len(found) else f"{DIFFERS} in {off} of {count_of(len(said), 'cell')}"


def corrected(blocks: Sequence[Block], alpha: float) -> tuple[Block, ...]:
    """The rows with the p-values of the paper's own test after Holm's correction over all cells that have one."""
    cells = [cell for _, rows in blocks for row in rows for cell in row.cells.values()]
    ps = [cell.measured.test.p for cell in cells if cell.measured and cell.measured.test]
    adjusted = iter(holm(ps))

    def one(cell: PaperCell) -> PaperCell:
        if not tested(cell):
            return cell
        p = next(adjusted)
        return replace(cell, corrected=p, holds=p < alpha)

    return tuple(
        (encoder, tuple(replace(row, cells={name: one(cell) for name, cell in row.cells.items()}) for row in rows))
        for encoder, rows in blocks
    )


def tested(cell: PaperCell) -> bool:
    """Whether the paper's own test was made of a cell."""
    return cell.measured is not None and cell.measured.test is not None


def row_command(place: Place, seeds: int, suites: Sequence[str], profile: str = PROFILE) -> str:
    """What to type to fill a row; finished runs are not run again."""
    words = ["harness", "run", "--profile", profile, "--methods", place.variant]
    if place.setting != UNTRAINED:
        words += ["--settings", place.setting]
    return shlex.join([*words, "--encoders", place.encoder, "--seeds", str(seeds), "--suites", ",".join(suites)])


def fewest(scores: Sequence[Score], found: Mapping[Score, Cell]) -> tuple[int, int]:
    """The least and the greatest number of seeds over a row's scores."""
    counts = [found[score].summary.n if score in found else 0 for score in scores]
    return min(counts, default=0), max(counts, default=0)
