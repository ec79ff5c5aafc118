"""The audit of the papers' printed numbers, as reports/audit.csv has it.

`tools/audit_papers.py` computes it from reports/published.csv and reports/claims.csv, which change
when a paper's numbers are transcribed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.datarows import read_rows
from harness.metrics import AuditVerdict
from harness.papers.published import REPORTS

COLUMNS = (
    "paper",
    "where",
    "claim",
    "claimed",
    "check",
    "checked",
    "failed",
    "within",
    "exceptions",
)
#: between exceptions in their column
SEPARATOR = " | "
#: the word for a statement that its paper does not make
NOT_CLAIMED = "not claimed"


@dataclass(frozen=True)
class Finding:
    """The result of a check of one statement.

    `checked` items were compared; `failed` contradict the statement surely, and `within` more as
    printed, but not for all values that round to the printed digits. `exceptions` describes both.
    `claimed` is true for a statement that the paper makes, or implies by what it prints.
    """

    paper: str
    where: str
    claim: str
    claimed: bool
    check: str
    checked: int
    failed: int
    within: int
    exceptions: tuple[str, ...]

    @property
    def verdict(self) -> AuditVerdict:
        return find_verdict(self.failed, self.within)

    @property
    def word(self) -> str:
        return str(self.verdict) if self.claimed else f"{NOT_CLAIMED}, {self.verdict}"


def find_verdict(failed: int, within: int) -> AuditVerdict:
    """The verdict on a statement that some items contradict surely, or within rounding."""
    if failed:
        return AuditVerdict.FAILS
    return AuditVerdict.ROUNDING if within else AuditVerdict.HOLDS


def read_findings(path: Path = REPORTS / "audit.csv") -> list[Finding]:
    """Read the findings, by paper. Raises UserError naming the file and the line."""
    return [_read_finding(row) for _, row in read_rows(path, *COLUMNS)]


def _read_finding(row: Sequence[str]) -> Finding:
    values = dict(zip(COLUMNS, row, strict=True))
    exceptions = values["exceptions"]
    return Finding(
        paper=values["paper"],
        where=values["where"],
        claim=values["claim"],
        claimed=values["claimed"] == "yes",
        check=values["check"],
        checked=int(values["checked"]),
        failed=int(values["failed"]),
        within=int(values["within"]),
        exceptions=tuple(exceptions.split(SEPARATOR)) if exceptions else (),
    )


def count_verdicts(findings: Iterable[Finding]) -> dict[str, int]:
    """Count the claims by verdict, and apart from them the statements that no paper claims."""
    counts = Counter(
        str(finding.verdict) if finding.claimed else NOT_CLAIMED for finding in findings
    )
    return {name: counts[name] for name in (*map(str, AuditVerdict), NOT_CLAIMED)}
