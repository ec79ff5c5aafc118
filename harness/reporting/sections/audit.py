"""The audit of the printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby

from harness.papers.audit.findings import audit
from harness.papers.audit.numbers import Finding, tally
from harness.reporting.pages import Pages
from harness.reporting.sections.base import ReportSection


class AuditSection(ReportSection):
    """What the papers state, recomputed from their printed numbers."""

    place = 900
    title = "Audit of the printed numbers"
    menu = "Audit"
    overview = "overview/audit.html"
    home = "audit.html"
    is_shown = True

    @cached_property
    def findings(self) -> Mapping[str, Sequence[Finding]]:
        """The checked statements by paper."""
        found = groupby(audit(self.contents.published), key=lambda finding: finding.paper)
        return {paper: list(some) for paper, some in found}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The number of statements by paper and verdict."""
        return {paper: tally(some) for paper, some in self.findings.items()}

    def write(self, pages: Pages) -> None:
        """Write the page."""
        pages.write("audit.html", self.home, findings=self.findings)
