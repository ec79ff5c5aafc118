"""The papers' ablation claims with the verdicts of this store's own runs."""

from __future__ import annotations

from collections.abc import Sequence
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


class ClaimsSection(ReportSection):
    """The papers' ablation claims, tested with the runs."""

    order = 500
    title = "Ablations"

    @cached_property
    def parts(self) -> Sequence[Part]:
        """A table if both variants of a claim were run, and one of differences of differences."""
        grids = (
            make_claims_grid(read_ablations(), self.contents.tables, self.contents.published),
            make_interactions_grid(read_interactions(), self.contents),
        )
        return [Part("", "", [grid]) for grid in grids if grid]


def make_claims_grid(
    claims: Sequence[Ablation], tables: Sequence[SummaryTable], published: PublishedNumbers
) -> Grid | None:
    """Tabulate the claims whose two variants were both run, setting by setting; None if there are
    none.
    """
    column = ABLATION_SCORE.column
    sections = []
    weak = list[Weakness]()
    for table in tables:
        if table.suite != ABLATION_SCORE.suite or column not in table.columns:
            continue
        metric = table.metric(column)
        for block in table.blocks:
            tests = [test for test in claim_tests(block, metric) if test.claim in claims]
            weak += [row.weakness([column]) for test in tests for row in (test.better, test.worse)]
            if tests:
                lines = tuple(_format_claim(test, metric, published) for test in tests)
                sections.append(Section(f"profile {table.profile}: {block.place}", lines))
    if not sections:
        return None
    return Grid(
        "ablations",
        "Ablation claims of the papers, tested with these runs",
        ("claim", "better", "than"),
        ("printed difference", "measured difference", "verdict"),
        (False, False, False),
        tuple(sections),
        tuple(list_weakness_notes(weak)),
        legend=(
            "Differences in the STS average, Spearman x 100; a printed one is of the same encoder and setting, or of "
            "those that these stand for, and says so where it is a mean over others.",
            f"A claim holds if the difference is above zero with p < {ALPHA} (two-sided t-test, "
            "paired by seed where two rows share their batches, else Welch's, after "
            f"{CORRECTION.name} in the family of the two rows, which the verdict names); alone: "
            "only before the correction. Equal: the 90 % interval is within "
            f"{describe_margin(tables[0].blocks[0].points)}.",
            "Confounded: the difference is significant, but the better variant is not "
            "significantly better than one of its controls (its text teacher alone, unmatched "
            "images, text alone) that the other does not share.",
        ),
    )


def _format_claim(test: ClaimTest, metric: Metric, published: PublishedNumbers) -> Line:
    claim = test.claim
    worse = test.worse
    apart = list_training_differences(test.better.training, worse.training)
    where = f"{claim.text} ({claim.paper} {', '.join(claim.tables)})" + (
        f"; here {apart}" if apart else ""
    )
    where += f"; {shown}" if (shown := describe_powerless(test.better, worse)) else ""
    stated = _format_printed_difference(claim, test.better.label, metric, published)
    cells = stated, *_format_measured_difference(test, metric)
    return Line((where, name_of(claim.better), name_of(claim.worse)), cells, "plain")


def _format_printed_difference(
    claim: Ablation, measured: Label, metric: Metric, published: PublishedNumbers
) -> CellText:
    """The printed difference in the place that a measured row stands for; the mean over all where
    it stands for none of them.
    """
    differences = find_printed_differences(claim, published)
    if not differences:
        return CellText(ABSENT)
    alike = [place for place in differences if _is_stand_in(measured, claim, place)]
    places = alike or list(differences)
    value = signed(mean(differences[place] for place in places), metric.digits)
    if len(places) == 1:
        return CellText(value, extra=f"{places[0].setting} / {places[0].encoder}")
    others = "" if alike else ", other ones"
    return CellText(value, extra=f"mean over {count_of(len(places), 'place')}{others}")


def _is_stand_in(measured: Label, claim: Ablation, place: PrintedPlace) -> bool:
    """Whether a measured row is in a printed place, or in its stand-in under the row's profile."""
    if measured.profile not in shipped_profiles():
        return False
    profile = load_profile(measured.profile)
    if profile.name != PAPER_PROFILE and not profile.stands_for:
        return False
    own = StandIns.of(profile).place(claim.better, place.setting, place.encoder)
    return own is not None and (own.setting, own.encoder) == (measured.setting, measured.encoder)


def make_interactions_grid(interactions: Sequence[Interaction], contents: Contents) -> Grid | None:
    """Tabulate the differences of differences of the papers with those of these runs, where one of
    the two differences was measured; None if none was.
    """
    column = ABLATION_SCORE.column
    sections = list[Section]()
    commands = list[str]()
    for table in contents.tables:
        profile = _load_paper_profile(table.profile)
        if profile is None or table.suite != ABLATION_SCORE.suite or column not in table.columns:
            continue
        given = (table, profile, contents.published, contents.commands)
        tests = list(measure_interactions(interactions, *given))
        metric = table.metric(column)
        lines = tuple(_format_interaction(test, metric, contents.published) for test in tests)
        commands += [test.command for test in tests if test.command]
        if lines:
            sections.append(Section(f"profile {table.profile}", lines))
    if not sections:
        return None
    return Grid(
        "interactions",
        "Differences of differences that the papers print, tested with these runs",
        ("claim", "in"),
        ("printed", "measured", "verdict"),
        (False, False, False),
        tuple(sections),
        (),
        tuple(dict.fromkeys(commands)),
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
    claim = test.interaction
    digits = metric.digits
    printed = find_printed_interaction(claim, published)
    stated = CellText(ABSENT if printed is None else signed(printed, digits))
    where = f"{claim.text} ({claim.paper} {', '.join(claim.tables)})"
    if test.difference is None:
        cells = (stated, CellText(ABSENT), CellText("one of two gains was measured"))
        return Line((where, test.where), cells, "plain")

    size = signed(test.difference, digits)
    verdict = judge_interaction(test)
    assert verdict
    if test.test is None:
        cells = (stated, CellText(size), CellText.from_verdict(verdict))
        return Line((where, test.where), cells, "plain")

    interval = interval_text(test.test.low, test.test.high, digits)
    measured = CellText(size, extra=f"{interval}, {count_of(test.seeds, 'seed')}")
    cell = CellText.from_verdict(verdict, extra=p_value(test.test.p))
    return Line((where, test.where), (stated, measured, cell), "plain")


def _format_measured_difference(claim: ClaimTest, metric: Metric) -> tuple[CellText, CellText]:
    conclusion = claim.conclusion
    digits = metric.digits
    size = signed(conclusion.difference, digits)
    verdict = judge_claim(conclusion)
    if conclusion.interval is None:
        return CellText(size), CellText.from_verdict(verdict)

    seeds = count_of(min(conclusion.counts), "seed")
    interval = f"{interval_text(*conclusion.interval, digits)}, {seeds}"
    return CellText(size, extra=interval), CellText.from_verdict(verdict, extra=conclusion.words)
