"""`harness report`: the store as Markdown, LaTeX, CSV and a static site."""

from __future__ import annotations

import webbrowser
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

from harness.cli.options import FOLDER, results_option
from harness.errors import UserError
from harness.profiles import load_profile
from harness.store import Store, frame_of


@click.command()
@click.option("--profile", metavar="NAME|FILE.toml", help="Only this profile's results; else all.")
@results_option
@click.option(
    "--out",
    default="reports/build",
    show_default=True,
    metavar="DIR",
    type=FOLDER,
    help="Where to.",
)
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
def report(profile: str | None, results: Path, out: Path, open_it: bool) -> None:
    """Render what the store holds as report.md, report.tex, report.csv and pages that open from disk."""
    from harness.reporting.build import build
    from harness.reporting.figures.papers import report_figures
    from harness.reporting.site.methods import installed_methods

    name = load_profile(profile).name if profile else None
    store = Store(results)
    loaded, problems = store.load()
    for line in problems:
        click.echo(f"warning: {line}", err=True)
    chosen = [result for result in loaded if name in (None, result.profile)]
    if not chosen:
        what = f"no results of the profile '{name}'" if name else "no results"
        raise UserError(f"{results} has {what}; run `harness run --profile {profile or 'tiny'}` first")
    failed = [failure.model_dump() for failure in store.failures() if name in (None, failure.profile)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        # a process of its own: methods need torch, which takes more memory than the results
        methods, broken = pool.submit(installed_methods).result()
    for line in broken:
        click.echo(f"warning: {line}", err=True)
    frame = frame_of(chosen)
    figures = report_figures(chosen, frame, store.arrays)
    page = build(chosen, frame, out, name, failed, methods, figures, store.arrays, store.log).resolve()
    click.echo(f"{len(chosen)} results rendered; open {page}")
    if open_it and not webbrowser.open(page.as_uri()):
        click.echo("no browser could be opened here; open the file yourself", err=True)
