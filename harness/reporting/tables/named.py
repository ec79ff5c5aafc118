"""Tables by name, as a pandas frame of texts or as grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.command_line import TABLE_FORMATS
from harness.commands import DEFAULT_COMMANDS, Commands
from harness.errors import UserError
from harness.papers.needed import own_case
from harness.papers.published import read_papers, read_published
from harness.profiles import load_profile, shipped_profiles
from harness.registry import suggest
from harness.reporting.files.csv import table_csv
from harness.reporting.files.latex import table as latex_table
from harness.reporting.files.markdown import table as markdown_table
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.tables.cells import FilledTable
from harness.reporting.tables.filled import paper_tables, stand_in_tables
from harness.reporting.tables.grids import Grid, code_of, summary_grid
from harness.reporting.tables.worded import paper_grid
from harness.store import Result, frame_of, metrics_of, of_profile, unscored

if TYPE_CHECKING:
    import pandas

#: name -> a table in that format
FORMATS: Mapping[str, Callable[[Grid], str]] = dict(
    zip(TABLE_FORMATS, (markdown_table, latex_table, table_csv), strict=True)
)


def named_grid(name: str, profile: str, results: Sequence[Result], commands: Commands, *, whole: bool = False) -> Grid:
    """Return a suite's summary ("sts") or a paper's table ("mcse:T1") of one profile's results.

    `whole` keeps averages that repeat a suite's only task. Raises UserError for a name that has no table under the
    profile.
    """
    if ":" in name:
        grids = papers_grids(profile, results, commands)
    else:
        mine = of_profile(results, profile)
        lines = unscored(mine)
        tables = summary_tables(frame_of(mine, ()), metrics_of(mine), lines)
        notes = {one.suite: commands.untrained(profile, one.lacking) for one in tables}
        grids = {one.suite: summary_grid(one, whole=whole, note=notes[one.suite]) for one in tables}
        if name not in grids and (profile, name) in lines:
            raise UserError(f"no run of profile '{profile}' has a score in '{name}': {'; '.join(lines[profile, name])}")
    found = own_case(name, grids)
    if found in grids:
        return grids[found]
    known = [table for table, grid in grids.items() if not grid.empty]
    raise UserError(f"no table '{name}' in the results of profile '{profile}'; {suggest(name, known)}")


def papers_grids(profile: str, results: Sequence[Result], commands: Commands = DEFAULT_COMMANDS) -> dict[str, Grid]:
    """Return the papers' tables by name ("mcse:T1") as one profile's results fill them.

    Those of a profile with stand-ins are there if every row has a run.
    """
    return {f"{one.paper.name}:{one.name}": paper_grid(one) for one in filled_tables(profile, results, commands)}


def filled_tables(profile: str, results: Sequence[Result], commands: Commands = DEFAULT_COMMANDS) -> list[FilledTable]:
    """Fill the papers' tables by one profile's results."""
    frame, papers = frame_of(of_profile(results, profile)), read_papers()
    shipped = [load_profile(profile)] if profile in shipped_profiles() else []
    filled = [
        *paper_tables(papers, read_published(), frame, commands=commands),
        *stand_in_tables(papers, frame, shipped, commands=commands),
    ]
    return [table for table in filled if table.profile == profile]


def frame_of_grid(grid: Grid) -> pandas.DataFrame:
    """A table as texts, one row a line."""
    import pandas

    lines = [
        [section.title, *map(code_of, line.heads), *map(str, line.cells)]
        for section in grid.sections
        for line in section.lines
    ]
    return pandas.DataFrame(lines, columns=["section", *grid.heads, *grid.titles])
