"""`harness report`: the results as Markdown, LaTeX, CSV and a static site."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from harness.cli.options import FOLDER, results_option


@click.command()
@click.option("--profile", metavar="NAME|FILE.toml", help="Only the results of this profile.")
@results_option
@click.option(
    "--out", default="reports/build", show_default=True, metavar="DIR", type=FOLDER, help="The folder to write."
)
@click.option("--open", "open_it", is_flag=True, help="Open the report in a browser.")
def report(profile: str | None, results: Path, out: Path, open_it: bool) -> None:
    """Write report.md, report.tex, report.csv and a static site of the results."""
    from harness.reporting.build import write_report
    from harness.store import Store

    written = write_report(Store(results), out, profile)
    for line in written.warnings:
        click.echo(f"warning: {line}", err=True)
    page = written.page.resolve()
    click.echo(f"{written.results} results rendered; open {page}")
    if open_it and not webbrowser.open(page.as_uri()):
        click.echo("no browser can be opened; open the file yourself", err=True)
