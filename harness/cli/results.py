"""`harness results`: maintenance of result files."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import data_option, results_option
from harness.cli.output import echo
from harness.formatting import count_of


@click.group("results")
def results_command() -> None:
    """Maintain result files."""


@results_command.command("upgrade")
@results_option
@data_option
def upgrade(results: Path, data_root: Path | None) -> None:
    """Rewrite result files of an older schema in the current one.

    Every command reads older files, too; no score changes. Older scores of untrained models under the profile `paper`
    are shown beside printed numbers after an upgrade that finds their data. An interrupted upgrade can be repeated.
    """
    from harness.execution.finished import Confirmation
    from harness.sources import data_root as root_of
    from harness.store import Store
    from harness.store.rewrite import rewrite_old_results

    done = rewrite_old_results(Store(results), Confirmation(root_of(data_root)))
    for line in done.problems:
        echo(f"warning: {line}", err=True)
    echo(f"{count_of(done.results, 'result')} upgraded")
    if done.in_use:
        echo(f"{count_of(done.in_use, 'result')} in use by a running command; repeat the upgrade when it ends")
