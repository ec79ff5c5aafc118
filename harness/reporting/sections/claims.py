"""The papers' ablation claims with the verdicts of this store's own runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from statistics import mean

from harness.formatting import count_of, interval_text, p_value, signed
from harness.method.naming import name_of
from harness.metrics import Metric
from harness.papers.needed import StandIns
from harness.papers.published import (
    ABLATION_SCORE,
    PAPER_PROFILE,
    Ablation,
    Interaction,
    PrintedPlace,
    PublishedNumbers,
    find_printed_differences,
    find_printed_interaction,
    read_ablations,
    read_interactions,
)
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.contents import Contents
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import Weakness, list_weakness_notes
from harness.reporting.seeds.cells import Label, list_training_differences
from harness.reporting.seeds.claims import judge_claim, judge_interaction
from harness.reporting.seeds.controls import describe_powerless
from harness.reporting.seeds.interactions import InteractionTest, measure_interactions
from harness.reporting.seeds.summary import ClaimTest, SummaryTable, claim_tests, describe_margin
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import ALPHA, CORRECTION

#: the score that ablations are about
_CLAIMED = ABLATION_SCORE.column


class ClaimsSection(ReportSection):
    """The papers' ablation claims, tested with the runs."""

    order = 500
    title = "Ablations"

    @cached_property
    def parts(self) -> Sequence[Part]:
        """A table if both variants of a claim were run, and one of differences of differences."""
        contents = self.contents
        grids = [
            make_claims_grid(read_ablations(), contents.tables, contents.published),
            make_interactions_grid(read_interactions(), contents),
        ]
        return [Part("", "", [grid]) for grid in grids if grid]


def make_claims_grid(
    claims: Sequence[Ablation], tables: Sequence[SummaryTable], published: PublishedNumbers
) -> Grid | None:
    """Tabulate the claims whose two variants were both run, setting by setting; None if there are
    none.
    """
    sections = []
    weaknesses: list[Weakness] = []
    for table in tables:
        if not _has_claimed_score(table):
            continue
        metric = table.metric(_CLAIMED)
        for block in table.blocks:
            tests = [test for test in claim_tests(block, metric) if test.claim in claims]
            for test in tests:
                weaknesses += [test.better.weakness([_CLAIMED]), test.worse.weakness([_CLAIMED])]
            if tests:
                lines = tuple(_format_claim(test, metric, published) for test in tests)
                sections.append(Section(f"profile {table.profile}: {block.place}", lines))
    if not sections:
        return None

    margin = describe_margin(tables[0].blocks[0].points)
    return Grid(
        key="ablations",
        title="Ablation claims of the papers, tested with these runs",
        heads=("claim", "better", "than"),
        columns=("printed difference", "measured difference", "verdict"),
        sections=tuple(sections),
        notes=tuple(list_weakness_notes(weaknesses)),
        legend=(
            "Differences in the STS average, Spearman x 100; a printed one is of the same encoder and setting, or of "
            "those that these stand for, and says so where it is a mean over others.",
            f"A claim holds if the difference is above zero with p < {ALPHA} (two-sided t-test, "
            "paired by seed where two rows share their batches, else Welch's, after "
            f"{CORRECTION.name} in the family of the two rows, which the verdict names); alone: "
            f"only before the correction. Equal: the 90 % interval is within {margin}.",
            "Confounded: the difference is significant, but the better variant is not "
            "significantly better than one of its controls (its text teacher alone, unmatched "
            "images, text alone) that the other does not share.",
        ),
    )


def _has_claimed_score(table: SummaryTable) -> bool:
    return table.suite == ABLATION_SCORE.suite and _CLAIMED in table.columns


def _format_claim(test: ClaimTest, metric: Metric, published: PublishedNumbers) -> Line:
    """The line of a claim: what else differs between its two rows stands beside its words."""
    claim = test.claim
    heading = _name_claim(claim)
    difference = list_training_differences(test.better.training, test.worse.training)
    if difference:
        heading += f"; here {difference}"
    powerless = describe_powerless(test.better, test.worse)
    if powerless:
        heading += f"; {powerless}"

    printed = _format_printed_difference(claim, test.better.label, metric, published)
    cells = (printed, *_format_measured_difference(test, metric))
    return Line((heading, name_of(claim.better), name_of(claim.worse)), cells, "plain")


def _name_claim(claim: Ablation | Interaction) -> str:
    """The words of a claim, and where the paper says so."""
    return f"{claim.text} ({claim.paper} {', '.join(claim.tables)})"


