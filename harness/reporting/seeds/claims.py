"""The papers' ablation claims, tested with the runs of one setting and encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from harness.metrics import Metric
from harness.papers.published import ABLATION_SCORE, Ablation
from harness.reporting.seeds.cells import Cell, Row, compared
from harness.reporting.seeds.summary import Block


class ClaimTest(NamedTuple):
    """A claim with the rows that it is about and the test of the better one, corrected over the claims of its table."""

    claim: Ablation
    better: Row
    worse: Row
    cell: Cell


def claim_tests(claims: Sequence[Ablation], block: Block, metric: Metric) -> Iterator[ClaimTest]:
    """Test the claims whose two variants have runs in a setting and encoder. The claims of a table are a family."""
    column = ABLATION_SCORE.column
    rows = {row.label.variant: row for row in block.rows if not row.label.overrides and column in row.cells}
    for _, of_table in groupby(claims, key=lambda claim: (claim.paper, claim.tables)):
        there = [claim for claim in of_table if {claim.better, claim.worse} <= {*rows}]
        pairs = [(rows[claim.better], rows[claim.worse]) for claim in there]
        tests = compared(pairs, column, metric, block.points, one=True)
        yield from (ClaimTest(claim, *test) for claim, test in zip(there, tests, strict=True))
