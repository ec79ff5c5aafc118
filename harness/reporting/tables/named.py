"""Tables by name, as a pandas frame of texts or as grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.errors import UserError
from harness.papers.published import read_papers, read_published
from harness.profiles import load_profile, shipped_profiles
from harness.registry import suggest
from harness.reporting.seeds.summary import summary_tables
from harness.reporting.tables.filled import paper_tables, stand_in_tables
from harness.reporting.tables.grids import Grid, summary_grid
from harness.reporting.tables.worded import paper_grid
from harness.store import Result, frame_of, metrics_of, of_profile

if TYPE_CHECKING:
    import pandas


def named_table(name: str, profile: str, results: Sequence[Result]) -> pandas.DataFrame:
    """Return a suite's summary ("sts") or a paper's table ("mcse:T1") of one profile's results, one row a line.

    Raises UserError for a name that has no table under the profile.
    """
    if ":" in name:
        grids = papers_grids(profile, results)
    else:
        mine = of_profile(results, profile)
        grids = {one.suite: summary_grid(one) for one in summary_tables(frame_of(mine), metrics_of(mine))}
    if name not in grids:
        raise UserError(f"the profile '{profile}' has no results for a table '{name}'; {suggest(name, list(grids))}")
    return _frame(grids[name])


def papers_grids(profile: str, results: Sequence[Result]) -> dict[str, Grid]:
    """Return the papers' tables by name ("mcse:T1") as one profile's results fill them.

    Those of a profile with stand-ins are there if every row has a run.
    """
    frame = frame_of(of_profile(results, profile))
    shipped = [load_profile(profile)] if profile in shipped_profiles() else []
    papers = read_papers()
    filled = [*paper_tables(papers, read_published(), frame), *stand_in_tables(papers, frame, shipped)]
    return {f"{one.paper.name}:{one.name}": paper_grid(one) for one in filled if one.profile == profile}


def _frame(grid: Grid) -> pandas.DataFrame:
    import pandas

    lines = [[section.title, *line.heads, *map(str, line.cells)] for section in grid.sections for line in section.lines]
    return pandas.DataFrame(lines, columns=["section", *grid.heads, *grid.columns])
