"""Functions for notebooks and scripts that plan, run and evaluate; the command line calls them too.

    import harness

    finished = harness.run("tiny", methods=["simcse", "mcse"], seeds=3)
    finished.frame                                  # a pandas frame, one row per score
    finished.compare("mcse", "simcse", "sts.Avg")   # every test over their seeds
    model = harness.load_model("mcse/toy/toy-bert/seed-0")
    model.encode(["a red circle"])                  # float32 (1, d)

They print nothing unless `progress` is set. Mistakes in the input raise `UserError`, whose message
is one line that names the mistake. Functions that read results are in `harness.reading`. `import
harness` is quick: torch and pandas are imported by the first function that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

import numpy as np

from harness.command_line import (
    DEFAULT_DEVICE,
    DEFAULT_PROFILE,
    DEFAULT_RESULTS,
    Names,
    Selection,
)
from harness.encoders.modules import find_pooling
from harness.encoders.sentence_model import SentenceModel
from harness.errors import MissingData, UserError
from harness.events import Listener, forward_to_both
from harness.fetching import show_downloads
from harness.fetching.downloads import FetchList
from harness.files import expand
from harness.formatting import count_of
from harness.planning.encoders import try_encoders
from harness.planning.missing import explain_how_to_get, list_missing, make_fetch_list
from harness.planning.overlaps import Overlaps, find_overlaps
from harness.planning.plan import Plan, find_suites_without_data, make_plan
from harness.planning.request import (
    make_inventory,
    make_model_request,
    make_request,
    select_settings,
    select_suites,
)
from harness.processors import make_threads_passive
from harness.runs.execution import DeviceChoice, Execution, pick_device
from harness.store import Failure, Result, Store
from harness.store.tunings import Tuning, save_tuning
from harness.tomlfiles import check_arguments, check_call
from harness.work.base import execute as execute_plan
from harness.work.base import prepare_executor
from harness.work.failures import parse_time_limit
from harness.work.progress import display
from harness.work.tracking.base import find_trackers
from harness.work.tracking.listener import track_runs

if TYPE_CHECKING:
    import pandas

    from harness.reporting.results import Results

#: n sentences -> n rows of floats, (n, d)
SentenceFunction = Callable[[Sequence[str]], np.ndarray]
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class PlanToExecute(Execution):
    """A plan, and how its runs are executed."""

    plan: Plan


@dataclass(frozen=True)
class SelectionToExecute(Execution, Selection):
    """A selection, and how its runs are executed."""


def _take_fields_of(kind: Callable[P, S]) -> Callable[[Callable[[S], T]], Callable[P, T]]:
    """Make a function of one object take the object's fields as keywords, and add their help texts
    to its docstring.
    """

    def decorate(function: Callable[[S], T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            values = check_arguments(kind, f"{function.__name__}()", args, keywords, "argument")
            return function(kind(**values))  # type: ignore[call-arg]

        described: Any = call
        parameters = list(signature(kind).parameters.values())
        described.__signature__ = signature(call).replace(parameters=parameters)
        helps = [
            f"- `{field.name}`: {field.metadata['help']}"
            for field in fields(cast(Any, kind))
            if field.metadata
        ]
        described.__doc__ = "\n\n".join([cleandoc(str(call.__doc__)), "\n".join(helps)])
        return call

    return decorate


@_take_fields_of(Selection)
def plan(selection: Selection) -> Plan:
    """Plan the runs of a selection: which are done, which are to do, and what is missing. Trains
    nothing.

    Names are a sequence, or one text with commas; a profile may be a path to a TOML file, an
    encoder `NAME=FOLDER` or `NAME=run:KEY`, the model of an earlier run. `set` is a mapping or
    KEY=VALUE texts; a list of values, {"lambda": [0.1, 1]}, makes a variant for each, as
    "mcse[lambda=0.1|1]" does. `tune` ("mcse:lambda=0.01|0.1|1,temperature=0.05|0.1", or several
    such texts) runs `trials` configurations of each method, in addition to `methods` if given;
    reports compare them at equal budgets. With a `sampler`, a plan has the trials chosen so far,
    and `execute` chooses further ones when these are done. With `redo`, `execute` first moves old
    results to RESULTS/.superseded.

    >>> import harness
    >>> for planned in harness.plan("tiny", methods="simcse,mcse", seeds=1).runs:
    ...     print(planned.state, planned.key)
    missing simcse/toy/toy-bert/seed-0
    missing mcse/toy/toy-bert/seed-0

    Raises UserError for an unknown name.
    """
    make_threads_passive()  # before torch is imported
    return _make_plan_with_trials(selection)


def _make_plan_with_trials(selection: Selection, search: Tuning | None = None) -> Plan:
    """The plan of a selection; where the runs of its search are done, with the next trials."""
    plan = make_plan(make_request(selection, search), Store(Path(selection.results)))
    tuning = plan.request.tuning
    if tuning is None or tuning.sampler is None or plan.todo or plan.damaged:
        return plan

    results = [run.result for run in plan.done if run.result]
    next_tuning = tuning.next_round(results)
    if next_tuning == tuning:
        return plan
    return _make_plan_with_trials(selection, next_tuning)


@_take_fields_of(SelectionToExecute)
def run(selection: SelectionToExecute) -> Results:
    """Train and evaluate the runs of a selection (see `plan`) and return their results.

    Finished runs are read from the folder of results, interrupted runs resume. Failed runs are in
    `.failures`; the others continue. How runs are executed is explained at `execute`.

    >>> import harness
    >>> finished = harness.run(
    ...     "tiny", methods=["simcse", "mcse"], seeds=1, suites="sts", set={"steps": 4}
    ... )
    >>> len(finished), finished.failures
    (2, ())

    Raises UserError for an unknown name and if every run is skipped, and MissingData for missing
    inputs, before anything is trained.
    """
    return execute(plan(**_get_fields(Selection, selection)), **_get_fields(Execution, selection))


def _get_fields(kind: type, values: object) -> dict[str, Any]:
    """The values of an object's fields that the class `kind` declares."""
    return {field.name: getattr(values, field.name) for field in fields(kind)}


