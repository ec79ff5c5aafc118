"""`harness run`: plan, run, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import grid_options, make_request
from harness.cli.planning import describe, refuse_lacking
from harness.execution.environment import DeviceChoice
from harness.execution.plan import Plan, Request, make_plan
from harness.store import Result, Store, frame_of


@click.command()
@grid_options
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Runs at a time.")
@click.option("--device", default="auto", show_default=True, type=click.Choice(["auto", "cpu", "cuda"]))
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.pass_context
def run(context: click.Context, results: Path, jobs: int, device: DeviceChoice, dry_run: bool, **grid: Any) -> None:
    """Train and evaluate a grid of methods x settings x encoders x seeds.

    What is done is not done again; what was interrupted goes on where it stopped.
    """
    carry_out(context, make_request(**grid), results, jobs, device, dry_run=dry_run)


def carry_out(
    context: click.Context, request: Request, results: Path, jobs: int, device: DeviceChoice, *, dry_run: bool = False
) -> None:
    """Plan a request, tell the plan, do it and show its table; exit code 1 when a run failed."""
    store = Store(results)
    plan = make_plan(request, store)
    describe(plan, store)
    if dry_run:
        return
    refuse_lacking(plan)
    failures = 0
    finished = [planned.result for planned in plan.done if planned.result]
    if plan.todo:
        new, failures = _execute(plan, store, jobs, device)
        finished += new
    else:
        click.echo("nothing to do: every run of this plan is done")
    _table(finished)
    if plan.todo:
        click.echo(f"results are in {results}; `harness report --results {results}` renders them")
    if failures:
        context.exit(1)


def _execute(plan: Plan, store: Store, jobs: int, device: DeviceChoice) -> tuple[list[Result], int]:
    from harness.execution.executors.base import execute
    from harness.execution.progress import display

    with display(len(plan.todo)) as listen:
        ends = execute(plan, store, listen, jobs=jobs, device=device)
    results = [end for end in ends if isinstance(end, Result)]
    failures = len(ends) - len(results)
    if failures:
        click.echo(
            f"{failures} of {len(plan.todo)} runs failed; `harness status` lists them, the same command retries them",
            err=True,
        )
    return results, failures


def _table(results: list[Result]) -> None:
    """Mean and deviation over seeds of what the plan asked for."""
    if not results:
        return
    from harness.cli.tables import show_summaries

    show_summaries(frame_of(results))
