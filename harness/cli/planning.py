"""How a plan is told to a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from harness.errors import MissingData
from harness.execution.plan import Plan
from harness.formatting import count_of, duration, fixed
from harness.store import Store

STATES = ("done", "trained", "failed", "stale", "missing")


def describe(plan: Plan, store: Store) -> None:
    """Print how many runs there are, how many are done, what is skipped or lacking, and an estimate."""
    request, todo = plan.request, plan.todo
    click.echo(
        f"profile {request.profile.name}: {count_of(len(plan.runs), 'run')}, {len(plan.done)} done, {len(todo)} to do"
    )
    for label, values in (
        ("methods", request.methods),
        ("settings", request.settings),
        ("encoders", request.encoders),
        ("seeds", request.seeds),
        ("suites", request.suites),
    ):
        click.echo(f"  {label:9} {', '.join(map(str, values))}")
    if request.overrides:
        click.echo("  set       " + ", ".join(f"{key}={value}" for key, value in request.overrides.items()))
    for entry in _entries(plan):
        click.echo(f"  {entry}")
    for skip in plan.skipped:
        click.echo(f"  skipped   {skip.what}: {skip.why}")
    for state in ("trained", "failed", "stale"):
        count = sum(run.state == state for run in todo)
        if count:
            click.echo(f"  {state:9} {count}: {_MEANING[state]}")
    for name, lacking in plan.without_data.items():
        click.echo(f"  suite {name} is left out, it lacks {lacking[0]}{_more(lacking)}")
    for item in plan.missing:
        click.echo(f"  lacking   {item}")
    if todo:
        _tell_estimate(plan, store)


def _entries(plan: Plan) -> Iterator[str]:
    """How far each table and figure is; runs that two of them share are counted in both."""
    done = {run.resolved.spec for run in plan.done}
    for name, specs in plan.request.entries.items():
        yield f"{name:12} {count_of(len(specs), 'run')}, {sum(spec in done for spec in specs)} done"


def _tell_estimate(plan: Plan, store: Store) -> None:
    from harness.execution.estimate import estimate

    expected = estimate(plan, store)
    if expected is None:
        return
    if expected.source == "finished runs":
        hours = f" ({fixed(expected.seconds / 3600, 1)} device-hours)" if plan.request.entries else ""
        text = f"about {duration(expected.seconds)}{hours} one after another, from finished runs of this profile"
        click.echo(f"  estimate  {text}")
    else:
        click.echo(
            f"  estimate  about {expected.seconds / 3600:,.0f} device-hours of one A100: no run of this profile is "
            "finished, so from the minutes that DALR Table 7 prints, by examples seen (steps x batch) and size of "
            "encoder"
        )


_MEANING = {
    "trained": "some suites are still to be evaluated",
    "failed": "tried before without success, and tried again now",
    "stale": "results of an older configuration are kept, and these runs are done anew",
}


def refuse_lacking(plan: Plan) -> None:
    """Raise MissingData when runs to do lack data or weights."""
    if not plan.missing and plan.without_data and not any(run.todo for run in plan.todo):
        raise MissingData(
            "no suite of this plan has its data; see the lines above, or try --profile tiny, which needs nothing"
        )
    if plan.missing:
        raise MissingData(
            f"the plan lacks {count_of(len(plan.missing), 'thing')}, listed above with how to get each; "
            "`--profile tiny` needs no data and no download"
        )


def _more(items: Sequence[object]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""
