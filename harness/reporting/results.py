"""Results of runs as a notebook uses them: a frame, tables and comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from harness.command_line import Names, TableFormat, parse_overrides
from harness.commands import Commands, explain_no_results
from harness.errors import UserError
from harness.metrics import Metrics
from harness.papers.needed import match_case
from harness.papers.published import PAPER_PROFILE, read_papers
from harness.profiles import load_profile
from harness.registry import suggest
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.lookup import compare_variants
from harness.reporting.seeds.summary import SummaryTable, make_summary_tables
from harness.reporting.seeds.tuned import TunedReport, add_tuned_rows, make_tuned_reports
from harness.reporting.tables.filled import fill_tables
from harness.reporting.tables.grids import (
    Grid,
    get_code,
    make_summary_grid,
    pick_columns,
    remove_seeds,
    remove_spread,
)
from harness.reporting.tables.paper_grids import make_paper_grid
from harness.reporting.tables.texts import FORMATS
from harness.spec import Variant, split
from harness.store import (
    Failure,
    Frames,
    Judge,
    Result,
    Store,
    describe_unscored_runs,
    frames_of,
    metrics_of,
)
from harness.store.tunings import Tuning, read_tunings
from harness.tomlfiles import check_call

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Results:
    """Finished runs in one folder, and failures. It has a length, and is iterated and indexed as
    a list of its runs is.

    `problems` has one line for each result file that cannot be read, and for each wrong input of a
    plan. `profile` is set if the runs are those of one profile only. Tables are computed once, and
    have the picks of `tunings`. `margin`, in points, is the largest difference that counts as equal
    or as reproduced; None takes the default of each.
    """

    store: Store
    runs: Sequence[Result]
    failures: Sequence[Failure] = ()
    problems: Sequence[str] = ()
    profile: str | None = None
    margin: float | None = None
    tunings: Sequence[Tuning] = ()

    @classmethod
    def read(cls, store: Store, profile: str | None = None, judge: Judge | None = None) -> Self:
        """The results of a store, or those of one profile, with their tunings; `judge` says which
        are present.
        """
        runs = frames = store.frames().judge_by(judge)
        failures = store.failures()
        tunings, problems = read_tunings(store)

        if profile:
            runs = frames.where(profile=[profile])
            failures = [failure for failure in failures if failure.profile == profile]
            tunings = [tuning for tuning in tunings if tuning.profile == profile]

        problems = [*frames.problems, *problems]
        return cls(store, runs, tuple(failures), tuple(problems), profile, tunings=tunings)

    def with_margin(self, margin: float | None) -> Self:
        """The same results with a margin in points, if one is given. Raises UserError unless it is
        positive.
        """
        if margin is not None and not 0 < margin < float("inf"):
            raise UserError(
                f"the margin {margin:g} is not a positive number of points; give one such as 0.5"
            )
        return self if margin is None else replace(self, margin=margin)

    @property
    def folder(self) -> Path:
        return self.store.root

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.runs)

    def __getitem__(self, place: int) -> Result:
        return self.runs[place]

    def __repr__(self) -> str:
        return f"<{len(self)} runs and {len(self.failures)} failures in {self.folder}>"

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per score; `harness.store.FRAME_COLUMNS` documents the columns."""
        frame = self.frames.flat()
        return frame.astype(dict.fromkeys(frame.select_dtypes(exclude="number").columns, str))

    @cached_property
    def frames(self) -> Frames:
        return frames_of(self.runs)

    @cached_property
    def commands(self) -> Commands:
        return Commands(self.folder)

    @cached_property
    def metrics(self) -> Metrics:
        return metrics_of(self.frames)

    @cached_property
    def unscored(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """One line for each run that lacks the scores of some tasks, by profile and suite."""
        return describe_unscored_runs(self.frames)

    @cached_property
    def tables(self) -> list[SummaryTable]:
        return make_summary_tables(self.frames, self.metrics, self.unscored, points=self.margin)

    @cached_property
    def tuned(self) -> list[TunedReport]:
        """The tunings that have been run."""
        return make_tuned_reports(self.tunings, self.runs, self.tables)

    @cached_property
    def profiles(self) -> list[str]:
        return sorted({*self.frames.texts("profile")})

    @cached_property
    def paper_grids(self) -> Mapping[str, Grid]:
        """The papers' tables by name ("mcse:T1") as the runs of its one profile fill them.

        Those of a profile with stand-ins are there if every row has a run.
        """
        return self._paper_grids()

    def _paper_grids(self, variants: Sequence[str] = ()) -> Mapping[str, Grid]:
        """The papers' tables, with only the rows of some variants where these are given."""
        profile = self.profile or PAPER_PROFILE
        grids = {}
        for table in fill_tables(profile, self.frames, self.commands, variants, self.margin):
            if variants:
                table = table.of(variants)
            if table.rows:
                grids[f"{table.paper.name}:{table.name}"] = make_paper_grid(table)
        return grids

    @cached_property
    def _by_profile(self) -> dict[str, Results]:
        return {}

    def of_profile(self, profile: str) -> Results:
        """The results of one profile."""
        if profile not in self._by_profile:
            runs = self.frames.where(profile=[profile])
            self._by_profile[profile] = replace(
                self, runs=runs, failures=(), problems=(), profile=profile
            )
        return self._by_profile[profile]

    @check_call
    def table(self, name: str, profile: str | None = None, rows: Names = ()) -> pandas.DataFrame:
        """A suite's summary ("sts") or a paper's table ("mcse:T1") as texts, as the report prints
        them.

        One row per line of the table: mean and sample standard deviation over seeds with stars for
        significance; the numbers themselves are in `.frame`. `profile` is needed if the folder has
        results of several. `rows` are the only variants to show, in this order
        ("mine,simcse,mcse"); a paper's table gets a row for one that it lacks.
        """
        results = self.of_profile(self._choose_profile(profile))
        return make_grid_frame(results.grid(name, rows, whole=True))

    @check_call
    def text(
        self,
        name: str,
        text_format: TableFormat = "markdown",
        profile: str | None = None,
        rows: Names = (),
        columns: Names = (),
        tasks: Names = (),
        digits: int | None = None,
        seeds: bool = True,
        std: bool = True,
    ) -> str:
        """The same tables as "markdown", "latex" (a float of a two-column paper, with booktabs) or
        "csv".

        `columns` are headings and `tasks` tasks, the only ones to show, in this order; `digits` are
        the decimals of a suite's table, `seeds` and `std` whether it has numbers of seeds and
        deviations. Raises UserError for a name that has no table under the profile, for an unknown
        row, column or task, and for a LaTeX table that no page holds.
        """
        grid = self.pick_grid(name, profile, rows, columns, tasks, digits, seeds, std)
        return FORMATS[text_format](grid)

    def pick_grid(
        self,
        name: str,
        profile: str | None = None,
        rows: Names = (),
        columns: Names = (),
        tasks: Names = (),
        digits: int | None = None,
        seeds: bool = True,
        std: bool = True,
    ) -> Grid:
        """The table that `text` formats. Raises its errors."""
        if digits is not None and digits < 0:
            raise UserError(f"a number of decimals is 0 or more, not {digits}")

        results = self.of_profile(self._choose_profile(profile))
        grid = results.grid(name, rows, digits=digits)
        for names in filter(None, map(_split_names, (tasks, columns))):
            grid = pick_columns(grid, names)
        if not seeds:
            grid = remove_seeds(grid)
        return grid if std else remove_spread(grid)

    def _choose_profile(self, name: str | None) -> str:
        """The name of a profile; without one, that of the only profile with results."""
        if name is not None:
            return load_profile(name).name
        self._check_runs()
        if len(self.profiles) != 1:
            raise UserError(
                f"{self.folder} has results of the profiles {', '.join(self.profiles)}; choose one (--profile NAME, "
                "in Python profile=NAME)"
            )
        return self.profiles[0]

    @check_call
    def compare(
        self,
        a: str,
        b: str,
        metric: str = "sts.Avg",
        *,
        profile: str | None = None,
        setting: str | None = None,
        encoder: str | None = None,
        set: str | Mapping[str, object] | Sequence[str] = (),  # noqa: A002
    ) -> Comparison:
        """Compare two variants, or two VARIANT/SETTING/ENCODER, in SUITE.TASK[.METRIC], with every
        test over seeds.

        The keyword arguments restrict the runs of both. `print(comparison.conclusion())` gives the
        result in one sentence. Raises UserError when no runs or several groups of runs match.
        """
        self._check_runs()
        return compare_variants(
            self.runs,
            a,
            b,
            metric,
            profile=load_profile(profile).name if profile else None,
            setting=setting,
            encoder=encoder,
            overrides=set if isinstance(set, Mapping) else parse_overrides(set),
            points=self.margin,
        )

    def grid(
        self, name: str, rows: Names = (), *, whole: bool = False, digits: int | None = None
    ) -> Grid:
        """A suite's summary ("sts") or a paper's table ("mcse:T1") of its one profile.

        `rows` are the only variants to show; `whole` keeps averages that repeat a suite's only
        task; `digits` are the most decimals. Raises UserError for a name that has no table, for a
        variant without a row, and for `digits` of a paper's table.
        """
        if ":" in name:
            return self._find_paper_grid(name, rows, digits)

        tables = {table.suite: table for table in self.tables}
        table = tables.get(match_case(name, tables))
        if table is None:
            self._refuse_unscored(name)
            self._list_variants(rows)
            raise self._explain_no_table(name, tables)

        table = add_tuned_rows(table, self.tuned)
        variants = self._list_variants(rows, table)
        note = self.commands.explain_untrained(table.profile, table.lacking)
        if digits is not None:
            table = table.with_digits(digits)
        if variants:
            table = table.of(variants)
        return make_summary_grid(table, whole=whole, note=note)

    def _find_paper_grid(self, name: str, rows: Names, digits: int | None) -> Grid:
        """A paper's table, with only the named rows where rows are named."""
        variants = self._list_variants(rows)
        grids = self._paper_grids(variants) if variants else self.paper_grids
        own_name = match_case(name, grids)
        if own_name not in grids:
            raise self._explain_no_table(
                name, [known for known, grid in grids.items() if not grid.empty]
            )
        if digits is not None:
            raise UserError(
                f"the table {own_name} has the decimals of the paper; leave --digits out"
            )
        return grids[own_name]

    def _refuse_unscored(self, suite: str) -> None:
        """Raise UserError for a suite in which runs have been evaluated but have no score."""
        lines: list[str] = []
        for (_, unscored_suite), lines_of_suite in self.unscored.items():
            if unscored_suite == suite:
                lines += lines_of_suite
        if lines:
            raise UserError(
                f"no run of profile '{self.profile}' has a score in '{suite}': {'; '.join(lines)}"
            )

    def _explain_no_table(self, name: str, known: Collection[str]) -> UserError:
        return UserError(
            f"no table '{name}' in the results of profile '{self.profile}'; {suggest(name, known)}"
        )

    def _list_variants(self, rows: Names, table: SummaryTable | None = None) -> list[str]:
        """The variants named as rows of a suite's table, or of a paper's. Raises UserError for one
        without a run.
        """
        variants = [str(Variant.parse(name)) for name in _split_names(rows)]
        if not variants:
            return []

        where = f"profile '{self.profile}'"
        if table:
            where += f" has a score in '{table.suite}'"
            known = {row.label.variant for row in table.rows}
        else:
            known = {*self.frames.texts("variant")}
            for paper in read_papers():
                for paper_table in paper.tables.values():
                    known.update(row.variant for row in paper_table.rows)

        for variant in variants:
            if variant not in known:
                raise UserError(
                    f"no run of '{variant}' in the results of {where}; "
                    f"{suggest(variant, sorted(known))}"
                )
        return variants

    def _check_runs(self) -> None:
        if not self.runs:
            raise explain_no_results(self.folder, self.problems)


def _split_names(names: Names) -> list[str]:
    listed = split(names) if isinstance(names, str) else names
    return [name.strip() for name in listed]


def make_grid_frame(grid: Grid) -> pandas.DataFrame:
    """A table as texts, one row a line."""
    import pandas

    rows = [
        [title, *map(get_code, line.heads), *map(str, line.cells)] for title, line in grid.lines
    ]
    return pandas.DataFrame(rows, columns=["section", *grid.heads, *grid.titles])
