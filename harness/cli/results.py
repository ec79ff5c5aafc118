"""`harness results`: maintenance of result files."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import results_option


@click.group("results")
def results_command() -> None:
    """Maintain result files."""


@results_command.command("upgrade")
@results_option
def upgrade(results: Path) -> None:
    """Rewrite result files of an older schema in the current one.

    Older files are read without this, too. Scores do not change; an interrupted upgrade can be repeated.
    """
    from harness.formatting import count_of
    from harness.store.files import Store
    from harness.store.rewrite import rewrite_old_files

    done = rewrite_old_files(Store(results))
    for line in done.problems:
        click.echo(f"warning: {line}", err=True)
    click.echo(f"{count_of(done.upgraded, 'file')} upgraded")
    if done.in_use:
        click.echo(f"{count_of(done.in_use, 'file')} in use by a running command; repeat the upgrade when it ends")
