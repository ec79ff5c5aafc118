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
    tell_waiting,
    warn,
)
from harness.command_line import Selection, harness_command, parse_texts
from harness.documents import find_page
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
    tell_waiting("planning: methods, data, encoders and finished runs")
    from harness import api
    from harness.planning.encoders import try_encoders

    places = describe_places(track, options["results"])  # before anything is fetched
    if options["run_timeout"]:
        options["run_timeout"] = parse_time_limit(options["run_timeout"])

    executor_options = _collect_executor_options(options)
    options["executor_options"] = executor_options
    execution = {
        field.name: options.pop(field.name) for field in fields(Execution) if field.name in options
    }
    if execution["executor"] or executor_options:
        from harness.work.base import check_executor

        check_executor(Execution(**execution))

    if fetch:
        from harness.cli.data import bring

        bring(api.to_fetch(api.plan(**options)), accept_licences, dry_run)

    plan = api.plan(**options)
    if plan.todo and not dry_run:
        from harness.work.base import prepare_executor

        prepare_executor(execution["executor"])
    plan = try_encoders(plan)
    _describe_plan(plan, places, all_inputs=all_inputs)
    if plan.todo and execution["executor"] in (None, "local"):
        describe_cards(len(plan.todo), execution["jobs"], execution["device"])

    if dry_run:
        _refuse_wrong_inputs(context, plan)
        return
    results = api.execute(plan, track=list(places), progress=True, **execution)
    _show_results(context, plan, results)


def _collect_executor_options(options: dict[str, Any]) -> dict[str, str]:
    """The executor's own options, including those that are options of the command."""
    executor_options = parse_texts(
        options["executor_options"], "--executor-option", "partition=gpu"
    )
    address = options.pop("address")
    slurm_table = options.pop("slurm_table")
    if address:
        executor_options["address"] = address
    if options.pop("no_shared_folder"):
        executor_options["shared-folder"] = "no"
    if slurm_table:
        executor_options["table"] = slurm_table
    if options.pop("wait"):
        executor_options["wait"] = "yes"
    return executor_options


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
    tell_waiting("planning: models, suites and their data")
    from harness import api
    from harness.planning.encoders import try_encoders

    places = describe_places(track, options["results"])
    plan = try_encoders(api.plan_model(model, **options))
    _describe_plan(plan, places)
    results = api.execute(plan, device=device, track=list(places), progress=True)
    _show_results(context, plan, results)


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
    _describe_plan(plan)
    for state, key, text in run_states(plan):
        echo(f"{state:8} {key}  {text}".rstrip())

    shown = {run.problem for run in plan.damaged}
    _, tuning_problems = read_tunings(plan.store)
    problems = (*plan.frames.problems, *tuning_problems)
    warn(line for line in problems if line not in shown)

    earlier = describe_earlier_backends(plan.frames)
    if earlier:
        echo(f"earlier  {earlier}")
    _refuse_wrong_inputs(context, plan)


def _describe_plan(
    plan: Plan, trackers: Mapping[str, str] = MappingProxyType({}), *, all_inputs: bool = False
) -> None:
    """Print the number of runs, how many are done, their inputs, what is skipped or missing, an
    estimate, and trackers.
    """
    echo(plan.counts)
    lines = [*_list_axes(plan), *_list_inputs(plan, all_inputs=all_inputs)]
    lines += _list_problems(plan)
    lines += _list_estimates(plan)
    lines += [f"tracker   {name}: {address}" for name, address in trackers.items()]
    for line in lines:
        echo(f"  {line}")


def _list_inputs(plan: Plan, *, all_inputs: bool) -> Iterator[str]:
    """A line for each input whose rows are counted; or for each input, and for all that lies in it."""
    for census in plan.inputs:
        if all_inputs or census.rows is not None or census.images is not None:
            yield f"input     {census.line}"
        if all_inputs:
            for line in census.details:
                yield f"            {line}"


def describe_cards(runs: int, jobs: Jobs | None, device: DeviceChoice) -> None:
    """Print the GPUs of this machine, and the runs on each; nothing on the CPU."""
    from harness.runs.execution import pick_device

    if device == "cpu" or pick_device("auto") == "cpu":
        return
    from harness.work.resources import count_runs_on_card, list_visible_cards

    cards = len(list_visible_cards())
    runs_at_once = min(jobs, runs) if isinstance(jobs, int) else runs
    runs_on_card = count_runs_on_card(cards, runs_at_once)
    echo(
        f"  devices   {count_of(cards, 'GPU')}, {count_of(runs_on_card, 'run')} each where memory allows"
    )


def _list_axes(plan: Plan) -> Iterator[str]:
    """Lines on the grid and on the progress of each table and figure; a run that two of them share
    counts in both.
    """
    request = plan.request
    trained = [spec for spec in request.suites_by_run if spec.setting.name != UNTRAINED]
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

    tuning = request.tuning
    if tuning:
        spaces = " and of ".join(method.typed for method in tuning.methods)
        sampler = f", chosen by {tuning.sampler}" if tuning.sampler else ""
        configurations = count_of(tuning.trials, "configuration")
        yield f"{'tune':9} {configurations} each of {spaces}{sampler}"

    done = {run.resolved.spec for run in plan.done}
    for name, specs in request.entries.items():
        done_of_entry = sum(spec in done for spec in specs)
        yield f"{name:12} {count_of(len(specs), 'run')}, {done_of_entry} done"
    yield from _list_claims(plan)


