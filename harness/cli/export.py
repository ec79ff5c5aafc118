"""`harness export`: a finished run as a model folder with a model card, and its scores as mteb's result files."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completion import complete_profile
from harness.cli.options import FOLDER, results_option
from harness.cli.output import echo
from harness.errors import UserError
from harness.formatting import count_of


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
    results: Path,
    profile: str | None,
    encoder: Path | None,
) -> None:
    """Write a run's best model to a folder with a model card, or its scores as mteb's repository of results takes them.

    transformers and sentence-transformers load the model's folder. RUN is a run's key (simcse/toy/toy-bert/seed-0) or
    result file.
    """
    if to is None and mteb is None:
        raise UserError("nothing to write is named; give --to DIR for the model, or --mteb DIR for its scores")
    if to is not None:
        _model(run, to, results, profile, encoder)
    if mteb is not None:
        _scores(run, mteb, results, named, profile)


def _model(run: str, to: Path, results: Path, profile: str | None, encoder: Path | None) -> None:
    from harness.execution.export import export

    done = export(run, to, results, profile, encoder)
    loads = "transformers and sentence-transformers load it" if done.modules else "transformers loads it"
    echo(f"{done.result.spec.key} is in {to}; {loads}, README.md is its model card")
    if not done.modules:
        echo("sentence-transformers has no module for its pooling; the model card shows how to pool")


def _scores(run: str, mteb: Path, results: Path, named: str | None, profile: str | None) -> None:
    from harness.execution.mteb_files import export_mteb, hub_name

    done = export_mteb(run, mteb, results, hub_name(named) if named else None, profile)
    for line in done.left_out:
        echo(f"left out: {line}", err=True)
    echo(f"{count_of(len(done.tasks), 'task')} of {done.model.name} at {done.model.commit} in {mteb}/results")