@_take_fields_of(PlanToExecute)
def execute(how: PlanToExecute) -> Results:
    """Execute what a plan has to do and return the results of all its runs.

    `device` is "auto", "cpu" or "cuda"; a registered `executor` has `executor_options` of its own
    (default: local). The executor "slurm" submits the runs and returns at once with those that were
    already finished; with its option `wait` "yes" it returns when all have ended. `chunk` costs a
    second forward pass. A run that takes longer than `run_timeout` (seconds, "30m", "1h30m") saves,
    stops and counts as failed; the limit also applies to the preparation of runs, such as tokens or
    features. `progress=True` shows progress in a terminal or a notebook; a function is called with
    every `harness.events.Event`.
    """
    from harness.reporting.results import Results

    plan = how.plan
    for name, value in {"jobs": how.jobs, "chunk": how.chunk}.items():
        if isinstance(value, int) and value < 1:
            raise UserError(f"--{name} {value}: not a positive number; give 1 or more")
    if how.run_timeout is not None:
        parse_time_limit(how.run_timeout)
    _check_inputs(plan)
    if plan.todo:
        prepare_executor(how.executor)
    plan = try_encoders(plan)
    if plan.request.tuning:
        save_tuning(plan.store, plan.request.tuning)

    ends: list[Result | Failure] = [run.result for run in plan.done if run.result]
    trackers = find_trackers(how.track)
    if plan.todo:
        ends += _execute_tracked(plan, how, list(trackers))

    # a search chooses its next trials by the scores of these
    selection = plan.request.selection
    if selection.sampler:
        next_plan = _make_plan_with_trials(replace(selection, redo=False))
        if next_plan.request.tuning != plan.request.tuning:
            return execute(**_get_fields(PlanToExecute, replace(how, plan=next_plan)))

    finished = tuple(end for end in ends if isinstance(end, Result))
    failures = tuple(end for end in ends if isinstance(end, Failure))
    problems = [*plan.errors, *(run.problem for run in plan.damaged)]
    return Results(plan.store, finished, failures, tuple(problems))