def _list_claims(plan: Plan) -> Iterator[str]:
    """A line for each claim that the runs decide, with what they will be able to show."""
    from harness.reporting.seeds.claims import describe_weak_terms

    for claim in plan.request.claims:
        line = f"claim     {claim.describe()}"
        weak_terms = describe_weak_terms(claim, plan.frames, plan.request.profile)
        if weak_terms:
            line += f"; it {weak_terms}"
        yield line


def _list_problems(plan: Plan) -> Iterator[str]:
    """Lines on what is wrong, skipped, unequal or missing, and on how to get what is missing."""
    for line in plan.errors:
        yield f"error     {line}"
    yield from _list_skipped(plan)
    for line in plan.warnings:
        yield f"warning   {line}"
    for run in plan.damaged:
        yield f"{run.state:9} {run.problem}"

    baseline = _suggest_baseline(plan)
    if baseline:
        yield baseline
    if not plan.request.claims:  # each has the seeds that it needs
        yield from list_unequal_seeds(plan)
    yield from _list_notes(plan)
    yield from _list_missing_inputs(plan)


def _list_notes(plan: Plan) -> Iterator[str]:
    """A line for each note on runs to do, with what has changed where it is the same for all."""
    notes = dict.fromkeys((run.state, run.note) for run in plan.todo if run.note)
    for state, note in notes:
        runs = [run for run in plan.todo if run.note == note]
        changes = {"; ".join(run.changed) for run in runs}
        change = changes.pop() if len(changes) == 1 else ""
        change = f" ({one_line(change)})" if change else ""
        yield f"{state:9} {len(runs)}: {note}{change}"


def _list_missing_inputs(plan: Plan) -> Iterator[str]:
    from harness.planning.missing import (
        find_costly_suites,
        list_missing,
        list_missing_encoders,
        make_fetch_command,
        make_fetch_list,
    )

    for item in plan.missing:
        # where a file of the user's own was looked for
        is_own = f"'./{item.what}'" in item.how
        yield f"missing   {f'{item.what}: {item.how}' if is_own else item.what}"
    for encoder in list_missing_encoders(plan):
        yield f"or        --encoders {encoder}=FOLDER, where the model is already on this machine"

    downloads = make_fetch_list(list_missing(plan), plan.inventory.root, ask=False)
    if downloads.items:
        items = count_of(len(downloads.items), "item")
        yield f"fetch     `{make_fetch_command(plan)}` downloads {items}, {downloads.size_text}"
        for line in find_costly_suites(plan):
            yield f"download  {line}"
    for manual in downloads.by_hand:
        yield f"by hand   {manual.what}: {manual.how}"


def _list_skipped(plan: Plan) -> Iterator[str]:
    """Lines on runs that no method can use, and on suites without data."""
    for skip in plan.skipped:
        yield f"skipping  {skip.what}: {skip.why}"
    for name, missing in plan.without_data.items():
        inputs = missing[0].what
        if len(missing) > 1:
            inputs += f" and {len(missing) - 1} more"
        yield f"skipping suite {name}: {count_of(len(missing), 'input')} missing ({inputs})"


def _refuse_wrong_inputs(context: click.Context, plan: Plan) -> None:
    """Print what is wrong with a plan's inputs. Sets exit code 2 if anything is."""
    for line in plan.errors:
        complain(line)
    if plan.errors:
        context.exit(2)


def _suggest_baseline(plan: Plan) -> str:
    """A hint to add the baseline, if neither the grid nor the folder of results has it; else empty."""
    request = plan.request
    if not request.strict or not any(run.resolved.trains for run in plan.todo):
        return ""
    if any(method.name == BASELINE for method in request.methods):
        return ""
    if len(plan.frames.where(variant=[BASELINE], profile=[request.profile.name])):
        return ""
    return f"baseline  add {BASELINE} to the methods: without its runs in {plan.store.root} no gain is tested"


def list_unequal_seeds(plan: Plan) -> Iterator[str]:
    """A line for each place in which variants would have unequal numbers of seeds."""
    for place, seeds_by_variant in plan.unequal_seeds.items():
        counts = ", ".join(f"{name} {len(seeds)}" for name, seeds in seeds_by_variant.items())
        all_seeds = sorted(set().union(*seeds_by_variant.values()))
        option = ",".join(map(str, all_seeds))
        if all_seeds == list(range(len(all_seeds))):
            option = str(len(all_seeds))
        yield f"seeds     unequal in {place}: {counts}; `--seeds {option}` makes them equal"


