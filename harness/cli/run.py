"""`harness run`, `harness eval` and `harness status`: plan runs, execute them, show their scores or states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import from_profile, registered
from harness.cli.fetch import bring
from harness.cli.options import (
    accept_option,
    data_option,
    device_option,
    grid_options,
    jobs_option,
    names_option,
    profile_option,
    results_option,
    suites_option,
    tasks_option,
    track_option,
)
from harness.cli.output import echo
from harness.cli.reading import read_results
from harness.cli.tables import show_paper_tables, show_summaries, show_tuning
from harness.command_line import harness_command, parse_texts
from harness.formatting import count_of, duration, fixed
from harness.plaintext import one_line
from harness.spec import UNTRAINED

if TYPE_CHECKING:
    from harness.planning.plan import Plan, PlannedRun
    from harness.reporting.results import Results
    from harness.runs.resources import DeviceChoice, Jobs
    from harness.store import Result

_NOTES = {
    "trained": "trained; some suites will be evaluated",
    "failed": "failed earlier; will retry",
    "stale": "results exist for another configuration only; will be trained",
    "kept": "the saved weights will be evaluated; --redo trains them again",
    "redo": "will be trained again; the old results move to .superseded when the new ones are complete",
}
#: in the order in which they are shown
_STATES = (
    "done",
    "running",
    "queued",
    "sent",
    "trained",
    "lost",
    "failed",
    "redo",
    "kept",
    "stale",
    "missing",
    "damaged",
)


@click.command()
@grid_options
@jobs_option
@device_option
@names_option("--executor", "NAME", "Where runs are executed.", registered("executor"))
@click.option(
    "--executor-option", "executor_options", multiple=True, metavar="KEY=VALUE", help="An option of the executor."
)
@click.option("--address", metavar="HOST:PORT", help="Executor ray: the head of the cluster.")
@click.option("--no-shared-folder", is_flag=True, help="Executor ray: nodes send their results to this command.")
@click.option(
    "--slurm",
    "slurm_table",
    metavar="FILE.toml",
    help="Executor slurm: file with a table [slurm], the options of the jobs.",
)
@click.option("--wait", is_flag=True, help="Executor slurm: wait for the jobs; stopping this command stops them too.")
@click.option(
    "--chunk",
    type=click.IntRange(min=1),
    metavar="N",
    help="Encode a batch N rows at a time: the same gradient with less memory, in about a third more time.",
)
@click.option(
    "--run-timeout",
    metavar="TIME",
    help="Time limit of a run or of its preparation, such as 4h; a run that exceeds it has failed.",
)
@track_option
@click.option("--redo", is_flag=True, help="Train all of these runs again, finished ones too.")
@click.option("--fetch", is_flag=True, help="First download missing data and models, as `harness fetch` does.")
@accept_option
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.pass_context
def run(
    context: click.Context,
    /,
    jobs: Jobs | None,
    device: DeviceChoice,
    executor: str | None,
    executor_options: Sequence[str],
    address: str | None,
    no_shared_folder: bool,
    slurm_table: str | None,
    wait: bool,
    chunk: int | None,
    run_timeout: str | None,
    track: str,
    fetch: bool,
    accept_licences: list[str],
    dry_run: bool,
    **grid: Any,
) -> None:
    """Train and evaluate a grid of runs.

    A grid combines methods, settings, encoders and seeds. Finished runs are skipped, interrupted runs resume. With
    --redo, an old result moves to RESULTS/.superseded once the new one is complete.
    """
    from harness import api
    from harness.work.failures import seconds_of
    from harness.work.tracking.installed import tracker_places

    places = tracker_places(track, grid["results"])  # before anything is fetched
    limit_s = None if run_timeout is None else seconds_of(run_timeout)
    own = parse_texts(executor_options, "--executor-option", "partition=gpu")
    own |= {"address": address} if address else {}
    own |= {"shared-folder": "no"} if no_shared_folder else {}
    own |= {"table": slurm_table} if slurm_table else {}
    own |= {"wait": "yes"} if wait else {}
    if executor or own:
        from harness.work.base import check_executor  # imports torch

        check_executor(executor, own, jobs)
    if fetch:
        bring(api.to_fetch(api.plan(**grid)), accept_licences, dry_run)
    plan = api.plan(**grid)
    _describe(plan, places)
    if plan.todo and executor in (None, "local"):
        _describe_cards(len(plan.todo), jobs, device)
    if not dry_run:
        how: Any = {"jobs": jobs, "device": device, "executor": executor, "executor_options": own, "chunk": chunk}
        how |= {"run_timeout": limit_s}
        _show_results(context, plan, api.execute(plan, track=list(places), progress=True, **how))


@click.command("eval")
@click.argument("model", metavar="[MODEL]", required=False)
@names_option(
    "--encoders", "E,NAME=DIR", "More models, named as in `harness run --encoders`.", from_profile("encoders")
)
@names_option(
    "--pooling", "NAME", "Pooling of token vectors: cls, mean, ... (default: the model's own).", registered("pooling")
)
@click.option("--name", metavar="NAME", help="Name for the model of a folder (default: from its path).")
@click.option("--trust-remote-code", is_flag=True, help="Allow code from the model's repository to run.")
@suites_option
@tasks_option
@profile_option
@results_option
@data_option
@device_option
@track_option
@click.pass_context
def evaluate(context: click.Context, /, model: str | None, device: DeviceChoice, track: str, **options: Any) -> None:
    """Evaluate saved models, or evaluate a run on more suites.

    MODEL is a folder that transformers or sentence-transformers saved, a hub name OWNER/NAME[@COMMIT], or the key of a
    run. Scores are stored and shown with those of runs; a model from outside is the run `none[pooling=...]`. --encoders
    names more models, or the folder of a run's encoder.
    """
    from harness import api
    from harness.work.tracking.installed import tracker_places

    places = tracker_places(track, options["results"])
    plan = api.plan_model(model, **options)
    _describe(plan, places)
    _show_results(context, plan, api.execute(plan, device=device, track=list(places), progress=True))


@click.command()
@grid_options
def status(**grid: Any) -> None:
    """Show the state of each run of a grid.

    \b
    done      trained and evaluated
    trained   some suites are not yet evaluated
    kept      its weights are saved, its result is missing
    redo      to be trained again, as asked with --redo
    failed    the line shows the error
    stale     results exist for another configuration only; the line shows what has changed
    missing   not yet trained
    running   in another process, or in SLURM
    queued    submitted to SLURM, not yet started
    sent      submitted to SLURM, whose commands do not work here
    lost      its job in SLURM was killed
    damaged   its result cannot be read; restore it or move it away
    """
    from harness import api
    from harness.store import earlier_backends
    from harness.store.attempts import in_progress
    from harness.work.slurm.commands import whereabouts

    plan = api.plan(**grid)
    _describe(plan)
    there = whereabouts(plan.store)
    lines: list[tuple[str, str, str]] = []
    for run in plan.runs:
        place = there.get(plan.store.work(run.fingerprint).name)
        if place and run.state != "done":
            lines.append((place.state, run.key, place.text))
        elif run.state != "done" and in_progress(plan.store, run.fingerprint):
            follow = harness_command("logs", run.key, "--follow", results=plan.store.root)
            lines.append(("running", run.key, f"in another process; `{follow}` shows its log"))
        else:
            lines.append((run.state, run.key, _why(run)))
    for state, key, text in sorted(lines, key=lambda line: _STATES.index(line[0])):
        echo(f"{state:8} {key}  {text}".rstrip())
    results = read_results(plan.store.root, named={run.problem for run in plan.damaged})
    if line := earlier_backends(results.runs):
        echo(f"earlier  {line}")


def _why(run: PlannedRun) -> str:
    """What went wrong with a run, or what has changed since its result."""
    if run.failure and run.state == "failed":
        return one_line(run.failure.error)
    return f"changed: {one_line('; '.join(run.changed))}" if run.changed else ""


def _describe(plan: Plan, trackers: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print the number of runs, how many are done, what is skipped or missing, an estimate, and trackers."""
    counts = f"{count_of(len(plan.runs), 'run')}, {len(plan.done)} done, {len(plan.todo)} to do"
    counts += f", {len(plan.damaged)} damaged" if plan.damaged else ""
    echo(f"profile {plan.request.profile.name}: {counts}")
    recorded = (f"tracker   {name}: {place}" for name, place in trackers.items())
    for line in (*_axes(plan), *_problems(plan), *_estimate(plan), *recorded):
        echo(f"  {line}")


