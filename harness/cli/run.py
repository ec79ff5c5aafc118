"""`harness run`, `harness eval` and `harness status`: plan runs, execute them, show their scores or
states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import GroupedOptions, accept_option, names_option, options_of
from harness.cli.output import (
    complain,
    echo,
    read_results,
    show_answers,
    show_paper_tables,
    show_summaries,
    show_tuning,
    waiting,
    warn,
)
from harness.command_line import Selection, harness_command, parse_texts
from harness.documents import page_of
from harness.formatting import count_of, duration, fixed, one_line
from harness.runs.execution import DeviceChoice, Execution, Jobs
from harness.spec import BASELINE, UNTRAINED
from harness.work.failures import parse_time_limit
from harness.work.tracking.base import describe_places

if TYPE_CHECKING:
    from harness.planning.plan import Plan, RunState
    from harness.reporting.results import Results

_STATES: dict[RunState, str] = {
    "done": "trained and evaluated",
    "running": "in another process, or in SLURM",
    "queued": "submitted to SLURM, not yet started",
    "trained": "some suites are not yet evaluated",
    "failed": "the line shows the error, or how SLURM ended the job",
    "missing": "not yet trained, or to be trained again; the line shows why",
    "damaged": "its result cannot be read; restore it or move it away",
    "newer": "its result was written by a newer harness; update this one",
}
_STATE_LINES = [f"{name:9} {text}" for name, text in _STATES.items()]


@click.command(cls=GroupedOptions)
@options_of(Selection)
@options_of(Execution)
@click.option(
    "--executor-option",
    "executor_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the executor.",
)
@click.option("--address", metavar="HOST:PORT", help="Executor ray: the head of the cluster.")
@click.option(
    "--no-shared-folder",
    is_flag=True,
    help="Executor ray: nodes send their results to this command.",
)
@click.option(
    "--slurm",
    "slurm_table",
    metavar="FILE.toml",
    help="Executor slurm: file with a table [slurm], the options of the jobs.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Executor slurm: wait for the jobs; stopping this command stops them too.",
)
@click.option(
    "--fetch", is_flag=True, help="First download missing data and models, as `harness fetch` does."
)
@accept_option
@click.option("--dry-run", is_flag=True, help="Print the plan and stop.")
@click.option(
    "--inputs",
    "all_inputs",
    is_flag=True,
    help="Print all that lies in each input, and what was read of it.",
)
@click.pass_context
def run(
    context: click.Context,
    /,
    fetch: bool,
    accept_licences: list[str],
    dry_run: bool,
    all_inputs: bool,
    track: str,
    **options: Any,
) -> None:
    """Train and evaluate a grid of runs.

    A grid combines methods, settings, encoders and seeds. Finished runs are skipped, interrupted
    runs resume. With --redo, old results move to RESULTS/.superseded first; after a stop, the
    command without --redo goes on.
    """
    waiting("planning: methods, data, encoders and finished runs")
    from harness import api
    from harness.planning.encoders import try_encoders

    places = describe_places(track, options["results"])  # before anything is fetched
    if options["run_timeout"]:
        options["run_timeout"] = parse_time_limit(options["run_timeout"])
    own = options["executor_options"] = _executor_options(options)
    how = {each.name: options.pop(each.name) for each in fields(Execution) if each.name in options}
    if how["executor"] or own:
        from harness.work.base import check_executor

        check_executor(Execution(**how))
    if fetch:
        from harness.cli.data import bring

        bring(api.to_fetch(api.plan(**options)), accept_licences, dry_run)
    plan = try_encoders(api.plan(**options))
    _describe(plan, places, all_inputs=all_inputs)
    if plan.todo and how["executor"] in (None, "local"):
        describe_cards(len(plan.todo), how["jobs"], how["device"])
    if dry_run:
        _refuse(context, plan)
    else:
        _show_results(context, plan, api.execute(plan, track=list(places), progress=True, **how))


def _executor_options(options: dict[str, Any]) -> dict[str, str]:
    """The executor's own options, including those that are options of the command."""
    own = parse_texts(options["executor_options"], "--executor-option", "partition=gpu")
    named = {
        "address": options.pop("address"),
        "shared-folder": "no" if options.pop("no_shared_folder") else "",
        "table": options.pop("slurm_table"),
        "wait": "yes" if options.pop("wait") else "",
    }
    return own | {key: value for key, value in named.items() if value}


