"""How a plan is told to a person."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.errors import MissingData
from harness.execution.plan import Plan, PlannedRun
from harness.reporting.formats import count_of, duration
from harness.store import Result, Store

STATES = ("done", "failed", "stale", "missing")


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
    for skip in plan.skipped:
        click.echo(f"  skipped   {skip.what}: {skip.why}")
    for state in ("failed", "stale"):
        count = sum(run.state == state for run in todo)
        if count:
            click.echo(f"  {state:9} {count}: {_MEANING[state]}")
    for name, lacking in plan.without_data.items():
        click.echo(f"  suite {name} is left out, it lacks {lacking[0]}{_more(lacking)}")
    for item in plan.lacking:
        click.echo(f"  lacking   {item}")
    seconds = estimate(plan, store)
    if seconds is not None and todo:
        click.echo(f"  estimate  about {duration(seconds)} one after another, from finished runs of this profile")


_MEANING = {
    "failed": "tried before without success, and tried again now",
    "stale": "results of an older configuration are kept, and these runs are done anew",
}


def refuse_lacking(plan: Plan) -> None:
    """Raise MissingData when runs to do lack data or weights."""
    if not plan.lacking and plan.without_data and not any(run.todo for run in plan.todo):
        raise MissingData(
            "no suite of this plan has its data; see the lines above, or try --profile tiny, which needs nothing"
        )
    if plan.lacking:
        raise MissingData(
            f"the plan lacks {count_of(len(plan.lacking), 'thing')}, listed above with how to get each; "
            "`--profile tiny` needs no data and no download"
        )


def estimate(plan: Plan, store: Store) -> float | None:
    """Seconds that the runs to do would take in turn, from finished runs of the profile; None without any."""
    if not plan.todo:
        return 0.0
    finished = [result for result in store.load()[0] if result.profile == plan.request.profile.name]
    if not finished:
        return None
    return sum(_expected(run, finished) for run in plan.todo)


def _expected(run: PlannedRun, finished: Sequence[Result]) -> float:
    spec = run.resolved.spec
    same = [r for r in finished if r.spec.method == spec.variant.name and r.spec.encoder == spec.encoder]
    pool = same or finished
    return sum(result.timings.total_s for result in pool) / len(pool)


def _more(items: Sequence[object]) -> str:
    return f" (and {len(items) - 1} more)" if len(items) > 1 else ""
