"""The methods of a question and their controls, best first, as a figure and a table show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.formatting import signed
from harness.method.naming import VariantName, title_of
from harness.reporting.seeds.cells import Cell, Label, Row
from harness.reporting.seeds.controls import SAME_TEXT, TEACHER_ALONE, Rival
from harness.reporting.seeds.gains import Gain
from harness.reporting.seeds.question import Question, name_control
from harness.stats import Interval, mean_interval

#: rows of a figure, and the controls among them at least; the leaderboard has the others
MOST_ROWS = 18
FEWEST_CONTROLS = 6


class RankedRow(NamedTuple):
    """A method or a control with the 95 % interval of its mean, None for one seed.

    `rank` is empty for a control and with too few seeds, `difference` to the baseline for the
    baseline itself and where there is none.
    """

    row: Row
    name: VariantName
    rank: str
    is_control: bool
    cell: Cell
    interval: Interval | None
    difference: str


class Standings(NamedTuple):
    """The rows of a question, best first, and the numbers of methods and controls that have none."""

    rows: Sequence[RankedRow]
    more_methods: int
    more_controls: int


def make_standings(question: Question) -> Standings:
    """The methods and their controls, best first: at most MOST_ROWS, the leader's controls and the
    baseline among them.
    """
    names = _name_controls(question)
    room = max(MOST_ROWS - len(question.methods), FEWEST_CONTROLS)
    controls = list(names)[:room]
    methods = list(question.methods[: MOST_ROWS - len(controls)])
    if question.baseline and question.baseline not in methods:
        methods[-1] = question.baseline

    rows = [_rank_method(question, gain) for gain in methods]
    rows += [_rank_control(question, label, names[label]) for label in controls]
    sign = 1 if question.forest.metric.larger_is_better else -1
    rows.sort(key=lambda row: (-sign * row.cell.summary.mean, row.is_control))
    return Standings(
        rows,
        more_methods=len(question.methods) - len(methods),
        more_controls=len(names) - len(controls),
    )


def _name_controls(question: Question) -> Mapping[Label, str]:
    """The controls of all methods with their names, those of the leader first."""
    methods = {gain.row.label for gain in question.methods}
    names: dict[Label, str] = {}
    for gain in question.methods:
        for rival in question.rivals_of(gain):
            label = rival.row.label
            if label not in methods:
                names.setdefault(label, _name_control(question, gain, rival))
    return names


def _name_control(question: Question, gain: Gain, rival: Rival) -> str:
    """The name of a control beside the rows of other methods."""
    if TEACHER_ALONE in rival.control.what and not rival.row.is_trained:
        return f"{title_of(gain.row.label.method)}'s text teacher alone"
    if rival.control.what.startswith(SAME_TEXT):
        return name_control(rival)
    return question.short_name(rival.row).text


def _rank_method(question: Question, gain: Gain) -> RankedRow:
    """The row of a method, with its rank."""
    name = question.short_name(gain.row)
    if gain is question.baseline:
        name = VariantName(f"{name} (baseline)", name.code)
    rank = question.rank_text(gain.row.label)
    return _rank_row(question, gain.row, name, rank, is_control=False)


def _rank_control(question: Question, label: Label, text: str) -> RankedRow:
    row = question.forest.rows[label]
    return _rank_row(question, row, VariantName(text, label.name.code), "", is_control=True)


def _rank_row(
    question: Question, row: Row, name: VariantName, rank: str, *, is_control: bool
) -> RankedRow:
    """A row with its interval and its difference to the baseline."""
    column = question.forest.column
    cell = row.cells[column]
    base = question.forest.base
    difference = ""
    if base is not None and row is not base:
        conclusion = question.forest.conclude(row, base)
        difference = signed(conclusion.difference, question.digits)
    return RankedRow(row, name, rank, is_control, cell, mean_interval(cell.summary), difference)