def _format_printed_difference(
    claim: Ablation, measured: Label, metric: Metric, published: PublishedNumbers
) -> CellText:
    """The printed difference in the place that a measured row stands for; the mean over all where
    it stands for none of them.
    """
    differences = find_printed_differences(claim, published)
    if not differences:
        return CellText(ABSENT)

    own_places = [place for place in differences if _is_stand_in(measured, claim, place)]
    places = own_places or list(differences)
    value = signed(mean(differences[place] for place in places), metric.digits)
    if len(places) == 1:
        return CellText(value, extra=f"{places[0].setting} / {places[0].encoder}")
    remark = "" if own_places else ", other ones"
    return CellText(value, extra=f"mean over {count_of(len(places), 'place')}{remark}")


def _is_stand_in(measured: Label, claim: Ablation, place: PrintedPlace) -> bool:
    """Whether a measured row is in a printed place, or in its stand-in under the row's profile."""
    profile = _load_paper_profile(measured.profile)
    if profile is None:
        return False
    stand_in = StandIns.of(profile).place(claim.better, place.setting, place.encoder)
    if stand_in is None:
        return False
    return (stand_in.setting, stand_in.encoder) == (measured.setting, measured.encoder)


def make_interactions_grid(interactions: Sequence[Interaction], contents: Contents) -> Grid | None:
    """Tabulate the differences of differences of the papers with those of these runs, where one of
    the two differences was measured; None if none was.
    """
    published = contents.published
    sections: list[Section] = []
    commands: dict[str, None] = {}
    for table in contents.tables:
        profile = _load_paper_profile(table.profile)
        if profile is None or not _has_claimed_score(table):
            continue
        tests = list(
            measure_interactions(interactions, table, profile, published, contents.commands)
        )
        metric = table.metric(_CLAIMED)
        lines = tuple(_format_interaction(test, metric, published) for test in tests)
        commands |= dict.fromkeys(test.command for test in tests if test.command)
        if lines:
            sections.append(Section(f"profile {table.profile}", lines))
    if not sections:
        return None

    return Grid(
        key="interactions",
        title="Differences of differences that the papers print, tested with these runs",
        heads=("claim", "in"),
        columns=("printed", "measured", "verdict"),
        sections=tuple(sections),
        commands=tuple(commands),
        legend=(
            "How much larger the gain of one variant over another is with one encoder, or in one setting, than with "
            "another, in the STS average, Spearman x 100. Printed ones are means over what does not vary.",
            f"A claim holds if this is above zero with p < {ALPHA}, in a two-sided t-test of the four means with "
            "unequal variances (Welch and Satterthwaite), of gains by seed where two rows share their batches; each "
            "is tested alone.",
        ),
    )


def _load_paper_profile(name: str) -> Profile | None:
    """A profile of this package that has the papers' encoders and settings, or stand-ins."""
    if name not in shipped_profiles():
        return None
    profile = load_profile(name)
    return profile if name == PAPER_PROFILE or profile.stands_for else None


def _format_interaction(test: InteractionTest, metric: Metric, published: PublishedNumbers) -> Line:
    """The line of a claim: printed, measured, and the verdict as far as there is one."""
    claim = test.interaction
    digits = metric.digits
    number = find_printed_interaction(claim, published)
    printed = CellText(ABSENT if number is None else signed(number, digits))
    measured = CellText(ABSENT)
    verdict_cell = CellText("one of two gains was measured")

    if test.difference is not None:
        verdict = judge_interaction(test)
        assert verdict
        measured = CellText(signed(test.difference, digits))
        verdict_cell = CellText.from_verdict(verdict)
        if test.test is not None:
            interval = interval_text(test.test.low, test.test.high, digits)
            measured = replace(measured, extra=f"{interval}, {count_of(test.seeds, 'seed')}")
            verdict_cell = CellText.from_verdict(verdict, extra=p_value(test.test.p))
    return Line((_name_claim(claim), test.where), (printed, measured, verdict_cell), "plain")


def _format_measured_difference(claim: ClaimTest, metric: Metric) -> tuple[CellText, CellText]:
    """The measured difference with its interval and seeds, and the verdict with its test."""
    conclusion = claim.conclusion
    size = signed(conclusion.difference, metric.digits)
    verdict = judge_claim(conclusion)
    if conclusion.interval is None:
        return CellText(size), CellText.from_verdict(verdict)

    interval = interval_text(*conclusion.interval, metric.digits)
    seeds = count_of(min(conclusion.counts), "seed")
    measured = CellText(size, extra=f"{interval}, {seeds}")
    return measured, CellText.from_verdict(verdict, extra=conclusion.words)