@click.command("eval")
@click.argument("model", metavar="[MODEL]", required=False)
@names_option("--encoders", "E,NAME=DIR", "More models, named as in `harness run --encoders`.")
@names_option(
    "--pooling", "NAME", "Pooling of token vectors: cls, mean, ... (default: the model's own)."
)
@click.option(
    "--name", metavar="NAME", help="Name for the model of a folder (default: from its path)."
)
@click.option(
    "--trust-remote-code", is_flag=True, help="Allow code from the model's repository to run."
)
@options_of(Selection, "suites", "tasks", "profile", "results", "data_root")
@options_of(Execution, "device", "track")
@click.pass_context
def evaluate(
    context: click.Context, /, model: str | None, device: DeviceChoice, track: str, **options: Any
) -> None:
    """Evaluate saved models, or evaluate a run on more suites.

    MODEL is a folder that transformers or sentence-transformers saved, a hub name
    OWNER/NAME[@COMMIT], or the key of a run. Scores are stored and shown with those of runs; a
    model from outside is the run `none[pooling=...]`. --encoders names more models, or the folder
    of a run's encoder.
    """
    waiting("planning: models, suites and their data")
    from harness import api
    from harness.planning.encoders import try_encoders

    places = describe_places(track, options["results"])
    plan = try_encoders(api.plan_model(model, **options))
    _describe(plan, places)
    _show_results(
        context, plan, api.execute(plan, device=device, track=list(places), progress=True)
    )


@click.command(
    cls=GroupedOptions,
    help="\n".join(["Show the state of each run of a grid.\n", "\b", *_STATE_LINES]),
)
@options_of(Selection, without=["redo"])
@click.pass_context
def status(context: click.Context, /, **grid: Any) -> None:
    """Print a plan and the states of its runs."""
    from harness import api
    from harness.store import describe_earlier_backends
    from harness.store.tunings import read_tunings
    from harness.work.base import run_states

    plan = api.plan(**grid)
    _describe(plan)
    for state, key, text in run_states(plan):
        echo(f"{state:8} {key}  {text}".rstrip())
    shown = {run.problem for run in plan.damaged}
    warn(
        line for line in (*plan.frames.problems, *read_tunings(plan.store)[1]) if line not in shown
    )
    if line := describe_earlier_backends(plan.frames):
        echo(f"earlier  {line}")
    _refuse(context, plan)


def _describe(
    plan: Plan, trackers: Mapping[str, str] = MappingProxyType({}), *, all_inputs: bool = False
) -> None:
    """Print the number of runs, how many are done, their inputs, what is skipped or missing, an
    estimate, and trackers.
    """
    echo(plan.counts)
    inputs = _inputs(plan, all_inputs=all_inputs)
    recorded = (f"tracker   {name}: {address}" for name, address in trackers.items())
    for line in (*_axes(plan), *inputs, *_problems(plan), *_estimate(plan), *recorded):
        echo(f"  {line}")


def _inputs(plan: Plan, *, all_inputs: bool) -> Iterator[str]:
    """A line for each input whose rows are counted; or for each input, and for all that lies in it."""
    for census in plan.inputs:
        if all_inputs or census.rows is not None or census.images is not None:
            yield f"input     {census.line}"
        if all_inputs:
            yield from (f"            {line}" for line in census.details)


def describe_cards(runs: int, jobs: Jobs | None, device: DeviceChoice) -> None:
    """Print the GPUs of this machine, and the runs on each; nothing on the CPU."""
    from harness.runs.execution import pick_device

    if device == "cpu" or pick_device("auto") == "cpu":
        return
    from harness.work.resources import count_runs_on_card, list_visible_cards

    cards = len(list_visible_cards())
    runs_on_card = count_runs_on_card(cards, min(jobs, runs) if isinstance(jobs, int) else runs)
    echo(
        f"  devices   {count_of(cards, 'GPU')}, {count_of(runs_on_card, 'run')} each where memory allows"
    )


def _axes(plan: Plan) -> Iterator[str]:
    """Lines on the grid and on the progress of each table and figure; a run that two of them share
    counts in both.
    """
    request = plan.request
    trained = [spec for spec in request.wanted if spec.setting.name != UNTRAINED]
    axes: dict[str, Sequence[object]] = {
        "methods": request.methods,
        "settings": [spec.setting for spec in trained],
        "encoders": request.encoders,
        "seeds": [spec.seed for spec in trained],
        "suites": request.suites,
        "tasks": request.tasks,
        "set": [f"{key}={value}" for key, value in request.overrides.items()],
    }
    for name, values in axes.items():
        if values:
            yield f"{name:9} {', '.join(map(str, dict.fromkeys(values)))}"
    if request.tuning:
        spaces = " and of ".join(method.typed for method in request.tuning.methods)
        chosen = f", chosen by {request.tuning.sampler}" if request.tuning.sampler else ""
        yield f"{'tune':9} {count_of(request.tuning.trials, 'configuration')} each of {spaces}{chosen}"
    done = {run.resolved.spec for run in plan.done}
    for name, specs in request.entries.items():
        yield f"{name:12} {count_of(len(specs), 'run')}, {sum(spec in done for spec in specs)} done"
    yield from _claims(plan)


