"""What runs say of the papers' claims, in the words of every page: of one claim where it was planned,
and beforehand of loss terms that cannot show anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.commands import Commands
from harness.formatting import count_of, interval_text, p_value, signed
from harness.metrics import ClaimVerdict, Column, Significance
from harness.papers.claims import PlannedClaim
from harness.papers.published import ABLATION_SCORE, Interaction, read_published
from harness.profiles import Profile
from harness.reporting.seeds.cells import Label
from harness.reporting.seeds.conclusion import Conclusion
from harness.reporting.seeds.controls import (
    LEAST_SHARE,
    describe_powerless,
    describe_shares,
    find_lacking_terms,
)
from harness.reporting.seeds.interactions import InteractionTest, measure_interactions
from harness.reporting.seeds.spent import Spent
from harness.reporting.seeds.summary import SummaryTable
from harness.spec import Variant
from harness.stats import ALPHA
from harness.store import Frames

_VERDICTS = {
    Significance.BETTER: ClaimVerdict.HOLDS,
    Significance.WORSE: ClaimVerdict.OPPOSITE,
    Significance.BETTER_ALONE: ClaimVerdict.ALONE,
    Significance.WORSE_ALONE: ClaimVerdict.ALONE,
    Significance.EQUAL: ClaimVerdict.EQUAL,
    Significance.NONE: ClaimVerdict.UNSEEN,
}


class ClaimAnswer(NamedTuple):
    """The verdict of runs on a claim, None where a side has no score, and the reasons in words."""

    verdict: ClaimVerdict | None
    words: str


def judge_claim(conclusion: Conclusion) -> ClaimVerdict:
    """The verdict on the claim that the first row of a conclusion is better than the second."""
    if conclusion.interval is None:
        return ClaimVerdict.TOO_FEW
    verdict = _VERDICTS[conclusion.verdict or Significance.NONE]
    if verdict is ClaimVerdict.HOLDS and conclusion.confounded_by:
        return ClaimVerdict.CONFOUNDED
    return verdict


def judge_interaction(test: InteractionTest) -> ClaimVerdict | None:
    """The verdict on a difference of differences; None where one of the two was not measured."""
    if test.difference is None:
        return None
    if test.test is None:
        return ClaimVerdict.TOO_FEW
    if test.test.p >= ALPHA:
        return ClaimVerdict.UNSEEN
    return ClaimVerdict.HOLDS if test.difference > 0 else ClaimVerdict.OPPOSITE


def judge_planned_claim(
    claim: PlannedClaim,
    tables: Sequence[SummaryTable],
    profile: Profile,
    overrides: str,
    commands: Commands,
) -> ClaimAnswer:
    """The verdict of one profile's runs, as their tables have them, on a claim in its place.

    `overrides` are the `--set` values of its runs, as labels have them.
    """
    for table in tables:
        if (table.profile, table.suite) == (profile.name, claim.score.suite):
            if isinstance(claim.claim, Interaction):
                return _judge_planned_interaction(claim, claim.claim, table, profile, commands)
            return _judge_difference(claim, table, overrides)
    return ClaimAnswer(None, f"no run has a score in {claim.score.suite}")


def _judge_difference(claim: PlannedClaim, table: SummaryTable, overrides: str) -> ClaimAnswer:
    """The verdict on a difference of two rows, and the sentence for it."""
    column = Column(claim.score.task, claim.score.metric)
    rows = {row.label: row for row in table.rows if column in row.cells}
    sides = []
    for side in claim.sides:
        label = Label(table.profile, *side.place, overrides)
        if label not in rows:
            return ClaimAnswer(None, f"{label.name.text} has no score in {label.place}")
        sides.append(rows[label])

    better, worse = sides
    conclusion = table.conclude(better, worse, column)
    words = conclusion.sentence
    carried = describe_powerless(better, worse)
    if carried:
        words += f" It {carried}."
    return ClaimAnswer(judge_claim(conclusion), words)


def _judge_planned_interaction(
    claim: PlannedClaim,
    interaction: Interaction,
    table: SummaryTable,
    profile: Profile,
    commands: Commands,
) -> ClaimAnswer:
    """The verdict on a difference of differences, and the words for it."""
    test = None
    for measured in measure_interactions([interaction], table, profile, read_published(), commands):
        if measured.where == claim.where:
            test = measured
            break

    verdict = judge_interaction(test) if test else None
    if test is None or test.difference is None or verdict is None:
        return ClaimAnswer(None, "not all of its four sides have scores")

    digits = table.metric(ABLATION_SCORE.column).digits
    size = signed(test.difference, digits)
    text = f"the gain is {size} larger with {interaction.more} than with {interaction.less}"
    if test.test is None:
        return ClaimAnswer(verdict, f"{text}, of {count_of(test.seeds, 'seed')}")
    interval = interval_text(test.test.low, test.test.high, digits)
    return ClaimAnswer(verdict, f"{text} (95% interval {interval}, {p_value(test.test.p)})")


def describe_weak_terms(claim: PlannedClaim, frames: Frames, profile: Profile) -> str:
    """Beforehand, from finished runs of a claim's whole variant wherever they were trained: that the
    terms which the other side lacks carry no part of the gradient; empty where they carry one, or
    where nothing tells.
    """
    better, worse = (Variant.parse(side.place.variant) for side in claim.sides[:2])
    for complete, part in ((better, worse), (worse, better)):
        runs = frames.where(variant=[str(complete)], profile=[profile.name])
        shares = Spent.of(runs, range(len(runs))).shares
        removed = find_lacking_terms(complete, part)
        carried = {term: shares[term] for term in removed if term in shares}
        if carried and max(carried.values()) < LEAST_SHARE:
            return describe_shares(carried)
    return ""
