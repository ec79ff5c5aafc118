"""Results of runs as a notebook uses them: a frame, tables and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.command_line import Names, TableFormat, parse_overrides
from harness.commands import Commands, no_results
from harness.errors import UserError
from harness.papers.needed import own_case
from harness.papers.published import read_papers
from harness.profiles import load_profile
from harness.registry import suggest
from harness.reporting.seeds.comparison import Comparison
from harness.reporting.seeds.lookup import compare_variants
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.tables.grids import Grid, code_of, summary_grid
from harness.reporting.tables.paper_grids import papers_grids
from harness.reporting.tables.texts import FORMATS
from harness.spec import Variant, split
from harness.store import Failure, Result, frames_of, metrics_of, unscored
from harness.tomlfiles import checked

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Results:
    """Finished runs in one folder, and failures. Its length is the number of runs.

    `problems` has one line for each result file that cannot be read, and for each wrong input of a plan.
    """

    folder: Path
    runs: Sequence[Result]
    failures: tuple[Failure, ...] = ()
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<{len(self)} runs and {len(self.failures)} failures in {self.folder}>"

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per score; `harness.store.FRAME_COLUMNS` documents the columns."""
        frame = frames_of(self.runs).flat()
        return frame.astype(dict.fromkeys(frame.select_dtypes(exclude="number").columns, str))

    @checked
    def table(self, name: str, profile: str | None = None, rows: Names = ()) -> pandas.DataFrame:
        """A suite's summary ("sts") or a paper's table ("mcse:T1") as texts, as the report prints them.

        One row per line of the table: mean and sample standard deviation over seeds with stars for significance; the
        numbers themselves are in `.frame`. `profile` is needed if the folder has results of several. `rows` are the
        only variants to show, in this order ("mine,simcse,mcse"); a paper's table gets a row for one that it lacks.
        """
        commands = Commands(self.folder)
        return frame_of_grid(named_grid(name, self._profile(profile), self.runs, commands, rows, whole=True))

    @checked
    def text(
        self, name: str, text_format: TableFormat = "markdown", profile: str | None = None, rows: Names = ()
    ) -> str:
        """The same tables as "markdown", "latex" (booktabs, with a caption) or "csv", ready for a paper.

        Raises UserError for a name that has no table under the profile.
        """
        return FORMATS[text_format](named_grid(name, self._profile(profile), self.runs, Commands(self.folder), rows))

    @checked
    def compare(
        self,
        a: str,
        b: str,
        metric: str = "sts.Avg",
        *,
        profile: str | None = None,
        setting: str | None = None,
        encoder: str | None = None,
        set: Mapping[str, object] | Sequence[str] = (),  # noqa: A002
    ) -> Comparison:
        """Compare two variants, or two VARIANT/SETTING/ENCODER, in SUITE.TASK[.METRIC], with every test over seeds.

        The keyword arguments restrict the runs of both. `print(comparison.conclusion())` gives the result in one
        sentence. Raises UserError when no runs or several groups of runs match.
        """
        self._check_runs()
        overrides = set if isinstance(set, Mapping) else parse_overrides(set)
        name = load_profile(profile).name if profile else None
        return compare_variants(
            self.runs, a, b, metric, profile=name, setting=setting, encoder=encoder, overrides=overrides
        )

    def _check_runs(self) -> None:
        if not self.runs:
            raise no_results(self.folder, self.problems)

    def _profile(self, asked: str | None) -> str:
        if asked is not None:
            return load_profile(asked).name
        self._check_runs()
        names = sorted({*frames_of(self.runs).texts("profile")})
        if len(names) != 1:
            raise UserError(
                f"{self.folder} has results of the profiles {', '.join(names)}; choose one (--profile NAME, in Python "
                "profile=NAME)"
            )
        return names[0]


def named_grid(
    name: str, profile: str, results: Sequence[Result], commands: Commands, rows: Names = (), *, whole: bool = False
) -> Grid:
    """Return a suite's summary ("sts") or a paper's table ("mcse:T1") of one profile's results.

    `rows` are the only variants to show; `whole` keeps averages that repeat a suite's only task. Raises UserError for a
    name that has no table under the profile, and for a variant without a row.
    """
    mine = frames_of(results).where(profile=[profile])
    variants = [str(Variant.parse(each.strip())) for each in (split(rows) if isinstance(rows, str) else rows) if each]
    papers = [row.variant for each in read_papers() for table in each.tables.values() for row in table.rows]
    there = {*mine.texts("variant"), *(papers if ":" in name else ())}
    for lacking in (each for each in variants if each not in there):
        raise UserError(
            f"no run of '{lacking}' in the results of profile '{profile}'; {suggest(lacking, sorted(there))}"
        )
    if ":" in name:
        grids = papers_grids(profile, results, commands, variants)
    else:
        lines = unscored(mine)
        tables = summary_tables(mine, metrics_of(mine), lines)
        tables = [table.of(variants) for table in tables] if variants else tables
        notes = {table.suite: commands.untrained(profile, table.lacking) for table in tables}
        grids = {table.suite: summary_grid(table, whole=whole, note=notes[table.suite]) for table in tables}
        if name not in grids and (profile, name) in lines:
            raise UserError(f"no run of profile '{profile}' has a score in '{name}': {'; '.join(lines[profile, name])}")
    own = own_case(name, grids)
    if own in grids:
        return grids[own]
    known = [table for table, grid in grids.items() if not grid.empty]
    raise UserError(f"no table '{name}' in the results of profile '{profile}'; {suggest(name, known)}")


def frame_of_grid(grid: Grid) -> pandas.DataFrame:
    """A table as texts, one row a line."""
    import pandas

    lines = [
        [section.title, *map(code_of, line.heads), *map(str, line.cells)]
        for section in grid.sections
        for line in section.lines
    ]
    return pandas.DataFrame(lines, columns=["section", *grid.heads, *grid.titles])
