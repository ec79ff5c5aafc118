"""`harness logs`: what a run did, or does now."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.options import results_option
from harness.cli.output import echo
from harness.errors import UserError


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--follow", is_flag=True, help="Keep printing until the run ends; Ctrl-C stops only the printing.")
@results_option
def logs(run: str, follow: bool, results: Path) -> None:
    """Print the log of a run in progress, failed or finished.

    RUN is its key, a part of the key that no other run has, or six or more digits of its fingerprint.
    """
    from harness.planning.spellings import find_run
    from harness.store import Store
    from harness.store.logs import find_log
    from harness.store.logs import follow as follow_log

    store = Store(results)
    try:
        found = find_log(store, run)
    except UserError:
        if "/seed-" not in run:
            raise
        found = find_log(store, find_run(store, run)[0].fingerprint)
    if not follow and not found.path.is_file():
        raise UserError(f"{found.key} has no log yet: its job is still queued; `harness status` shows where")
    if not follow:
        echo(found.path.read_text(encoding="utf-8", errors="replace"), nl=False)
        return
    try:
        for text in follow_log(found, store):
            echo(text, nl=False)
    except KeyboardInterrupt:
        echo("")
