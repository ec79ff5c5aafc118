"""The page with the audit of the papers' printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby

from harness.papers.audit import Finding, count_verdicts, read_findings
from harness.reporting.pages import Pages
from harness.reporting.sections.base import ReportSection


class AuditSection(ReportSection):
    """What the papers state, recomputed from their printed numbers."""

    order = 900
    title = "Audit of the printed numbers"
    menu = "Audit"
    overview = "overview/audit.html"
    home = "audit.html"
    is_shown = True

    @cached_property
    def findings(self) -> Mapping[str, Sequence[Finding]]:
        by_paper = groupby(read_findings(), key=lambda finding: finding.paper)
        return {paper: list(findings) for paper, findings in by_paper}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return {paper: count_verdicts(findings) for paper, findings in self.findings.items()}

    def write(self, pages: Pages) -> None:
        pages.write("audit.html", self.home, findings=self.findings)
