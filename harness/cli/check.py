"""`harness check`: the battery that this project's methods pass, on a method of another package."""

from __future__ import annotations

import click

from harness.cli.output import echo
from harness.formatting import count_of


@click.command()
@click.argument("what", metavar="PACKAGE|MODULE[:CLASS]|FILE.py")
@click.pass_context
def check(context: click.Context, what: str) -> None:
    """Check the methods of a package or file on random batches.

    It checks declarations, loss terms, gradients, seeds, checkpoints and devices, and prints a line for each. Exit code
    1 if one fails.
    """
    from harness.method.battery import check_all, methods_in  # imports torch

    failed = 0
    for method in methods_in(what):
        for one in check_all(method):
            failed += bool(one.problems)
            echo(f"{'fails' if one.problems else 'ok':5} {one.method}: {one.check}")
            for problem in one.problems:
                echo(f"      {problem}")
    if failed:
        echo(f"{count_of(failed, 'check')} failed", err=True)
        context.exit(1)
