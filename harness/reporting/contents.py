"""The contents of a report: results and failures of a store, and what is computed from them once
for all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from harness.commands import explain_no_results
from harness.errors import UserError
from harness.papers.published import (
    PAPER_PROFILE,
    Paper,
    PublishedNumbers,
    read_papers,
    read_published,
)
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.reporting.results import Results
from harness.reporting.seeds.cells import Row
from harness.reporting.seeds.gains import Forest, make_forests
from harness.reporting.tables.cells import FilledTable
from harness.reporting.tables.filled import fill_paper_tables
from harness.store import Evaluation, Judge, Result, Store
from harness.store.files import NamedArrays

if TYPE_CHECKING:
    from harness.reporting.methods import MethodFacts

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Contents(Results):
    """What a report shows: results and failures, or those of one profile only.

    `problems` name the files of results and tunings that cannot be read; `found` gets a line for
    each log or file of arrays that turns out to be damaged, and for each section of another package
    that fails.
    """

    methods: Sequence[MethodFacts] = ()
    found: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, profile: str | None = None, judge: Judge | None = None) -> Contents:
        """The contents of a store, or those of one profile, given by name or file. Raises UserError
        without results.
        """
        made = cls.read(store, load_profile(profile).name if profile else None, judge)
        if not made.runs:
            raise explain_no_results(store.root, made.frames.problems, made.profile)
        return made

    def arrays(self, result: Result) -> NamedArrays:
        """A result's arrays; empty if one of their files is damaged, which `found` then reports."""
        return self._read(self.store.arrays, result, {})

    def sentences(self, result: Result, evaluation: Evaluation, task: str) -> list[tuple[str, ...]]:
        """Both sentences of the pairs, or each caption, that an evaluation read; none where these
        are not at hand.
        """
        judge = self.frames.judge
        return (
            self._read(lambda task: judge.sentences(result.profile, evaluation, task), task, [])
            if judge
            else []
        )

    def log(self, result: Result) -> str:
        """A result's log; empty if it cannot be read, which `found` then reports."""
        return self._read(self.store.log, result, "")

    def _read(self, read: Callable[[S], T], of: S, otherwise: T) -> T:
        try:
            return read(of)
        except UserError as error:
            if str(error) not in self.found:
                self.found.append(str(error))
            return otherwise

    def result(self, run: int) -> Result | None:
        """The result of a row of the frame of runs; None if its file is damaged, which `found` then
        reports.
        """
        return self._read(self.frames.result, run, None)

    def result_of(self, row: Row, seed: int | None = None) -> Result | None:
        """The result of one seed of a row, by default of the lowest; None without it or if its file
        is damaged.
        """
        runs = dict(zip(row.seeds, row.runs, strict=True))
        run = runs.get(row.seeds[0] if seed is None else seed)
        return self._read(row.frames.result, run, None) if row.frames and run is not None else None

    @cached_property
    def papers(self) -> Sequence[Paper]:
        """The papers whose tables are compared. Raises UserError if a file below reports/ is wrong."""
        return read_papers()

    @cached_property
    def published(self) -> PublishedNumbers:
        return read_published()

    @cached_property
    def stand_in_profiles(self) -> Sequence[Profile]:
        """The profiles of this package with runs and stand-ins for the papers' names."""
        every = (load_profile(name) for name in shipped_profiles() if name in self.profiles)
        return [
            profile for profile in every if profile.stands_for and profile.name != PAPER_PROFILE
        ]

    @cached_property
    def filled(self) -> Sequence[FilledTable]:
        return fill_paper_tables(
            load_profile(PAPER_PROFILE), self.papers, self.frames, self.commands, margin=self.margin
        )

    @cached_property
    def forests(self) -> Sequence[Forest]:
        """The rows of each setting and encoder against their baseline, in each average of each
        table.
        """
        return [
            forest
            for table in self.tables
            for column in table.averages
            for forest in make_forests(table, column, 1)
        ]

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of results of each method."""
        return Counter(self.frames.texts("method"))
