"""The findings on the overview: who leads where, and what the tests say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from harness.reporting.charts.forest import forest_plot
from harness.reporting.charts.plot import Plot
from harness.reporting.sections.base import ReportSection
from harness.reporting.seeds.forest import Forest, lead_text, leading
from harness.reporting.seeds.headline import headline
from harness.reporting.seeds.words import Sentence

#: charts of the overview; the pages of profiles have the rest
MOST_LEADS = 12


class FindingsSection(ReportSection):
    """The pictures and sentences that the overview begins with."""

    place = 100
    title = "Findings"
    overview = "overview/findings.html"
    is_shown = True

    @cached_property
    def _leading(self) -> Sequence[Forest]:
        runs = Counter(result.profile for result in self.contents.results)
        return leading(self.contents.tables, runs)

    @cached_property
    def leads(self) -> Sequence[tuple[str, Plot]]:
        """Who leads in each setting and encoder, with a chart."""
        return [(lead_text(forest), forest_plot(forest)) for forest in self._leading[:MOST_LEADS]]

    @property
    def more_leads(self) -> int:
        """How many charts are left out."""
        return max(0, len(self._leading) - MOST_LEADS)

    @cached_property
    def tests(self) -> Sequence[Sentence]:
        """What the tests of the tables and the papers' tables say."""
        return headline(self.contents.tables, self.contents.filled)

    @property
    def sentences(self) -> Sequence[Sentence]:
        """Who leads, then what the tests say."""
        return [*(Sentence("", lead_text(forest), "lead") for forest in self._leading), *self.tests]