def _describe_cards(runs: int, jobs: Jobs | None, device: DeviceChoice) -> None:
    """Print the GPUs of this machine, and the runs on each; nothing on the CPU."""
    from harness.runs.environment import pick_device

    if device == "cpu" or pick_device("auto") == "cpu":
        return
    from harness.work.seats import most_on_cards, most_on_each, visible_names

    cards = len(visible_names())
    each = most_on_each(cards, min(jobs, runs) if isinstance(jobs, int) else most_on_cards(cards, runs))
    echo(f"  devices   {count_of(cards, 'GPU')}, {count_of(each, 'run')} each where memory allows")


def _axes(plan: Plan) -> Iterator[str]:
    """What is combined, and the progress of each table and figure; a run that two of them share counts in both."""
    request = plan.request
    axes = {name: getattr(request, name) for name in ("methods", "settings", "encoders", "seeds", "suites", "tasks")}
    for name, values in {**axes, "set": [f"{key}={value}" for key, value in request.overrides.items()]}.items():
        if values:
            yield f"{name:9} {', '.join(map(str, values))}"
    if request.tuning:
        spaces = " and of ".join(method.typed for method in request.tuning.methods)
        yield f"{'tune':9} {count_of(request.tuning.trials, 'configuration')} each of {spaces}"
    done = {run.resolved.spec for run in plan.done}
    for name, specs in request.entries.items():
        yield f"{name:12} {count_of(len(specs), 'run')}, {sum(spec in done for spec in specs)} done"


