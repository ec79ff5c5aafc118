"""The contents of a report: results and failures of a store, and what is computed from them once for all files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from harness.metrics import Metrics
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.store import Failure, Result, Store, frame_of, metrics_of

if TYPE_CHECKING:
    import pandas

    from harness.reporting.site.methods import MethodFacts


@dataclass(frozen=True)
class Contents:
    """What a report shows. `profile` is set if `results` and `failures` are those of one profile only."""

    store: Store
    results: Sequence[Result]
    failures: Sequence[Failure] = ()
    methods: Sequence[MethodFacts] = ()
    profile: str | None = None

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row for each score."""
        return frame_of(self.results)

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics that the evaluations of the results declare."""
        return metrics_of(self.results)

    @cached_property
    def tables(self) -> list[SummaryTable]:
        """One table for each profile and suite."""
        return summary_tables(self.frame, self.metrics)

    @cached_property
    def profiles(self) -> list[str]:
        """Names of the profiles that have results."""
        return sorted({result.profile for result in self.results})

    def teacher_options(self, method: str) -> Collection[str]:
        """Names of a method's options that name teachers; empty for a method that is not installed."""
        return next((facts.teacher_options for facts in self.methods if facts.name == method), ())
