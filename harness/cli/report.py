"""What results become: a report, one of its tables, citations, model folders."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from harness import api
from harness.cli.options import (
    FOLDER,
    any_profile_option,
    complete_profile,
    completer,
    from_papers,
    from_profile,
    names_option,
    registered,
    results_option,
)
from harness.cli.output import echo, read_results, warn
from harness.command_line import DEFAULT_MARGIN, DEFAULT_REPORT, TABLE_FORMATS, harness_command
from harness.errors import UserError
from harness.formatting import count_of, from_markdown
from harness.papers.citing import Used, bibtex, used_by
from harness.profiles import load_profile


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
    written = api.report(results, out, profile, margin, one_file)
    warn(written.warnings)
    page = written.page.resolve()
    echo(f"{written.results} results rendered; open {page}")
    if one_file:
        sent = page.with_name("report.html")
        echo(f"to send: {sent} ({sent.stat().st_size / 1e6:.1f} MB)")
    if open_it and not webbrowser.open(page.as_uri()):
        echo("cannot open a browser; open the file yourself", err=True)


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

    NAME is a suite, such as sts, or a table of a paper, such as mcse:T1. In a terminal, Markdown has no escapes.
    """
    text = read_results(results, profile).text(name, text_format, profile).removesuffix("\n")
    click.echo(from_markdown(text) if text_format == "markdown" and _is_terminal() else text)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


@click.command()
@any_profile_option
@names_option("--methods", "A,B", "Only these methods; without results, their papers are cited.", registered("method"))
@results_option
def cite(profile: str | None, methods: str | None, results: Path) -> None:
    """Print BibTeX for everything that the results used.

    These are methods, encoders, teachers, training and test data, and this harness. Anything without a known reference
    is listed in a comment at the end.
    """
    from harness.method import method_named  # imports torch

    name = load_profile(profile).name if profile else None
    asked = [text.strip() for text in methods.split(",")] if methods else []
    papers = {method: method_named(method).paper for method in asked}
    loaded = read_results(results)
    chosen = [one for one in loaded.runs if name in (None, one.profile) and (not asked or one.spec.method in asked)]
    if not (chosen or asked):
        run = harness_command("run", profile=profile or "tiny", results=str(results))
        raise UserError(f"{results} has no results; give --methods, or run `{run}` first")
    used = used_by(chosen)
    echo(bibtex(list(dict.fromkeys([*(Used("methods", method) for method in papers), *used])), papers), nl=False)


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("--to", metavar="DIR", type=FOLDER, help="A new or empty folder for the model.")
@click.option("--mteb", metavar="DIR", type=FOLDER, help="A new or empty folder for mteb's result files.")
@click.option(
    "--as",
    "named",
    metavar="OWNER/NAME@COMMIT",
    help="With --mteb: the model's name on the hub (default: that of the encoder, where the run trains nothing).",
)
@click.option("--push", metavar="OWNER/NAME", help="A new repository of the hub for the model; it is private.")
@results_option
@click.option(
    "--profile", metavar="FILE.toml", help="The run's profile, if it is your own file.", shell_complete=complete_profile
)
@click.option("--encoder", metavar="DIR", type=FOLDER, help="The encoder's folder, for an untrained run.")
def export_command(
    run: str,
    to: Path | None,
    mteb: Path | None,
    named: str | None,
    push: str | None,
    results: Path,
    profile: str | None,
    encoder: Path | None,
) -> None:
    """Write a run's model, or its scores as mteb's files.

    The model is that of the best checkpoint, in a folder with a model card that transformers and sentence-transformers
    load. The scores are written as mteb's repository of results takes them. RUN is a run's key
    (simcse/toy/toy-bert/seed-0) or result file. The token of --push is that of `hf auth login` or HF_TOKEN.
    """
    if to is None and mteb is None and push is None:
        raise UserError(
            "no output is given; add --to DIR or --push OWNER/NAME for the model, or --mteb DIR for its scores"
        )
    if mteb is not None:
        if to is not None or push is not None:
            raise UserError(
                "--mteb writes scores only; remove --to and --push, and export the model in a command of its own"
            )
        _scores(run, mteb, results, named, profile)
        return
    if named is not None:
        raise UserError("--as works only with --mteb; add --mteb DIR, or remove --as")
    with TemporaryDirectory() as temporary:
        folder = to or Path(temporary) / "model"
        loads = _model(run, folder, results, profile, encoder)
        if to is not None:
            echo(f"{run} is in {to}; {loads}")
        if push is not None:
            from harness.runs.export import push_model

            echo(f"{run} is in {push} at commit {push_model(folder, push, run)}; {loads}")


def _model(run: str, folder: Path, results: Path, profile: str | None, encoder: Path | None) -> str:
    """Write the model's folder; return who loads it."""
    from harness.runs.export import export

    done = export(run, folder, results, profile, encoder)
    warn(done.problems)
    if done.modules:
        return "transformers and sentence-transformers load it, README.md is its model card"
    echo("sentence-transformers has no module for its pooling; the model card shows how to pool")
    return "transformers loads it, README.md is its model card"


def _scores(run: str, mteb: Path, results: Path, named: str | None, profile: str | None) -> None:
    from harness.runs.mteb_files import export_mteb, hub_name

    done = export_mteb(run, mteb, results, hub_name(named) if named else None, profile)
    for line in done.left_out:
        echo(f"left out: {line}", err=True)
    echo(f"{count_of(len(done.tasks), 'task')} of {done.model.name} at {done.model.commit} in {mteb}/results")