def _claims(plan: Plan) -> Iterator[str]:
    """A line for each claim that the runs decide, with what they will be able to show."""
    from harness.reporting.seeds.claims import describe_weak_terms

    for claim in plan.request.claims:
        weak = describe_weak_terms(claim, plan.frames, plan.request.profile)
        yield f"claim     {claim.describe()}" + (f"; it {weak}" if weak else "")


def _problems(plan: Plan) -> Iterator[str]:
    from harness.planning.missing import (
        find_costly_suites,
        list_missing,
        list_missing_encoders,
        make_fetch_command,
        make_fetch_list,
    )

    yield from (f"error     {line}" for line in plan.errors)
    yield from _skipped(plan)
    yield from (f"warning   {line}" for line in plan.warnings)
    for run in plan.damaged:
        yield f"{run.state:9} {run.problem}"
    if line := _without_baseline(plan):
        yield line
    if not plan.request.claims:  # each has the seeds that it needs
        yield from unequal_seeds_lines(plan)
    for state, note in dict.fromkeys((run.state, run.note) for run in plan.todo if run.note):
        runs = [run for run in plan.todo if run.note == note]
        changed = {"; ".join(run.changed) for run in runs}
        what = f" ({one_line(*changed)})" if len(changed) == 1 and changed != {""} else ""
        yield f"{state:9} {len(runs)}: {note}{what}"
    for item in plan.missing:
        # where a file of the user's own was looked for
        is_own = f"'./{item.what}'" in item.how
        yield f"missing   {f'{item.what}: {item.how}' if is_own else item.what}"
    for encoder in list_missing_encoders(plan):
        yield f"or        --encoders {encoder}=FOLDER, where the model is already on this machine"
    listed = make_fetch_list(list_missing(plan), plan.inventory.root, ask=False)
    if listed.items:
        items = count_of(len(listed.items), "item")
        yield f"fetch     `{make_fetch_command(plan)}` downloads {items}, {listed.size_text}"
        yield from (f"download  {line}" for line in find_costly_suites(plan))
    for manual in listed.by_hand:
        yield f"by hand   {manual.what}: {manual.how}"


def _skipped(plan: Plan) -> Iterator[str]:
    """Lines on runs that no method can use, and on suites without data."""
    for skip in plan.skipped:
        yield f"skipping  {skip.what}: {skip.why}"
    for name, missing in plan.without_data.items():
        first = missing[0].what
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield f"skipping suite {name}: {count_of(len(missing), 'input')} missing ({first}{more})"


def _refuse(context: click.Context, plan: Plan) -> None:
    """Print what is wrong with a plan's inputs. Sets exit code 2 if anything is."""
    for line in plan.errors:
        complain(line)
    if plan.errors:
        context.exit(2)


def _without_baseline(plan: Plan) -> str:
    """A hint to add the baseline, if neither the grid nor the folder of results has it; else empty."""
    request = plan.request
    trained = [run for run in plan.todo if run.resolved.trains]
    if (
        not trained
        or not request.strict
        or any(method.name == BASELINE for method in request.methods)
    ):
        return ""
    if len(plan.frames.where(variant=[BASELINE], profile=[request.profile.name])):
        return ""
    return f"baseline  add {BASELINE} to the methods: without its runs in {plan.store.root} no gain is tested"


def unequal_seeds_lines(plan: Plan) -> Iterator[str]:
    """A line for each place in which variants would have unequal numbers of seeds."""
    for place, variants in plan.unequal_seeds.items():
        counts = ", ".join(f"{variant} {len(seeds)}" for variant, seeds in variants.items())
        every = sorted(set().union(*variants.values()))
        seeds = ",".join(map(str, every))
        if every == list(range(len(every))):
            seeds = str(len(every))
        yield f"seeds     unequal in {place}: {counts}; `--seeds {seeds}` makes them equal"


