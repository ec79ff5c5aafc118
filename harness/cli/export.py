"""`harness export`: a finished run as a model folder with a model card, and its scores as mteb's result files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from harness.cli.completion import complete_profile
from harness.cli.options import FOLDER, results_option
from harness.cli.output import echo
from harness.cli.reading import warn
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