def _problems(plan: Plan) -> Iterator[str]:
    from harness.planning.lacking import fetch_command, fetch_list, lacking

    for skip in plan.skipped:
        yield f"skipping  {skip.what}: {skip.why}"
    for run in plan.damaged:
        yield f"damaged   {run.problem}"
    for state, note in _NOTES.items():
        if runs := [run for run in plan.todo if run.state == state]:
            changed = {"; ".join(run.changed) for run in runs}
            what = f" ({one_line(*changed)})" if len(changed) == 1 and changed != {""} else ""
            yield f"{state:9} {len(runs)}: {note}{what}"
    for name, missing in plan.without_data.items():
        first, more = missing[0].what, f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield f"skipping suite {name}: {count_of(len(missing), 'input')} missing ({first}{more})"
    for item in plan.missing:
        yield f"missing   {item.what}"
    found = fetch_list(lacking(plan), plan.inventory.root, ask=False)
    if found.items:
        yield f"fetch     `{fetch_command(plan)}` downloads {count_of(len(found.items), 'item')}, {found.size_text}"
    for one in found.by_hand:
        yield f"by hand   {one.name}: {one.steps}"


def _estimate(plan: Plan) -> Iterator[str]:
    if not plan.todo:
        return
    from harness.planning.estimate import estimate

    expected = estimate(plan)
    if expected is None:
        return
    if expected.here is not None:
        each = f" ({fixed(expected.here / 3600, 1)} device-hours)" if plan.request.entries else ""
        yield f"estimate  about {duration(expected.here)}{each}, one run at a time; from finished runs of this profile"
    else:
        hours = ", ".join(f"{_hours(seconds)} on one {name}" for name, seconds in expected.cards.items())
        yield f"estimate  about {hours}, one run at a time; by arithmetic (docs/reproduce.md), not measured"


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{fixed(hours, 1) if hours < 10 else format(hours, ',.0f')} h"


def _show_results(context: click.Context, plan: Plan, results: Results) -> None:
    """Print the scores of a plan's runs. Sets exit code 1 where a run failed or its result is damaged."""
    if not plan.todo:
        echo(f"nothing to do: every {'other ' if plan.damaged else ''}run of this plan is finished")
    if len(results):
        from harness.store import some_of

        stored = _stored(plan, results)
        show_summaries(results.runs, stored)
        if plan.request.tuning:
            mine = {run.fingerprint for run in results.runs}
            wanted = [run.spec.setting == UNTRAINED or run.fingerprint in mine for run in stored]
            show_tuning(plan.request.tuning, some_of(stored, wanted))
        if plan.request.entries:
            show_paper_tables(plan.request.entries, plan.request.profile.name, results.runs)
    if plan.todo and not _show_submitted(plan, results):
        folder = results.folder
        echo(f"results are in {folder}; `{harness_command('report', results=folder)}` renders them")
    if plan.damaged:
        echo(f"{count_of(len(plan.damaged), 'run')} skipped: their results are damaged (see above)", err=True)
    if results.failures:
        echo(
            f"{len(results.failures)} of {len(plan.todo)} runs failed; `harness status` with the same options lists "
            "them, `harness show RUN` prints the traceback of one, running the same command retries them",
            err=True,
        )
    if results.failures or plan.damaged:
        context.exit(1)


def _stored(plan: Plan, results: Results) -> Sequence[Result]:
    """A plan's results as the folder has them, with those of other variants, settings and encoders of the profile."""
    from harness.planning.present import Present
    from harness.store import IndexedResults

    stored = read_results(plan.store.root, named={one.problem for one in plan.damaged}).runs
    assert isinstance(stored, IndexedResults)
    mine, labels = {run.fingerprint for run in results.runs}, {_label(run) for run in results.runs}
    name = plan.request.profile.name
    kept = [run.profile == name and (run.fingerprint in mine or _label(run) not in labels) for run in stored]
    return stored.judged(Present(inventory=plan.inventory)).where(kept)


def _label(run: Result) -> tuple[str, ...]:
    return run.spec.variant, run.spec.setting, run.spec.encoder, str(sorted(run.overrides.items()))


def _show_submitted(plan: Plan, results: Results) -> bool:
    """Say which runs of a plan are in a batch system; whether there are any."""
    from harness.store.submissions import submissions

    notes, ended = submissions(plan.store), {result.fingerprint for result in results.runs}
    left = [plan.store.work(run.fingerprint).name for run in plan.todo if run.fingerprint not in ended]
    mine = [notes[name] for name in left if name in notes]
    if not mine:
        return False
    numbers = " ".join(sorted({note.id.partition("_")[0] for note in mine}, key=int))
    echo(
        f"{count_of(len(mine), 'run')} in {mine[0].system}: `harness status` with the same options shows where they "
        f"are, running the same command again follows them, `scancel {numbers}` cancels them"
    )
    return True