def _estimate(plan: Plan) -> Iterator[str]:
    if not plan.todo:
        return
    from harness.fetching import format_size
    from harness.planning.estimate import estimate, estimate_model_bytes
    from harness.planning.missing import describe_disk_need, list_missing

    expected = estimate(plan)
    if expected is None:
        return
    if expected.here is not None:
        each = f" ({fixed(expected.here / 3600, 1)} device-hours)" if plan.request.entries else ""
        yield f"estimate  about {duration(expected.here)}{each}, one run at a time; from finished runs of this profile"
    elif expected.h200 is not None and any(run.resolved.trains for run in plan.todo):
        yield (
            f"estimate  about {_hours(expected.h200)} on one H200, one run at a time; by arithmetic, not measured "
            f"({page_of('reproduce.md')})"
        )
        inputs = describe_disk_need(list_missing(plan))
        yield f"disk      {inputs} to bring, {format_size(estimate_model_bytes(plan))} of models that stay"


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{fixed(hours, 1) if hours < 10 else format(hours, ',.0f')} h"


def _show_results(context: click.Context, plan: Plan, results: Results) -> None:
    """Print the scores of a plan's runs, and once more what it leaves out.

    Sets exit code 2 for a wrong input, and 1 where a run failed or its result is damaged.
    """
    if not plan.todo:
        echo(
            f"nothing to do: every {'other ' if plan.damaged or plan.errors else ''}run of this plan is finished"
        )
    if len(results):
        from harness.planning.present import Present
        from harness.store.tunings import resume_tuning

        in_folder = read_results(plan.store.root, named={run.problem for run in plan.damaged})
        judged = in_folder.frames.judge_by(Present(plan.store.root, inventory=plan.inventory))
        profile = plan.request.profile.name
        stored = replace(in_folder, runs=judged).of_profile(profile)
        lacking = show_summaries(results.runs, stored.runs)
        if plan.request.tuning:
            mine = {run.fingerprint for run in results.runs}
            runs = stored.frames.runs
            kept = (runs["setting"] == UNTRAINED) | runs["fingerprint"].isin(mine)
            tried = replace(stored, runs=stored.frames.take_rows(runs.index[kept].tolist()))
            show_tuning(resume_tuning(plan.store, plan.request.tuning), tried)
        if plan.request.entries:
            show_paper_tables(plan.request.entries, stored)
        if line := stored.commands.untrained(profile, lacking):
            echo(line)
        specs = [run.resolved.spec for run in plan.done + plan.todo]
        places = {f"{spec.setting} / {spec.encoder}" for spec in specs}
        following = "" if plan.request.claims else show_answers(stored, places)
        if following:
            echo(f"next: {following}")
    if plan.todo and not _show_submitted(plan, results):
        folder = results.folder
        echo(f"results are in {folder}; `{harness_command('report', results=folder)}` renders them")
    for line in _skipped(plan):
        echo(line)
    if len(results):
        _show_claims(plan, stored)
    if plan.damaged:
        echo(
            f"{count_of(len(plan.damaged), 'run')} skipped: their results cannot be used (see above)",
            err=True,
        )
    if results.failures:
        ended = len(results) + len(results.failures) - len(plan.done)
        echo(
            f"{len(results.failures)} of {ended} runs failed; `harness status` with the same options lists "
            f"them, `harness show RUN` prints the traceback of one, running {_again(plan)} retries them",
            err=True,
        )
    _refuse(context, plan)
    if results.failures or plan.damaged:
        context.exit(1)


def _show_claims(plan: Plan, stored: Results) -> None:
    """Print the verdict on each claim of a plan."""
    from harness.reporting.seeds.claims import answer_claim
    from harness.store import format_overrides

    request = plan.request
    overrides = format_overrides(request.overrides)
    for claim in request.claims:
        answer = answer_claim(claim, stored.tables, request.profile, overrides, stored.commands)
        echo(f"{claim.claim.text}, {claim.where}: {answer.verdict or 'not decided'}")
        echo(f"  {answer.words}")


def _again(plan: Plan) -> str:
    """What to type so that a plan goes on."""
    return "the same command without --redo" if plan.request.selection.redo else "the same command"


def _show_submitted(plan: Plan, results: Results) -> bool:
    """Print how many runs of a plan are in a batch system; return whether there are any."""
    from harness.work.base import find_submitted_jobs

    jobs = find_submitted_jobs(plan, results.runs)
    if not jobs:
        return False
    numbers = " ".join(sorted({job.id.partition("_")[0] for job in jobs}, key=int))
    echo(
        f"{count_of(len(jobs), 'run')} in {jobs[0].system}: `harness status` with the same options shows where they "
        f"are, running {_again(plan)} again follows them, `scancel {numbers}` cancels them"
    )
    return True
