"""The audit: what the printed numbers of the papers say of each other and of the papers' claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.papers.audit.claims import Claim, check_claims, read_claims
from harness.papers.audit.numbers import Finding, printed_numbers
from harness.papers.audit.tables import averages, quotes, stars
from harness.papers.published import Published, PublishedKey

__all__ = ["Finding", "audit"]


def audit(published: Mapping[PublishedKey, Published], claims: Sequence[Claim] | None = None) -> list[Finding]:
    """What can be recomputed from published numbers, paper by paper in their order; claims by default the shipped.

    Every table's averages, stars and quotes, then the claims. Raises UserError for a claim that names no number.
    """
    cells = printed_numbers(published)
    found = [*averages(cells), *stars(cells), *quotes(cells)]
    found += check_claims(read_claims() if claims is None else claims, cells)
    order = {paper: index for index, paper in enumerate(dict.fromkeys(cell.key.paper for cell in cells))}
    return sorted(found, key=lambda finding: order.get(finding.paper, len(order)))
