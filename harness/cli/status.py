"""`harness status`: what of a grid is done, failed, stale and missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import grid_options, make_request
from harness.cli.planning import STATES, describe
from harness.execution.plan import make_plan
from harness.store import Store


@click.command()
@grid_options
def status(results: Path, **grid: Any) -> None:
    """Show each run of a grid as done, failed, stale (only an older configuration is done) or missing."""
    store = Store(results)
    plan = make_plan(make_request(**grid), store)
    describe(plan, store)
    for state in STATES:
        for run in plan.runs:
            if run.state == state:
                why = f"  {run.failure.error}" if run.failure and state == "failed" else ""
                click.echo(f"{state:8} {run.key}{why}")
    for problem in store.load()[1]:
        click.echo(f"unusable {problem}")
