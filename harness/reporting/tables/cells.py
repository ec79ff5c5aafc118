"""The cells, rows and tables of a paper filled with measured numbers, and their verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from harness import stats
from harness.formatting import count_of, points
from harness.metrics import Agreement, Score
from harness.papers.published import PAPER_PROFILE, Paper, Published
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.reporting.seeds.caveats import Weakness
from harness.reporting.seeds.cells import (
    Cell,
    Corrected,
    Label,
    Row,
    correct_cells,
    correct_family,
)
from harness.stats import ALPHA, FEWEST_SEEDS, Equivalence, Summary, TTest

#: the family of the tests beside printed numbers
BESIDE_PRINT = "cells of the table beside print"


class Judgement(NamedTuple):
    """A verdict, with its reason where it is not the tests' own.

    `seeds` measured seeds would decide an open verdict beside the same printed numbers; None where
    no number would.
    """

    verdict: Agreement
    why: str = ""
    seeds: int | None = None


@dataclass(frozen=True)
class PaperCell:
    """A printed and a measured number, each None if there is none, and their comparison.

    `measured.test` is the paper's own test, against the row that the paper compares with. `margin`
    is the largest difference, in points, that counts as reproduced; None for a number that is not
    in points. `score` is the one of runs that fills it, None if nothing is measured for it.
    `differs` and `equal` are its tests beside print after the correction over the cells of its
    table; without them, the tests are alone.
    """

    published: Published | None = None
    measured: Cell | None = None
    margin: float | None = None
    score: Score | None = None
    differs: Corrected | None = None
    equal: Corrected | None = None

    @property
    def difference(self) -> float | None:
        """Measured - printed."""
        if self.measured is None or self.published is None:
            return None
        return self.measured.summary.mean - self.published.value

    @property
    def sides(self) -> tuple[Summary, Summary] | None:
        """What is tested; None where a side has fewer than FEWEST_SEEDS, or print has no deviation.

        The printed deviation is the largest one that rounds to it, as a population one, since no
        paper says whether its deviations are sample or population ones. A verdict by it is one by
        all smaller deviations.
        """
        printed = self.published.summary if self.published else None
        if not self.measured or printed is None or printed.std is None:
            return None
        if min(self.measured.summary.n, printed.n) < FEWEST_SEEDS:
            return None

        decimals = len(str(printed.std).partition(".")[2])
        largest = printed.std + 0.5 * 10**-decimals
        sample_std = largest * math.sqrt(printed.n / (printed.n - 1))
        return self.measured.summary, replace(printed, std=sample_std)

    @cached_property
    def test(self) -> TTest | None:
        """Welch's t-test of the difference; None if either side has too few seeds."""
        return stats.t_test_from_summaries(*self.sides) if self.sides else None

    @cached_property
    def equivalence(self) -> Equivalence | None:
        """The two one-sided t-tests of a difference within the margin; None without a margin or a
        `test`.
        """
        if self.test is None or self.margin is None:
            return None
        return stats.equivalence_test(self.test, self.margin)

    @cached_property
    def judgement(self) -> Judgement | None:
        """Whether the measured mean reproduces the printed number, after the correction over the
        cells of its table.

        It does if the two are equivalent within the margin, even if a smaller difference is
        significant. Otherwise it differs if a t-test shows a difference; else the two are not
        distinguishable, with what one of the tests says alone. There are too few seeds if a side
        has fewer than FEWEST_SEEDS, or the paper prints no number of seeds or no deviation.
        """
        if self.published is None or self.measured is None:
            return None
        if self.test is None or self.sides is None:
            return Judgement(Agreement.TOO_FEW, self._describe_lack(self.published, self.measured))

        differs = self.differs
        if differs is None:
            (differs,) = correct_family(BESIDE_PRINT, [self.test.p])
        equal = self.equal
        if equal is None and self.equivalence:
            (equal,) = correct_family(BESIDE_PRINT, [self.equivalence.p])

        if equal and equal.is_significant:
            return Judgement(Agreement.REPRODUCED)
        if differs.is_significant:
            return Judgement(Agreement.DIFFERS)
        seeds = self._count_deciding_seeds(*self.sides, differs, equal)
        return Judgement(Agreement.UNDECIDED, self._describe_lone_tests(), seeds)

    @staticmethod
    def _describe_lack(published: Published, measured: Cell) -> str:
        """What is too few for a test beside print."""
        lacks = []
        if measured.summary.n < FEWEST_SEEDS:
            lacks.append(f"{count_of(measured.summary.n, 'seed')} measured")
        if published.seeds is None:
            lacks.append("printed number of seeds not stated")
        elif published.seeds < FEWEST_SEEDS:
            lacks.append(f"{count_of(published.seeds, 'seed')} printed")
        elif published.std is None:
            lacks.append("no deviation printed")
        return ", ".join(lacks)

    def _describe_lone_tests(self) -> str:
        """What the tests say without the correction."""
        lone = []
        if self.test and self.test.p < ALPHA:
            lone.append(f"{Agreement.DIFFERS} alone")
        if self.equivalence and self.equivalence.p < ALPHA:
            lone.append(f"{Agreement.REPRODUCED} alone")
        return " and ".join(lone)

    def _count_deciding_seeds(
        self, measured: Summary, printed: Summary, differs: Corrected, equal: Corrected | None
    ) -> int | None:
        """The measured seeds that would decide, if the measured difference and deviation are true;
        never as few as have not decided.
        """
        needed = stats.seeds_to_decide(
            measured.mean - printed.mean,
            measured.std or 0.0,
            self.margin,
            alpha=differs.step,
            equality_alpha=equal.step if equal else ALPHA,
            other=printed,
        )
        return None if needed is None else max(needed, measured.n + 1)


