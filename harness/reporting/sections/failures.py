"""Runs that failed, and runs with tasks without a score."""

from __future__ import annotations

from harness.reporting.sections.base import ReportSection


class FailuresSection(ReportSection):
    """What is in no table, on the overview."""

    place = 950
    title = "Failures"
    overview = "overview/failures.html"

    @property
    def is_shown(self) -> bool:
        """Whether anything failed or has no score."""
        return bool(self.contents.failures or self.contents.unscored)
