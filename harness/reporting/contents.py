"""The contents of a report: results and failures of a store, and what is computed from them once for all files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from harness.command_line import DEFAULT_MARGIN
from harness.commands import Commands, no_results
from harness.errors import UserError
from harness.metrics import Metrics
from harness.papers.published import Paper, PublishedNumbers, read_papers, read_published
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.seeds.summary import SummaryTable, summary_tables
from harness.reporting.tables.cells import FilledTable
from harness.reporting.tables.filled import paper_tables
from harness.store import (
    Failure,
    Frames,
    Judge,
    Result,
    Store,
    earlier_backends,
    frames_of,
    metrics_of,
    unscored,
)
from harness.store.files import NamedArrays
from harness.store.tunings import Tuning, read_tunings

if TYPE_CHECKING:
    from harness.reporting.methods import MethodFacts

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Contents:
    """What a report shows. `profile` is set if `results` and `failures` are those of one profile only.

    `warnings` name the files of results and tunings that cannot be read; `problems` gets a line for each log or
    file of arrays that turns out to be damaged, and for each section of another package that fails. `margin` is the
    largest difference from print, in points, that counts as reproduced.
    """

    store: Store
    results: Sequence[Result]
    failures: Sequence[Failure] = ()
    methods: Sequence[MethodFacts] = ()
    profile: str | None = None
    warnings: Sequence[str] = ()
    tunings: Sequence[Tuning] = ()
    margin: float = DEFAULT_MARGIN
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, profile: str | None = None, judge: Judge | None = None) -> Contents:
        """The contents of a store, or those of one profile, given by name or file. Raises UserError without results."""
        name = load_profile(profile).name if profile else None
        every = store.frames().judged(judge)
        results = every.where(profile=[name]) if name else every
        if not results:
            raise no_results(store.root, every.problems, name)
        failures = [failure for failure in store.failures() if name in (None, failure.profile)]
        tunings, problems = read_tunings(store)
        mine = [tuning for tuning in tunings if name in (None, tuning.profile)]
        warnings = (*every.problems, *problems)
        return cls(store, results, failures, profile=name, warnings=warnings, tunings=mine)

    def arrays(self, result: Result) -> NamedArrays:
        """A result's arrays; empty if one of their files is damaged, which `problems` then reports."""
        return self._read(self.store.arrays, result, {})

    def log(self, result: Result) -> str:
        """A result's log; empty if it cannot be read, which `problems` then reports."""
        return self._read(self.store.log, result, "")

    def _read(self, read: Callable[[S], T], of: S, otherwise: T) -> T:
        try:
            return read(of)
        except UserError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
            return otherwise

    def result(self, row: int, frames: Frames | None = None) -> Result | None:
        """The result of a row of `frames`, by default of all; None if its file is damaged, which `problems` reports."""
        return self._read((frames or self.frames).result, row, None)

    @cached_property
    def frames(self) -> Frames:
        return frames_of(self.results)

    @cached_property
    def commands(self) -> Commands:
        return Commands(self.store.root)

    @cached_property
    def metrics(self) -> Metrics:
        return metrics_of(self.frames)

    @cached_property
    def unscored(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """One line for each run that lacks the scores of some tasks, by profile and suite."""
        return unscored(self.frames)

    @cached_property
    def tables(self) -> list[SummaryTable]:
        return summary_tables(self.frames, self.metrics, self.unscored)

    @cached_property
    def papers(self) -> Sequence[Paper]:
        """The papers whose tables are compared. Raises UserError if a file below reports/ is wrong."""
        return read_papers()

    @cached_property
    def published(self) -> PublishedNumbers:
        return read_published()

    @cached_property
    def stand_in_profiles(self) -> Sequence[Profile]:
        return [load_profile(name) for name in shipped_profiles() if name in self.profiles]

    @cached_property
    def filled(self) -> Sequence[FilledTable]:
        return paper_tables(self.papers, self.published, self.frames, self.margin, self.commands)

    @property
    def earlier(self) -> str:
        """One line on results of earlier backends; empty where there are none."""
        return earlier_backends(self.frames)

    @cached_property
    def profiles(self) -> list[str]:
        return sorted({*self.frames.texts("profile")})

    @cached_property
    def variants(self) -> Mapping[str, Counter[str]]:
        """The number of results of each variant, by method."""
        counts: dict[str, Counter[str]] = {}
        for method, variant in zip(*map(self.frames.texts, ("method", "variant")), strict=True):
            counts.setdefault(method, Counter())[variant] += 1
        return counts

    def teacher_options(self, method: str) -> Collection[str]:
        """Names of a method's options that name teachers; empty for a method that is not installed."""
        return next((facts.teacher_options for facts in self.methods if facts.name == method), ())