class LineOrigin(NamedTuple):
    """What tells the lines of a row apart: a reading, "" for the row's own, and a definition.

    Lines of one origin are tested and ranked together.
    """

    reading: str = ""
    definition: str = ""


@dataclass(frozen=True)
class FilledLine:
    """Measured numbers of the runs of a label, with the printed ones beside them: cells by column.

    `rows` are the runs by suite, and `part` the part of each task that is scored. `against` is the
    label of the runs that they are tested against, `apart` says which values of the training the
    two do not share. It is `due` if it has fewer seeds than the table asks for.
    """

    label: Label
    origin: LineOrigin
    rows: Mapping[str, Row]
    cells: dict[str, PaperCell]
    part: str
    against: Label | None
    apart: str
    due: bool

    @property
    def data(self) -> Hashable:
        """All its scores; lines with equal data come from equal trainings."""
        cells = self.cells.items()
        return tuple((name, cell.measured.values) for name, cell in cells if cell.measured)

    @property
    def seeds(self) -> int:
        """The most seeds of its cells."""
        measured = [cell.measured for cell in self.cells.values() if cell.measured]
        return max((cell.summary.n for cell in measured), default=0)

    def weaknesses(self, columns: Collection[str] | None = None) -> Iterator[Weakness]:
        """Weaknesses of its measured numbers, by default in all columns. Each suite's runs have
        their own freshness.
        """
        names = self.cells.keys() if columns is None else columns
        shown_cells = [cell for name, cell in self.cells.items() if name in names]
        measured = [cell.measured for cell in shown_cells if cell.measured]
        for row in self.rows.values():
            yield row.weakness_in(measured)


