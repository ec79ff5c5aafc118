"""The answer to a question as a paper prints it: a sentence, and a table of one column."""

from __future__ import annotations

from harness.formatting import count_of, fixed, signed
from harness.method.naming import title_of
from harness.metrics import Significance
from harness.reporting.seeds.gains import Gain
from harness.reporting.seeds.question import Answer, Question, name_control, start_sentence
from harness.reporting.seeds.standings import RankedRow, Standings
from harness.reporting.seeds.wording import describe_certainty
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section


def describe_result(question: Question) -> str:
    """The result in one or two sentences, with seeds, intervals, the test and its correction."""
    leader = question.leader
    reference = question.reference
    if leader is None:
        return ""

    score = f"{question.score_text(leader.cell)} on the {question.score_name}"
    seeds = count_of(leader.cell.summary.n, "seed")
    name = start_sentence(title_of(leader.row.label.method))
    start = f"{name} scores {score} over {seeds}"
    if reference is None:
        return f"{start}."
    text = f"{start}, {_compare(question, leader, reference)}."
    return f"{text}{_explain_score(question)}"


def _explain_score(question: Question) -> str:
    """The control that explains the score of the leader, as a sentence; empty without one."""
    blind = question.blind
    rival = blind if blind and blind.confounds else question.strongest
    if question.is_believed or rival is None or not rival.confounds:
        return ""
    # the comparison with the reference has said it
    if question.reference and rival.row is question.reference.row:
        return ""

    if rival is blind:
        text = question.blind_text(rival)
    else:
        text = f"{name_control(rival)} is {question.place_beside(rival, 'it')}"
    if question.answer is Answer.CONFOUNDED:
        return f" The gain is not its own: {text}."
    return f" {start_sentence(text)}."


def _compare(question: Question, leader: Gain, reference: Gain) -> str:
    """`1.46 points above SimCSE (95 % CI [1.15, 1.78], two-sided t-test, p < 0.0001 ...)`."""
    cell = question.find_test(leader, reference)
    name = title_of(reference.row.label.method)
    if cell.test is None:
        return f"with too few seeds for a test against {name}"

    sign = 1 if question.forest.metric.larger_is_better else -1
    ends = sorted((sign * cell.test.low, sign * cell.test.high))
    low, high = (fixed(end, question.digits) for end in ends)
    size = signed(sign * cell.test.difference, question.digits).removeprefix("+")

    test = f"two-sided {cell.test.name.removeprefix('the ')}"
    p = describe_certainty(cell).removeprefix("paired ")
    if cell.verdict is Significance.EQUAL:
        p += ", equivalent within the margin"
    return f"{size} above {name} (95 % CI [{low}, {high}], {test}, {p})"


def make_results_grid(question: Question, standings: Standings, key: str) -> Grid:
    """The methods and controls with their scores and differences, for one column of a paper."""
    columns = [question.forest.table.title(question.forest.column)]
    base = question.forest.base
    if base is not None:
        columns.append(f"to {base.label.name}")

    methods = [row for row in standings.rows if not row.is_control]
    controls = [row for row in standings.rows if row.is_control]
    sections = []
    for name, rows in {"methods": methods, "controls": controls}.items():
        if rows:
            lines = [_make_line(question, row, len(columns)) for row in rows]
            sections.append(Section(name, tuple(lines)))

    block = question.forest.block
    return Grid(
        key=key,
        title=f"{question.score_title}: {block.setting}, {block.encoder}",
        heads=("",),
        columns=tuple(columns),
        average=(True,) + (False,) * (len(columns) - 1),
        sections=tuple(sections),
        legend=("Mean ± sample standard deviation over seeds.",),
    )


def _make_line(question: Question, row: RankedRow, columns: int) -> Line:
    """The line of a row: its score, and its difference where there is a column."""
    score, _, spread = question.score_text(row.cell).partition(" ± ")
    cells = [CellText(score, spread)]
    if columns > 1:
        cells.append(CellText(row.difference or ABSENT))
    return Line((row.name.text.removesuffix(" (baseline)"),), tuple(cells), "plain")
