"""`harness export`: a finished run as a model folder with a model card."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.completion import complete_profile
from harness.cli.options import FOLDER, results_option
from harness.cli.output import echo


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("--to", required=True, metavar="DIR", type=FOLDER, help="A new or empty folder.")
@results_option
@click.option(
    "--profile", metavar="FILE.toml", help="The run's profile, if it is your own file.", shell_complete=complete_profile
)
@click.option("--encoder", metavar="DIR", type=FOLDER, help="The encoder's folder, for an untrained run.")
def export_command(run: str, to: Path, results: Path, profile: str | None, encoder: Path | None) -> None:
    """Write a run's best model to a folder, with a model card.

    transformers and sentence-transformers load the folder. RUN is a run's key (simcse/toy/toy-bert/seed-0) or result
    file.
    """
    from harness.execution.export import export

    done = export(run, to, results, profile, encoder)
    loads = "transformers and sentence-transformers load it" if done.modules else "transformers loads it"
    echo(f"{done.result.spec.key} is in {to}; {loads}, README.md is its model card")
    if not done.modules:
        echo("sentence-transformers has no module for its pooling; the model card shows how to pool")
