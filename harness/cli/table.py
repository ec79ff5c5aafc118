"""`harness table`: one table of the report on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from harness.cli.completion import completer, from_papers, from_profile
from harness.cli.options import any_profile_option, results_option
from harness.cli.reading import read_results
from harness.command_line import TABLE_FORMATS


def _names(profile: str) -> Iterable[str]:
    yield from from_profile("suites")(profile)
    yield from from_papers("tables")(profile)


@click.command()
@click.argument("name", shell_complete=completer(_names))
@click.option("--format", "text_format", default="markdown", show_default=True, type=click.Choice(TABLE_FORMATS))
@any_profile_option
@results_option
def table(name: str, text_format: str, profile: str | None, results: Path) -> None:
    """Print one table as Markdown, LaTeX or CSV.

    NAME is a suite, such as sts, or a table of a paper, such as mcse:T1.
    """
    click.echo(read_results(results, profile).text(name, text_format, profile), nl=False)
