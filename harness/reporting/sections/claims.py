"""The papers' ablation claims with the verdicts of this store's own runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from harness.formatting import count_of, interval_text, signed
from harness.method.naming import name_of
from harness.metrics import ClaimVerdict, Metric, Significance
from harness.papers.published import (
    ABLATION_SCORE,
    Ablation,
    PublishedNumbers,
    printed_difference,
    read_ablations,
)
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.seeds.caveats import Weakness, weakness_notes
from harness.reporting.seeds.cells import Label, Row, difference, trained_apart
from harness.reporting.seeds.controls import controls_of, powerless, rival_text, rivals
from harness.reporting.seeds.summary import ClaimTest, SummaryTable, claim_tests, margin_words
from harness.reporting.seeds.wording import certainty, judged
from harness.reporting.tables.grids import ABSENT, CellText, Grid, Line, Section
from harness.stats import ALPHA


class ClaimsSection(ReportSection):
    """The papers' ablation claims, tested with the runs."""

    order = 500
    title = "Ablations"

    @cached_property
    def parts(self) -> Sequence[Part]:
        """One table, if both variants of a claim were run."""
        grid = claims_grid(read_ablations(), self.contents.tables, self.contents.published)
        return [Part("", "", [grid])] if grid else []


VERDICTS = {
    Significance.BETTER: ClaimVerdict.HOLDS,
    Significance.WORSE: ClaimVerdict.OPPOSITE,
    Significance.EQUAL: ClaimVerdict.EQUAL,
    Significance.NONE: ClaimVerdict.UNSEEN,
}


def claims_grid(
    claims: Sequence[Ablation], tables: Sequence[SummaryTable], published: PublishedNumbers
) -> Grid | None:
    """Tabulate the claims whose two variants were both run, setting by setting; None if there are
    none.
    """
    column, sections, weak = ABLATION_SCORE.column, [], list[Weakness]()
    for table in tables:
        if table.suite != ABLATION_SCORE.suite or column not in table.columns:
            continue
        metric = table.metric(column)
        for block in table.blocks:
            tests, rows = (
                list(claim_tests(claims, block, metric)),
                {row.label: row for row in table.rows},
            )
            weak += [row.weakness([column]) for test in tests for row in (test.better, test.worse)]
            if tests:
                lines = tuple(_line(test, metric, published, rows) for test in tests)
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
        tuple(weakness_notes(weak)),
        legend=(
            "Differences in the STS average, Spearman x 100; printed ones are means over encoders and settings.",
            f"A claim holds if the difference is above zero with p < {ALPHA} (two-sided t-test after Holm's correction "
            "over the claims of a table, paired by seed where two rows share their batches, else independent with "
            "equal variances); alone: only before the correction. Equal: the 90 % interval is within "
            f"{margin_words(tables[0].blocks[0].points)}.",
            "Confounded: the difference is significant, but the better variant is not significantly better than one of "
            "its controls (its text teacher alone, unmatched images, text alone) that the other does not share.",
        ),
    )


def _line(
    test: ClaimTest, metric: Metric, published: PublishedNumbers, rows: Mapping[Label, Row]
) -> Line:
    claim, printed, worse = test.claim, printed_difference(test.claim, published), test.worse
    apart = trained_apart(test.better.training, worse.training)
    where = f"{claim.text} ({claim.paper} {', '.join(claim.tables)})" + (
        f"; here {apart}" if apart else ""
    )
    where += f"; {shown}" if (shown := powerless(test.better, worse)) else ""
    stated = CellText(ABSENT if printed is None else signed(printed, metric.digits))
    cells = stated, *_measured(test, metric, rows)
    return Line((where, name_of(claim.better), name_of(claim.worse)), cells, "plain")


def _measured(
    claim: ClaimTest, metric: Metric, rows: Mapping[Label, Row]
) -> tuple[CellText, CellText]:
    cell, worse, digits = claim.cell, claim.worse.cells[ABLATION_SCORE.column], metric.digits
    test, size = cell.test, signed(difference(cell, worse), digits)
    if test is None:
        return CellText(size), CellText.judged(ClaimVerdict.TOO_FEW)
    seeds = count_of(min(cell.summary.n, worse.summary.n), "seed")
    interval = f"{interval_text(test.low, test.high, digits)}, {seeds}"
    verdict = ClaimVerdict.ALONE if cell.is_alone else VERDICTS[cell.verdict or Significance.NONE]
    said = certainty(cell) if cell.holds else judged(cell, digits).removeprefix(f"{verdict}, ")
    if verdict is ClaimVerdict.HOLDS:  # what both sides lack explains no difference between them
        some = rivals(
            claim.better, rows, ABLATION_SCORE.column, metric, [*controls_of(claim.worse)]
        )
        for rival in (rival for rival in some[:1] if rival.confounds):
            verdict, said = ClaimVerdict.CONFOUNDED, rival_text(rival, claim.better, metric)
    return CellText(size, extra=interval), CellText.judged(verdict, extra=said)
