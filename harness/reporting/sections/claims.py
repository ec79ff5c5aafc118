"""The papers' ablation claims with the verdicts of this store's own runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby

from harness.formatting import count_of, fixed, signed
from harness.method.naming import name_of
from harness.metrics import Metric
from harness.papers.ablations import ABLATION_SCORE, Ablation, printed_difference, read_ablations
from harness.papers.published import PublishedNumbers
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.families import FamilyTest, corrected
from harness.reporting.seeds.groups import Cell, compare, trained_apart
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.words import certainty, judged
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import ALPHA
from harness.verdicts import ClaimVerdict, Significance


class ClaimsSection(ReportSection):
    """The papers' ablation claims, tested with the runs."""

    place = 500
    title = "Ablations"

    @cached_property
    def parts(self) -> Sequence[Part]:
        """One table, if both variants of a claim were run."""
        grid = claims_grid(read_ablations(), self.contents.tables, self.contents.published)
        return [Part("", "", [grid])] if grid else []


VERDICTS = {
    Significance.BETTER: ClaimVerdict.HOLDS,
    Significance.WORSE: ClaimVerdict.OPPOSITE,
    Significance.NONE: ClaimVerdict.UNSEEN,
    None: ClaimVerdict.TOO_FEW,
}


def claims_grid(claims: Sequence[Ablation], tables: Sequence[SummaryTable], published: PublishedNumbers) -> Grid | None:
    """Tabulate the claims whose two variants were both run, setting by setting; None if there are none."""
    sections = [
        Section(f"profile {table.profile}: {block.setting} / {block.encoder}", lines)
        for table in tables
        if table.suite == ABLATION_SCORE.suite and ABLATION_SCORE.column in table.columns
        for block in table.blocks
        if (lines := tuple(_lines(claims, block, table.metric(ABLATION_SCORE.column), published)))
    ]
    if not sections:
        return None
    return Grid(
        "ablations",
        "Ablation claims of the papers, tested with these runs",
        ("claim", "better", "than"),
        ("printed difference", "measured difference", "verdict"),
        (False, False, False),
        tuple(sections),
        (),
        legend=(
            "Differences in the STS average, Spearman x 100; printed ones are means over encoders and settings.",
            f"A claim holds if the difference is above zero with p < {ALPHA} (independent two-sample t-test, "
            "two-sided, equal variances, after Holm's correction over the claims of a table); alone: only before it.",
        ),
    )


def _lines(claims: Sequence[Ablation], block: Block, metric: Metric, published: PublishedNumbers) -> Iterator[Line]:
    column = ABLATION_SCORE.column
    rows = {row.label.variant: row for row in block.rows if not row.label.overrides and column in row.cells}
    for _, some in groupby(claims, key=lambda claim: (claim.paper, claim.tables)):
        pairs = [
            (claim, rows[claim.better], rows[claim.worse]) for claim in some if {claim.better, claim.worse} <= {*rows}
        ]
        tests = [
            FamilyTest(compare(better.cells[column], worse.cells[column], metric), (better.data, worse.data))
            for _, better, worse in pairs
        ]
        for (claim, better, worse), cell in zip(pairs, corrected(tests), strict=True):
            printed = printed_difference(claim, published)
            first = CellText(ABSENT if printed is None else signed(printed, metric.digits))
            apart = trained_apart(better.training, worse.training)
            where = f"{claim.text} ({claim.paper} {', '.join(claim.tables)})" + (f"; here {apart}" if apart else "")
            measured = _measured(cell, worse.cells[column], metric)
            yield Line((where, name_of(claim.better), name_of(claim.worse)), (first, *measured), "plain")


def _measured(cell: Cell, worse: Cell, metric: Metric) -> tuple[CellText, CellText]:
    """The difference with its interval, and the verdict."""
    test, difference = cell.test, signed(cell.summary.mean - worse.summary.mean, metric.digits)
    if test is None:
        return CellText(difference), CellText.judged(ClaimVerdict.TOO_FEW)
    seeds = count_of(min(cell.summary.n, worse.summary.n), "seed")
    interval = f"{fixed(test.low, metric.digits)} to {fixed(test.high, metric.digits)}, {seeds}"
    if cell.is_alone:
        return CellText(difference, extra=interval), CellText.judged(ClaimVerdict.ALONE, extra=judged(cell))
    return CellText(difference, extra=interval), CellText.judged(VERDICTS[cell.verdict], extra=certainty(cell))