def _execute_tracked(
    plan: Plan, how: PlanToExecute, trackers: list[str]
) -> Sequence[Result | Failure]:
    """Execute the runs to do, with their progress shown and tracked as asked for."""
    listen: Listener | Literal[True] = how.progress or (lambda event: None)
    listening: AbstractContextManager[Listener]
    if listen is True:
        fingerprints = {run.key: run.fingerprint for run in plan.todo}
        listening = display(fingerprints, plan.store)
    else:
        listening = nullcontext(listen)
    with track_runs(trackers, plan) as record, listening as show:
        return execute_plan(plan, forward_to_both(show, record), how)


def _check_inputs(plan: Plan) -> None:
    """Raise an error if a run to do cannot load its inputs, or no suite can load its data."""
    if plan.missing:
        problem = f"{count_of(len(plan.missing), 'input')} missing: {plan.missing[0].what}"
        if len(plan.missing) > 1:
            problem += f" (and {len(plan.missing) - 1} more)"
    elif plan.without_data and not any(run.todo for run in plan.todo):
        name, missing = next(iter(plan.without_data.items()))
        problem = f"no suite of this plan has its data; {name} is missing {missing[0].what}"
    else:
        return
    raise MissingData(f"{problem}; {explain_how_to_get(plan)}; the profile `tiny` needs no data")


@check_call
def to_fetch(plan: Plan) -> FetchList:
    """List what `fetch` would download for a plan, with sizes and licences, and what to download
    manually.

    The hub is asked for sizes; where it does not answer, they are approximate or unknown.

    >>> import harness
    >>> listed = harness.to_fetch(harness.plan("tiny"))
    >>> listed.items, listed.by_hand
    ((), ())
    """
    return make_fetch_list(list_missing(plan), plan.inventory.root)


@check_call
def fetch(
    listed: FetchList, *, accept_licences: Names = (), progress: bool = False
) -> dict[str, str]:
    """Download what `to_fetch` listed into the data root and the hub's cache, several items in
    parallel.

    `accept_licences` names the items whose restrictive licences you accept. Returns the reasons of
    failed downloads by name; the others continue. `progress` shows lines or bars on standard error.

    >>> import harness
    >>> harness.fetch(harness.to_fetch(harness.plan("tiny")))
    {}

    Raises UserError, before anything is downloaded, for a licence that is not accepted and a disk
    that is too small.
    """
    names = accept_licences.split(",") if isinstance(accept_licences, str) else accept_licences
    listed.check({name.strip() for name in names})
    if not progress:
        return listed.carry_out(lambda line: None, lambda name: lambda done, total: None)
    with show_downloads() as (say, watch):
        return listed.carry_out(say, watch)


@check_call
def load_model(
    model: str | Path,
    *,
    results: str | Path = DEFAULT_RESULTS,
    profile: str | None = None,
    pooling: str | None = None,
    trust_remote_code: bool = False,
    device: DeviceChoice = DEFAULT_DEVICE,
) -> SentenceModel:
    """Load the best model of a finished run by its key or result file, or a folder.

    A folder is one that was exported, or saved by transformers or sentence-transformers; the
    latter's are loaded by that library, with all modules. `pooling` ("cls", "mean", "last", ...) is
    needed if a folder does not state its own; `trust_remote_code` allows code in the folder to be
    executed. `results` must be the folder in which the run was trained, which has its weights;
    `profile` is needed if the run used a profile file of your own.

    >>> import harness
    >>> _ = harness.run("tiny", methods="mcse", seeds=1, suites="sts", set={"steps": 4})
    >>> model = harness.load_model("mcse/toy/toy-bert/seed-0")
    >>> model.encode(["a red circle", "a blue ring"]).shape
    (2, 64)

    Raises UserError for an unknown run, missing weights and a folder that cannot be read.
    """
    from harness.encoders.sentence_modules import open_model
    from harness.planning.names import find_result
    from harness.runs.finished import FinishedRun

    folder = expand(model)
    if folder.is_dir():
        pooling = pooling or find_pooling(folder)
        if pooling is None:
            raise UserError(
                f"{model} does not state its pooling; give pooling='cls', 'mean' or 'pooler'"
            )
        student = open_model(folder, pooling, trusted=trust_remote_code)
    else:
        result = find_result(str(model), Path(results), profile)
        student = FinishedRun(*result, profile).load_student()
    return SentenceModel(str(model), student.to(pick_device(device)))


