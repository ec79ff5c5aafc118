"""`harness run`: plan runs, execute them, show their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import registered
from harness.cli.options import device_option, grid_options, names_option
from harness.command_line import DEFAULT_JOBS

if TYPE_CHECKING:
    from harness.execution.environment import DeviceChoice


@click.command()
@grid_options
@click.option("--jobs", default=DEFAULT_JOBS, show_default=True, type=click.IntRange(min=1), help="Runs at a time.")
@device_option
@names_option(
    "--executor", "NAME", "How runs are executed (default: serial for one job, else processes).", registered("executor")
)
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.pass_context
def run(
    context: click.Context, /, jobs: int, device: DeviceChoice, executor: str | None, dry_run: bool, **grid: Any
) -> None:
    """Train and evaluate a grid of methods x settings x encoders x seeds.

    Finished runs are skipped, interrupted runs resume.
    """
    from harness import api
    from harness.cli.planning import describe, show_results

    plan = api.plan(**grid)
    describe(plan)
    if not dry_run:
        show_results(context, plan, api.execute(plan, jobs=jobs, device=device, executor=executor, progress=True))