@dataclass(frozen=True)
class FilledRow:
    """A row and its measured lines: first its own, then one for each other reading and definition
    with numbers.

    `released` are the numbers of public weights that should reproduce the row. They are compared
    with print alone.
    """

    row: PaperRow
    lines: tuple[FilledLine, ...]
    released: tuple[FilledLine, ...] = ()

    @property
    def own(self) -> FilledLine:
        """The line of the runs that the paper's table names. Rows are counted and judged by it."""
        return self.lines[0]

    @property
    def is_measured(self) -> bool:
        return any(line.seeds for line in self.lines)

    def line_from(self, origin: LineOrigin) -> FilledLine | None:
        """Its line to rank with those of an origin: the one in its reading, else its own, by the
        same definition.
        """
        lines = {line.origin: line for line in self.lines}
        return lines.get(origin) or lines.get(LineOrigin(definition=origin.definition))


#: an encoder and its rows
EncoderRows = tuple[str, tuple[FilledRow, ...]]


class Coverage(NamedTuple):
    """How many rows of a table are measured and how many lack seeds, and how many cells have each
    verdict.

    `rows` counts those that the table asks for and any others that were run.
    """

    rows: int
    measured: int
    to_run: int
    verdicts: Mapping[Agreement, int]


@dataclass(frozen=True)
class FilledTable:
    """A paper's table, encoder by encoder, filled by the runs of a profile.

    `columns` are the paper's, or those with a stand-in. `command` starts its missing runs, None
    where all are there; `released` evaluates public weights of its rows, None where all have
    numbers.
    """

    paper: Paper
    name: str
    table: PaperTable
    blocks: tuple[EncoderRows, ...]
    columns: tuple[PaperColumn, ...]
    profile: str
    command: str | None
    released: str | None

    @property
    def is_paper(self) -> bool:
        """Whether printed numbers stand in it."""
        return self.profile == PAPER_PROFILE

    @property
    def rows(self) -> list[FilledRow]:
        return [row for _, rows in self.blocks for row in rows]

    @property
    def lines(self) -> list[FilledLine]:
        return [line for row in self.rows for line in row.lines]

    @property
    def planned_rows(self) -> list[FilledRow]:
        """The rows whose runs the table itself asks for, without quoted ones."""
        return [row for row in self.rows if row.row.planned]

    @property
    def is_measured(self) -> bool:
        """Whether any row has a run, or numbers of public weights."""
        return any(row.is_measured or row.released for row in self.rows)

    @property
    def margin(self) -> float | None:
        """The margin of its verdicts, in points; None if no column is in points."""
        for line in self.lines:
            for cell in line.cells.values():
                if cell.margin is not None:
                    return cell.margin
        return None

    @property
    def coverage(self) -> Coverage:
        """The table's counts of rows and verdicts, each row by its own line."""
        planned = [row for row in self.rows if row.row.planned or row.own.seeds > 0]
        measured = [row for row in self.rows if row.own.seeds > 0]
        to_run = [row for row in self.rows if row.own.due]

        counts = dict.fromkeys(Agreement, 0)
        for row in self.rows:
            for cell in row.own.cells.values():
                if cell.judgement:
                    counts[cell.judgement.verdict] += 1
        return Coverage(len(planned), len(measured), len(to_run), counts)

    def of(self, variants: Sequence[str]) -> FilledTable:
        """Only the rows of these variants, within a setting in their order; tests remain those of
        the whole table.
        """
        settings = list(dict.fromkeys(row.setting for row in self.table.rows))

        def place(row: FilledRow) -> tuple[int, int]:
            return settings.index(row.row.setting), variants.index(row.row.variant)

        blocks = []
        for encoder, rows in self.blocks:
            selected = [row for row in rows if row.row.variant in variants]
            if selected:
                blocks.append((encoder, tuple(sorted(selected, key=place))))
        return replace(self, blocks=tuple(blocks))

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that fill it; none if it is full."""
        return tuple(command for command in (self.command, self.released) if command)


def summarise_verdicts(judgements: Sequence[Judgement], margin: float | None) -> str:
    """Sum up the verdicts of a row, reached with a margin in points; empty if nothing is measured
    beside print.
    """
    if not judgements:
        return ""
    reached = [judgement for judgement in judgements if judgement.verdict is not Agreement.TOO_FEW]
    if not reached:
        whys = dict.fromkeys(judgement.why for judgement in judgements)
        return f"{Agreement.TOO_FEW}: {'; '.join(whys)}"

    text = _count_verdicts(reached, len(judgements), margin)
    open_seeds = [
        judgement.seeds for judgement in reached if judgement.verdict is Agreement.UNDECIDED
    ]
    if not open_seeds:
        return text
    return f"{text}; {_say_seeds(open_seeds)} would decide"


def _count_verdicts(reached: Sequence[Judgement], cells: int, margin: float | None) -> str:
    """How often each verdict was reached in a row of so many cells."""
    counts = Counter(judgement.verdict for judgement in reached)
    words = {
        verdict: _describe_verdict(verdict, margin) for verdict in Agreement if counts[verdict]
    }
    first, *other_verdicts = words
    if other_verdicts:
        text = f"{words[first]} in {counts[first]} of {count_of(len(reached), 'cell')}"
        return text + "".join(
            f", {words[verdict]} in {counts[verdict]}" for verdict in other_verdicts
        )
    if len(reached) < cells:
        return f"{words[first]} in {count_of(len(reached), 'cell')}"
    return words[first]


def _say_seeds(needed: Sequence[int | None]) -> str:
    """The seeds that would decide the open verdicts of a row."""
    numbers = sorted(number for number in needed if number is not None)
    if not numbers:
        return "no number of seeds"
    at_most = "up to " if len(numbers) > 1 else ""
    return f"{at_most}{numbers[-1]} seeds"


def _describe_verdict(verdict: Agreement, margin: float | None) -> str:
    """A verdict; if it is REPRODUCED, with the margin."""
    if margin and verdict is Agreement.REPRODUCED:
        return f"{verdict} (±{points(margin)})"
    return str(verdict)


def correct_verdicts(lines: Sequence[FilledLine]) -> None:
    """Correct the tests beside print, in place: all cells of a table's lines of one origin are a
    family.
    """
    families: dict[LineOrigin, list[tuple[FilledLine, str]]] = {}
    for line in lines:
        for name, cell in line.cells.items():
            if cell.test:
                families.setdefault(line.origin, []).append((line, name))

    for family in families.values():
        cells = [line.cells[name] for line, name in family]
        differ_p = [cell.test.p for cell in cells if cell.test]
        equal_p = [cell.equivalence.p for cell in cells if cell.equivalence]
        differs = correct_family(BESIDE_PRINT, differ_p)
        equals = iter(correct_family(BESIDE_PRINT, equal_p))
        for (line, name), cell, test in zip(family, cells, differs, strict=True):
            equal = next(equals) if cell.equivalence else None
            line.cells[name] = replace(cell, differs=test, equal=equal)


def correct_tests(lines: Sequence[FilledLine], alpha: float) -> None:
    """Correct the paper's own tests, in place: those of a column, encoder and setting against one
    row are a family.
    """
    families: dict[tuple[str, Hashable], list[tuple[FilledLine, Cell]]] = {}
    for line in lines:
        place = (line.origin, line.label.setting, line.label.encoder, line.against)
        for name, cell in line.cells.items():
            if cell.measured and cell.measured.test:
                families.setdefault((name, place), []).append((line, cell.measured))

    for (name, _), family in families.items():
        tested = [measured for _, measured in family]
        data = [line.data for line, _ in family]
        names = [_name_family(line) for line, _ in family]
        in_family = correct_cells(tested, data, names, alpha)
        for (line, _), measured in zip(family, in_family, strict=True):
            line.cells[name] = replace(line.cells[name], measured=measured)


def _name_family(line: FilledLine) -> str:
    """The family of a line's own tests: the row that they are against."""
    return f"rows against {line.against.name.text}" if line.against else "rows"