@check_call
def evaluate(
    model: SentenceFunction,
    suites: Names | None = None,
    *,
    profile: str = DEFAULT_PROFILE,
    data_root: str | Path | None = None,
) -> pandas.DataFrame:
    """Evaluate a callable from n sentences to n rows, or a loaded model, on suites of a profile.
    Stores nothing.

    Returns one row per score: suite, task, part ("" for the whole task), metric, value. `suites`
    defaults to all of the profile that are not opt-in.

    >>> import harness, numpy
    >>> lengths = lambda sentences: numpy.array([[len(text), 1.0] for text in sentences])
    >>> list(harness.evaluate(lengths, "sts", profile="tiny").columns)
    ['suite', 'task', 'part', 'metric', 'value']

    Raises MissingData if a suite's data is missing, UserError for an unknown suite.
    """
    import pandas

    from harness.evaluation.suites import Embedder

    selection = Selection(profile, suites=suites, data_root=data_root)
    inventory = make_inventory(selection)
    named = select_suites(selection, inventory.profile)
    for name, missing in find_suites_without_data(named, inventory).items():
        raise MissingData(f"the suite {name} has no data: {missing[0]}")

    rows = []
    for name in named:
        scored = inventory.suites[name].evaluate(Embedder(model), inventory.root)
        blocks = [(task, "", values) for task, values in scored.scores.items()]
        for task, parts in scored.parts.items():
            blocks += [(task, part, values) for part, values in parts.items()]
        for task, part, values in blocks:
            rows += [(name, task, part, metric, value) for metric, value in values.items()]
    return pandas.DataFrame(rows, columns=["suite", "task", "part", "metric", "value"])


@check_call
def overlaps(
    profile: str = DEFAULT_PROFILE,
    *,
    settings: Names | None = None,
    suites: Names | None = None,
    data_root: str | Path | None = None,
) -> Overlaps:
    """Count the pairs and images of a profile's tests that are training data of its settings.
    Trains nothing.

    `settings` default to the profile's; `suites` to those that score seen pairs apart or leave out
    seen images. The task that selects checkpoints is compared too.

    >>> import harness
    >>> found = harness.overlaps("tiny", suites="retrieval")
    >>> [(row.task, row.images, row.seen) for row in found.images]
    [('ToyRetrieval', 1000, 0)]

    Raises UserError for an unknown name, MissingData for a missing corpus.
    """
    selection = Selection(profile, settings=settings, suites=suites, data_root=data_root)
    inventory = make_inventory(selection)
    selected_suites = select_suites(selection, inventory.profile) if suites else ()
    selected_settings = select_settings(selection, inventory.profile)
    return find_overlaps(inventory, selected_settings, selected_suites)


@check_call
def plan_model(
    model: str | None = None,
    *,
    encoders: Names | None = None,
    pooling: str | None = None,
    name: str | None = None,
    trust_remote_code: bool = False,
    suites: Names | None = None,
    tasks: Names | None = None,
    profile: str = DEFAULT_PROFILE,
    results: str | Path = DEFAULT_RESULTS,
    data_root: str | Path | None = None,
) -> Plan:
    """Plan the evaluation of saved models on suites, for `execute` to store their scores beside
    those of runs.

    `model` is a folder, a hub name OWNER/NAME[@COMMIT], or the key of a finished run, to which
    suites are added. `encoders` are evaluated too: names of the profile, NAME=FOLDER, or hub names;
    for a run's key, they give the folder of its encoder. `tasks` restricts the suites to these
    tasks, without averages. A model from outside becomes the run `none[pooling=...]`; `pooling`
    defaults to what its files state, "modules" for a sentence-transformers model. A folder's model
    is called `name`, by default the shortest end of its path that no other model has; folders with
    equal content are one run. `trust_remote_code` allows code in the model's repository to be
    executed.
    """
    make_threads_passive()  # before torch is imported
    store = Store(Path(results))
    selection = Selection(
        profile, encoders=encoders, suites=suites, data_root=data_root, tasks=tasks
    )
    request = make_model_request(
        model, pooling, selection, store, trusted=trust_remote_code, name=name
    )
    return make_plan(request, store)
