"""`harness report`: the results as Markdown, LaTeX, CSV and a static site."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from harness.cli.options import FOLDER, any_profile_option, results_option
from harness.cli.output import echo
from harness.cli.reading import warn
from harness.command_line import DEFAULT_MARGIN, DEFAULT_REPORT


@click.command()
@any_profile_option
@results_option
@click.option("--out", default=DEFAULT_REPORT, show_default=True, metavar="DIR", type=FOLDER, help="Folder to write.")
@click.option(
    "--margin",
    default=DEFAULT_MARGIN,
    show_default=True,
    metavar="POINTS",
    type=float,
    help="Largest difference from a printed number that counts as reproduced.",
)
@click.option("--one-file", is_flag=True, help="Also write report.html: all pages except those of runs, for sending.")
@click.option("--open", "open_it", is_flag=True, help="Open the report in a browser.")
def report(profile: str | None, results: Path, out: Path, margin: float, one_file: bool, open_it: bool) -> None:
    """Write a report: Markdown, LaTeX, CSV and a static site."""
    from harness import api

    written = api.report(results, out, profile, margin, one_file)
    warn(written.warnings)
    page = written.page.resolve()
    echo(f"{written.results} results rendered; open {page}")
    if one_file:
        sent = page.with_name("report.html")
        echo(f"to send: {sent} ({sent.stat().st_size / 1e6:.1f} MB)")
    if open_it and not webbrowser.open(page.as_uri()):
        echo("cannot open a browser; open the file yourself", err=True)
