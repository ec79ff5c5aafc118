"""`harness export`: a finished run as a model folder with its card."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import FOLDER, results_option


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("--to", required=True, metavar="DIR", type=FOLDER, help="A new folder, or an empty one.")
@results_option
@click.option("--profile", metavar="FILE.toml", help="The run's profile, where it is a file of yours.")
@click.option(
    "--encoder",
    metavar="DIR",
    type=FOLDER,
    help="The encoder's folder, for a run that trains nothing and was given it.",
)
def export_command(run: str, to: Path, results: Path, profile: str | None, encoder: Path | None) -> None:
    """Write the best checkpoint of RUN as a folder for transformers and sentence-transformers, with a model card.

    RUN is the key of a run (simcse/toy/toy-bert/seed-0) or a result file.
    """
    from harness.execution.export import export

    done = export(run, to, results, profile, encoder)
    libraries = "transformers and sentence-transformers load it" if done.modules else "transformers loads it"
    click.echo(f"{done.result.spec.key} is in {to}; {libraries}, README.md is its card")
    if not done.modules:
        click.echo("sentence-transformers has no module for its pooling; the card says how to read it")
