"""Six reasons to trust the answer to a question, or to doubt it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harness import stats
from harness.formatting import fixed
from harness.method.naming import name_of, title_of
from harness.metrics import AVERAGE, SEEN, UNSEEN, Column, Significance
from harness.reporting.seeds.cells import Row, list_training_differences
from harness.reporting.seeds.controls import UNMATCHED
from harness.reporting.seeds.gains import Gain
from harness.reporting.seeds.question import (
    Question,
    find_medium,
    name_control,
    name_missing_controls,
)
from harness.reporting.seeds.wording import describe_certainty
from harness.stats import FEWEST_SEEDS

#: two runs have read the same test pairs if their numbers differ by at most this share
SAME_PAIRS = 0.05
#: the metric that counts the pairs of a part
PAIRS = "n"


class Mark(StrEnum):
    """Whether there is a reason to trust."""

    YES = "✓"
    NO = "✗"
    OPEN = "?"


class TrustCheck(NamedTuple):
    """One reason: its mark, what it is about, its numbers, and the part of the report with more."""

    mark: Mark
    about: str
    text: str
    where: str


def list_checks(question: Question) -> Sequence[TrustCheck]:
    """The six checks of the leader beside the baseline, or without one the next method."""
    leader = question.leader
    reference = question.reference
    if leader is None:
        return ()
    return (
        _check_seeds(question, leader, reference),
        _check_test(question, leader, reference),
        _check_controls(question, leader),
        _check_media(question, leader),
        _check_seen_pairs(question, leader, reference),
        _check_budget(leader, reference),
    )


def _check_seeds(question: Question, leader: Gain, reference: Gain | None) -> TrustCheck:
    """Whether both rows have enough seeds, and equally many."""
    about = "Seeds"
    summaries = [gain.cell.summary for gain in (leader, reference) if gain]
    counts = sorted({summary.n for summary in summaries})
    seeds = " and ".join(map(str, counts))
    if counts[0] < FEWEST_SEEDS:
        return TrustCheck(Mark.NO, about, f"{seeds}; a test needs {FEWEST_SEEDS} of each", "runs")

    text = f"{seeds} of each" if reference else seeds
    varied = [summary for summary in summaries if summary.std is not None]
    spread = stats.pooled_deviation(varied[0], varied[-1])
    least = stats.detectable_difference(spread, counts[0])
    if least is not None:
        text += f"; smallest difference they show: {fixed(least, question.digits)}"
    mark = Mark.YES if len(counts) == 1 else Mark.OPEN
    return TrustCheck(mark, about, text, "runs")


def _check_test(question: Question, leader: Gain, reference: Gain | None) -> TrustCheck:
    """Whether the leader is better than the reference after the correction."""
    about = "Corrected test"
    if reference is None:
        return TrustCheck(Mark.OPEN, about, "nothing to compare with", "tables")
    cell = question.find_test(leader, reference)
    if cell.test is None:
        return TrustCheck(Mark.OPEN, about, "too few seeds to test", "tables")

    name = question.short_name(reference.row)
    if cell.verdict is Significance.EQUAL:
        return TrustCheck(Mark.NO, about, f"equal to {name} within the margin", "tables")
    if not cell.holds:
        text = f"not shown to be better than {name}, {describe_certainty(cell)}"
        return TrustCheck(Mark.NO, about, text, "tables")
    return TrustCheck(Mark.YES, about, f"better than {name}, {describe_certainty(cell)}", "tables")


def _check_controls(question: Question, leader: Gain) -> TrustCheck:
    """Whether the leader is better than its strongest control."""
    about = "Strongest control"
    rival = question.strongest
    if rival is None:
        return TrustCheck(Mark.OPEN, about, "no control was run", "next")

    mean = fixed(rival.cell.summary.mean, question.digits)
    place = question.place_beside(rival, title_of(leader.row.label.method))
    text = f"{name_control(rival)} scores {mean}, {place}"
    if rival.confounds:
        return TrustCheck(Mark.NO, about, text, "tables")
    if rival.tested.test is None:
        return TrustCheck(Mark.OPEN, about, text, "tables")

    # other pictures have a check of their own
    missing = [kind for kind in question.missing if kind != UNMATCHED]
    if missing:
        lack = name_missing_controls(missing[0], find_medium(leader.row))
        return TrustCheck(Mark.OPEN, about, f"{text}; missing: {lack}", "next")
    return TrustCheck(Mark.YES, about, text, "tables")


def _check_media(question: Question, leader: Gain) -> TrustCheck:
    """Whether the leader needs what it sees or hears in training."""
    medium = find_medium(leader.row)
    if not medium:
        return TrustCheck(Mark.YES, "Needs no pictures", "trained on text alone", "methods")

    about = f"Needs its {medium}"
    blind = question.blind
    if blind is None:
        return TrustCheck(Mark.OPEN, about, f"no run with other {medium}, or without any", "next")
    mark = Mark.NO if blind.confounds else Mark.YES
    if blind.tested.test is None:
        mark = Mark.OPEN
    return TrustCheck(mark, about, question.blind_text(blind), "tables")


def _check_seen_pairs(question: Question, leader: Gain, reference: Gain | None) -> TrustCheck:
    """Whether the gain stands on test pairs that training has not seen."""
    about = "Test pairs seen in training"
    sides = [question.parts.get(gain.row.label) for gain in (leader, reference) if gain]
    rows = [row for row in sides if row]
    if len(rows) < 2:
        return TrustCheck(Mark.OPEN, about, "not recorded for these runs", "seen")

    counts = [_count_seen(row) for row in rows]
    most_seeds = max(counts)
    least = min(counts)
    if most_seeds == 0:
        return TrustCheck(Mark.YES, about, "none", "seen")
    if most_seeds - least > SAME_PAIRS * most_seeds:
        name = title_of(reference.row.label.method) if reference else ""
        text = f"{counts[0]:.0f}, against {counts[1]:.0f} of {name}: not comparable"
        return TrustCheck(Mark.OPEN, about, text, "seen")

    column = Column(AVERAGE, question.forest.column.metric)
    cells = [row.cell(column, UNSEEN) for row in rows]
    unseen = [cell for cell in cells if cell]
    if len(unseen) < 2:
        return TrustCheck(Mark.OPEN, about, f"{most_seeds:.0f}; no score without them", "seen")
    test = stats.t_test(unseen[0].values, unseen[1].values, equal_variance=False)
    if test is None:
        return TrustCheck(Mark.OPEN, about, f"{most_seeds:.0f}; too few seeds to tell", "seen")
    mark = Mark.YES if test.low > 0 or test.high < 0 else Mark.NO
    text = f"{most_seeds:.0f}; on the others the gain is {question.difference_text(test)}"
    return TrustCheck(mark, about, text, "seen")


def _count_seen(row: Row) -> float:
    """The pairs of all tasks of which training read a sentence, as a mean over seeds."""
    pairs = 0.0
    for (part, column), cell in row.parts.items():
        if part == SEEN and column.metric == PAIRS and column.task != AVERAGE:
            pairs += cell.summary.mean
    return pairs


def _check_budget(leader: Gain, reference: Gain | None) -> TrustCheck:
    """Whether both rows were trained with equal values and like teachers."""
    about = "Equal budget and teachers"
    if reference is None:
        return TrustCheck(Mark.OPEN, about, "nothing to compare with", "runs")

    named = list_training_differences(leader.row.training, reference.row.training)
    differences = named.replace("_", " ")
    steps = leader.row.training.get("steps", "")
    text = f"{steps} steps each, equal values" if steps else "equal values"
    if differences:
        text = differences

    described = {describes for describes, _ in leader.row.teachers}
    described_to_reference = {describes for describes, _ in reference.row.teachers}
    has_own_text_teacher = bool(described - described_to_reference - {"image", "region"})
    if has_own_text_teacher:
        text += f"; a text teacher, which {name_of(reference.row.label.variant)} lacks"

    if differences:
        return TrustCheck(Mark.NO, about, text, "runs")
    mark = Mark.OPEN if has_own_text_teacher else Mark.YES
    return TrustCheck(mark, about, text, "runs")
