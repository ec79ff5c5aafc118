"""`harness status`: the state of each run of a grid."""

from __future__ import annotations

from typing import Any, get_args

import click

from harness.cli.options import grid_options


@click.command()
@grid_options
def status(**grid: Any) -> None:
    """Show each run of a grid as done, trained, failed, stale or missing.

    A trained run still has suites to evaluate. A stale run has results of another configuration only.
    """
    from harness import api
    from harness.cli.planning import describe
    from harness.execution.plan import RunState

    plan = api.plan(**grid)
    describe(plan)
    states = get_args(RunState)
    for run in sorted(plan.runs, key=lambda run: states.index(run.state)):
        error = f"  {run.failure.error}" if run.failure and run.state == "failed" else ""
        click.echo(f"{run.state:8} {run.key}{error}")
    for problem in api.results(plan.store.root).problems:
        click.echo(f"unusable {problem}")
