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
    from harness.method.facts import MethodFacts

#: the profile that a report shows last
TOY_PROFILE = "tiny"
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
        name = load_profile(profile).name if profile else None
        contents = cls.read(store, name, judge)
        if not contents.runs:
            raise explain_no_results(store.root, contents.frames.problems, name)
        return contents

    def arrays(self, result: Result) -> NamedArrays:
        """A result's arrays; empty if one of their files is damaged, which `found` then reports."""
        return self._read(self.store.arrays, result, {})

    def sentences(self, result: Result, evaluation: Evaluation, task: str) -> list[tuple[str, ...]]:
        """Both sentences of the pairs, or each caption, that an evaluation read; none where these
        are not at hand.
        """
        judge = self.frames.judge
        if not judge:
            return []
        return self._read(lambda task: judge.sentences(result.profile, evaluation, task), task, [])

    def log(self, result: Result) -> str:
        """A result's log; empty if it cannot be read, which `found` then reports."""
        return self._read(self.store.log, result, "")

    def _read(self, read: Callable[[S], T], source: S, otherwise: T) -> T:
        """What is read; `otherwise` and a line in `found` where a file is damaged."""
        try:
            return read(source)
        except UserError as error:
            problem = str(error)
            if problem not in self.found:
                self.found.append(problem)
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
        if seed is None:
            seed = row.seeds[0]
        if not row.frames or seed not in row.seeds:
            return None
        run = row.runs[row.seeds.index(seed)]
        return self._read(row.frames.result, run, None)

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
        names = [name for name in shipped_profiles() if name in self.profiles]
        profiles = [load_profile(name) for name in names if name != PAPER_PROFILE]
        return [profile for profile in profiles if profile.stands_for]

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
        forests: list[Forest] = []
        for table in self.tables:
            for column in table.averages:
                forests += make_forests(table, column, 1)
        return forests

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of results of each method."""
        return Counter(self.frames.texts("method"))

    @cached_property
    def runs_by_profile(self) -> Counter[str]:
        """The number of results of each profile."""
        return Counter(self.frames.texts("profile"))

    def rank_profile(self, profile: str) -> tuple[bool, bool, int, str]:
        """The sort key of a profile: the papers' first, then other real texts with most runs first,
        then the toy world.
        """
        runs = self.runs_by_profile[profile]
        return profile != PAPER_PROFILE, profile == TOY_PROFILE, -runs, profile
