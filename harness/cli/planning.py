"""Printing a plan and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.execution.plan import Plan
    from harness.reporting.results import Results

_NOTES = {
    "trained": "trained; some suites are still to be evaluated",
    "failed": "failed earlier; will retry",
    "stale": "only results of another configuration; will be trained",
}


def describe(plan: Plan) -> None:
    """Print the number of runs, how many are done, what is skipped or missing, and an estimate."""
    from harness.formatting import count_of

    request, todo = plan.request, plan.todo
    click.echo(
        f"profile {request.profile.name}: {count_of(len(plan.runs), 'run')}, {len(plan.done)} done, {len(todo)} to do"
    )
    for line in (*_axes(plan), *_entries(plan), *_problems(plan)):
        click.echo(f"  {line}")
    if todo:
        _print_estimate(plan)


def _axes(plan: Plan) -> Iterator[str]:
    request = plan.request
    yield f"methods   {', '.join(map(str, request.methods))}"
    yield f"settings  {', '.join(map(str, request.settings))}"
    yield f"encoders  {', '.join(request.encoders)}"
    yield f"seeds     {', '.join(map(str, request.seeds))}"
    yield f"suites    {', '.join(request.suites)}"
    if request.overrides:
        yield "set       " + ", ".join(f"{key}={value}" for key, value in request.overrides.items())


def _entries(plan: Plan) -> Iterator[str]:
    """Progress of each table and figure; a run that two of them share counts in both."""
    from harness.formatting import count_of

    done = {run.resolved.spec for run in plan.done}
    for name, specs in plan.request.entries.items():
        yield f"{name:12} {count_of(len(specs), 'run')}, {sum(spec in done for spec in specs)} done"


def _problems(plan: Plan) -> Iterator[str]:
    from harness.formatting import count_of

    for skip in plan.skipped:
        yield f"skipping  {skip.what}: {skip.why}"
    for state, note in _NOTES.items():
        count = sum(run.state == state for run in plan.todo)
        if count:
            yield f"{state:9} {count}: {note}"
    for name, missing in plan.without_data.items():
        first, more = missing[0], f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield f"skipping suite {name}: {count_of(len(missing), 'input')} missing ({first}{more})"
    for item in plan.missing:
        yield f"missing   {item}"


def _print_estimate(plan: Plan) -> None:
    from harness.execution.estimate import estimate
    from harness.formatting import duration, fixed

    expected = estimate(plan)
    if expected is None:
        return
    hours = expected.seconds / 3600
    if expected.source == "finished runs":
        each = f" ({fixed(hours, 1)} device-hours)" if plan.request.entries else ""
        time = duration(expected.seconds)
        click.echo(f"  estimate  about {time}{each}, one run at a time; from finished runs of this profile")
    else:
        click.echo(
            f"  estimate  about {hours:,.0f} hours of one A100; from the minutes printed in DALR Table 7, scaled by "
            "examples seen (steps x batch) and size of encoder"
        )


def show_results(context: click.Context, plan: Plan, results: Results) -> None:
    """Print the scores of a plan's runs. Sets exit code 1 where a run failed."""
    from harness.cli.tables import show_summaries
    from harness.command_line import harness_command

    if not plan.todo:
        click.echo("nothing to do: every run of this plan is finished")
    if len(results):
        show_summaries(results.runs)
    if plan.todo:
        folder = results.folder
        click.echo(f"results are in {folder}; `{harness_command('report', results=folder)}` renders them")
    if results.failures:
        click.echo(
            f"{len(results.failures)} of {len(plan.todo)} runs failed; `harness status` lists them, the same command "
            "retries them",
            err=True,
        )
        context.exit(1)
