"""Tables on a terminal or in a file: rich draws them, without colour where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pandas
    from rich.console import Console


def console() -> Console:
    """Standard output; lines are as wide as they need where it is no terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=200, color_system=None, force_terminal=False)


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts; nothing in a cell is taken for markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*head, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console().print(table)


def show_summaries(frame: pandas.DataFrame) -> None:
    """Print the summary table of each suite: mean and deviation over seeds, stars for significance."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from harness.reporting.formats import cell_text
    from harness.reporting.seeds.summary import summary_tables

    for summary in summary_tables(frame):
        table = Table("setting", "encoder", "method", "seeds", box=box.SIMPLE_HEAD, pad_edge=False)
        table.title, table.title_justify = f"{summary.profile}: {summary.suite}", "left"
        for column in summary.columns:
            table.add_column(summary.title(column), justify="right")
        for row in summary.rows:
            names = (row.label.setting, row.label.encoder, str(row.label), str(len(row.seeds)))
            cells = (cell_text(row.cells.get(column), column, len(row.seeds)) for column in summary.columns)
            table.add_row(*(Text(str(text)) for text in (*names, *cells)))
        console().print(table)
        for note in summary.notes:
            click.echo(f"  {note}")
