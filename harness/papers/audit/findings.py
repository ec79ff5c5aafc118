"""The audit: the papers' printed numbers checked against each other and against the papers' claims."""

from __future__ import annotations

from collections.abc import Sequence

from harness.papers.audit.claims import Claim, check_claims, read_claims
from harness.papers.audit.numbers import Finding, printed_numbers
from harness.papers.audit.tables import averages, quotes, stars
from harness.papers.published import Paper, PublishedNumbers, read_papers

__all__ = ["Finding", "audit"]


def audit(
    published: PublishedNumbers, claims: Sequence[Claim] | None = None, papers: Sequence[Paper] | None = None
) -> list[Finding]:
    """Recompute what the published numbers allow, sorted by paper; claims and papers by default those shipped.

    Checks the averages, stars and quotes of every table, then the claims. Raises UserError for a claim that matches
    no number.
    """
    cells = printed_numbers(published, read_papers() if papers is None else papers)
    found = [*averages(cells), *stars(cells), *quotes(cells)]
    found += check_claims(read_claims() if claims is None else claims, cells)
    order = {paper: index for index, paper in enumerate(dict.fromkeys(cell.key.paper for cell in cells))}
    return sorted(found, key=lambda finding: order.get(finding.paper, len(order)))