def _list_estimates(plan: Plan) -> Iterator[str]:
    """Lines on the time that a plan takes, and on the disk space for claims and tables, and for an
    estimate without finished runs.
    """
    if not plan.todo:
        return
    from harness.planning.estimate import estimate

    expected = estimate(plan)
    is_on_h200 = False
    if expected is not None and expected.here is not None:
        time = duration(expected.here)
        if plan.request.entries:
            time += f" ({fixed(expected.here / 3600, 1)} device-hours)"
        yield f"estimate  about {time}, one run at a time; from finished runs of this profile"
    elif expected is not None and expected.h200 is not None:
        is_on_h200 = any(run.resolved.trains for run in plan.todo)
        if is_on_h200:
            yield (
                f"estimate  about {_format_hours(expected.h200)} on one H200, one run at a time; by arithmetic, not "
                f"measured ({find_page('reproduce.md')})"
            )

    if plan.request.entries or is_on_h200:
        yield _describe_disk(plan)


def _describe_disk(plan: Plan) -> str:
    """The disk for missing inputs, however they are brought, and for the models that are kept."""
    from harness.fetching import format_size
    from harness.planning.estimate import estimate_model_bytes
    from harness.planning.missing import describe_disk_need, list_missing

    inputs = describe_disk_need(list_missing(plan))
    models = format_size(estimate_model_bytes(plan))
    return f"disk      {inputs} to bring, {models} of models that stay"


def _format_hours(seconds: float) -> str:
    hours = seconds / 3600
    if hours < 10:
        return f"{fixed(hours, 1)} h"
    return f"{hours:,.0f} h"


def _show_results(context: click.Context, plan: Plan, results: Results) -> None:
    """Print the scores of a plan's runs, and once more what it leaves out.

    Sets exit code 2 for a wrong input, and 1 where a run failed or its result is damaged.
    """
    if not plan.todo:
        others = "other " if plan.damaged or plan.errors else ""
        echo(f"nothing to do: every {others}run of this plan is finished")

    stored = None
    if len(results):
        stored = _read_stored_results(plan)
        _show_scores(plan, results, stored)
    if plan.todo and not _show_submitted(plan, results):
        folder = results.folder
        echo(f"results are in {folder}; `{harness_command('report', results=folder)}` renders them")

    for line in _list_skipped(plan):
        echo(line)
    if stored is not None:
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
            f"them, `harness show RUN` prints the traceback of one, running {_name_next_command(plan)} retries them",
            err=True,
        )
    _refuse_wrong_inputs(context, plan)
    if results.failures or plan.damaged:
        context.exit(1)


def _read_stored_results(plan: Plan) -> Results:
    """All results of the plan's profile in its folder, each judged by what the plan would make."""
    from harness.planning.present import Present

    results = read_results(plan.store.root, shown={run.problem for run in plan.damaged})
    judged = results.frames.judge_by(Present(plan.store.root, inventory=plan.inventory))
    return replace(results, runs=judged).of_profile(plan.request.profile.name)


def _show_scores(plan: Plan, results: Results, stored: Results) -> None:
    """Print the tables of a plan's runs, answers, and what to run next."""
    request = plan.request
    without_untrained = show_summaries(results.runs, stored.runs)
    if request.tuning:
        from harness.store.tunings import resume_tuning

        fingerprints = {run.fingerprint for run in results.runs}
        runs = stored.frames.runs
        is_kept = (runs["setting"] == UNTRAINED) | runs["fingerprint"].isin(fingerprints)
        frames = stored.frames.take_rows(runs.index[is_kept].tolist())
        show_tuning(resume_tuning(plan.store, request.tuning), replace(stored, runs=frames))
    if request.entries:
        show_paper_tables(request.entries, stored)

    untrained = stored.commands.explain_untrained(request.profile.name, without_untrained)
    if untrained:
        echo(untrained)
    if request.claims:
        return  # their verdicts follow

    specs = [run.resolved.spec for run in plan.done + plan.todo]
    next_command = show_answers(stored, {f"{spec.setting} / {spec.encoder}" for spec in specs})
    if next_command:
        echo(f"next: {next_command}")


def _show_claims(plan: Plan, stored: Results) -> None:
    """Print the verdict on each claim of a plan."""
    from harness.reporting.seeds.claims import judge_planned_claim
    from harness.store import format_overrides

    request = plan.request
    overrides = format_overrides(request.overrides)
    for claim in request.claims:
        answer = judge_planned_claim(
            claim, stored.tables, request.profile, overrides, stored.commands
        )
        echo(f"{claim.claim.text}, {claim.where}: {answer.verdict or 'not decided'}")
        echo(f"  {answer.words}")


def _name_next_command(plan: Plan) -> str:
    """What to type so that a plan goes on."""
    return "the same command without --redo" if plan.request.selection.redo else "the same command"


def _show_submitted(plan: Plan, results: Results) -> bool:
    """Print how many runs of a plan are in a batch system; return whether there are any."""
    from harness.work.base import find_submitted_jobs

    jobs = find_submitted_jobs(plan, results.runs)
    if not jobs:
        return False

    numbers = {job.id.partition("_")[0] for job in jobs}
    echo(
        f"{count_of(len(jobs), 'run')} in {jobs[0].system}: `harness status` with the same options shows where they "
        f"are, running {_name_next_command(plan)} again follows them, `scancel {' '.join(sorted(numbers, key=int))}` "
        "cancels them"
    )
    return True
