"""Tables on a terminal, or without colour in a file, drawn by rich."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.output import echo
from harness.plaintext import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from harness.reporting.tables.grids import Grid
    from harness.store import Result
    from harness.store.tunings import Tuning


def console() -> Console:
    """Return standard output, with long lines where it is not a terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=200, color_system=None, force_terminal=False)


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts; markup in a cell is printed as it is."""
    from rich import box
    from rich.table import Table

    table = Table(*head, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*map(_text, row))
    console().print(table)


def _text(cell: object) -> Text:
    """A cell without markup and control characters."""
    from rich.text import Text

    return Text(visible(str(cell)))


def show_summaries(results: Sequence[Result]) -> None:
    """Print the summary table of each suite: mean and deviation over seeds, marks for significance."""
    from harness.reporting.seeds.summary import summary_tables
    from harness.reporting.tables.grids import summary_grid
    from harness.store import frame_of, metrics_of

    for summary in summary_tables(frame_of(results), metrics_of(results)):
        _show(summary_grid(summary), "setting / encoder")


def show_tuning(tuning: Tuning, results: Sequence[Result]) -> None:
    """Print the tables of a tuning: expected best dev scores, test scores and what each seed picked."""
    from harness.reporting.seeds.summary import summary_tables
    from harness.reporting.seeds.tuned import tuned_reports
    from harness.reporting.tables.tuned import tuned_grids
    from harness.store import frame_of, metrics_of

    for report in tuned_reports([tuning], results, summary_tables(frame_of(results), metrics_of(results))):
        for grid in tuned_grids(report):
            _show(grid, "setting / encoder")


def show_paper_tables(names: Iterable[str], profile: str, results: Sequence[Result]) -> None:
    """Print those of the papers' tables (mcse:T1) that the results fill, all readings of a row one below the other."""
    from harness.reporting.tables.named import papers_grids

    grids = papers_grids(profile, results)
    for name in names:
        if name in grids and not grids[name].empty:
            _show(grids[name], "encoder")


def _show(grid: Grid, sections: str) -> None:
    """Print a table and its notes; `sections` names what its sections are."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title, table.title_justify = _text(grid.title), "left"
    for head in (sections, *grid.heads):
        table.add_column(_text(head))
    for column in grid.columns:
        table.add_column(_text(column), justify="right")
    for section in grid.sections:
        for line in section.lines:
            names = (section.title, *line.heads[:-1]) if line.span else [""] * len(line.heads)
            table.add_row(*map(_text, (*names, line.heads[-1], *line.cells)))
    console().print(table)
    for note in grid.notes:
        echo(f"  {note}")
