"""The plan: the runs of a request, which are done, and which inputs are missing, before anything
runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from harness.census import InputCensus
from harness.errors import MissingData, NewerError, PlugInError, UnavailableError, UserError
from harness.formatting import count_of, first_of, one_line
from harness.grid import Resolved, Skipped, UnfitSettingError, resolve_all
from harness.planning.census import make_task_censuses, merge_censuses
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.planning.present import list_changes
from harness.planning.request import Request
from harness.registry import list_plugin_modules
from harness.sources import OWN_FILE, Missing
from harness.store import Failure, Frames, Result, Store
from harness.store.files import NAMED, check_names
from harness.store.folder import find_checkpoint_step, has_training

#: the states of a run in the order of `harness status`; running and queued come from jobs, the
#: others from a plan
RunState = Literal["done", "running", "queued", "trained", "failed", "missing", "damaged", "newer"]
#: states of runs that are not executed
LEFT_ALONE = ("done", "damaged", "newer")
#: notes on unfinished runs: what will be done, and why
UNSCORED = "trained; some suites will be evaluated"
RETRIED = "failed earlier; will retry"
STALE = "results exist for another configuration only; will be trained"
UNSURE = "results exist, perhaps of this run: inputs that are missing belong to its identity"
RESUMED = "interrupted; resumes at step {}"
KEPT = "the saved weights will be evaluated; --redo trains them again"
REDONE = "will be trained again; old results move to .superseded; after a stop the command without --redo goes on"


@dataclass(frozen=True)
class PlannedRun:
    """A run with its state. `todo` are the suites still to evaluate, `absent` their missing inputs
    besides data.

    A run with a `problem` is not executed: the user restores its result, moves it away, or updates.
    For other runs, `note` says what will be done, if the state does not tell, and `changed` lists
    differences from an earlier result. `redo` asks to train the run again, whatever it has.
    """

    experiment: Experiment
    state: RunState
    todo: tuple[str, ...]
    result: Result | None = None
    failure: Failure | None = None
    absent: tuple[Missing, ...] = ()
    problem: str = ""
    note: str = ""
    changed: tuple[str, ...] = ()
    redo: bool = False

    @property
    def key(self) -> str:
        return self.experiment.key

    @property
    def group(self) -> str:
        """The fingerprint that the run shares with its other seeds."""
        return self.experiment.group

    @property
    def resolved(self) -> Resolved:
        return self.experiment.resolved

    @property
    def fingerprint(self) -> str:
        return self.experiment.fingerprint

    @property
    def why(self) -> str:
        """What went wrong with the run, what has changed since its result, or what will be done
        about it.
        """
        if self.failure and self.state == "failed":
            return one_line(self.failure.error)
        if self.changed:
            return f"changed: {one_line('; '.join(self.changed))}"
        return self.note


#: the most runs that a printed plan lists
MOST_LISTED = 40


@dataclass(frozen=True, repr=False)
class Plan:
    """All runs of a request in their order, teachers before the first run that needs them.

    `refused` says what is wrong with a file or model of the user, by the runs
    (VARIANT/SETTING/ENCODER) or the suite that need it; the others go on. `skipped` are runs and
    suites that a method cannot use by its nature.
    """

    request: Request
    store: Store
    inventory: Inventory
    runs: tuple[PlannedRun, ...]
    skipped: tuple[Skipped, ...]
    without_data: Mapping[str, tuple[Missing, ...]]
    #: what a user should know of the data of the suites
    remarks: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        listed = self.runs[:MOST_LISTED]
        lines = [self.counts]
        lines += [f"{run.state:8} {run.key}  {run.why}".rstrip() for run in listed]
        if len(self.runs) > MOST_LISTED:
            lines.append(f"and {len(self.runs) - MOST_LISTED} more")
        return "\n".join(lines)

    @cached_property
    def frames(self) -> Frames:
        """All results of its store, read once."""
        return self.store.frames()

    @property
    def counts(self) -> str:
        """One line: the profile, and the numbers of runs that are done, to do, damaged and of a
        newer harness.
        """
        runs = count_of(len(self.runs), "run")
        teachers = sum(run.resolved.spec not in self.request.suites_by_run for run in self.runs)
        if teachers:
            runs += f" ({count_of(teachers, 'teacher')} among them)"

        counts = [runs, f"{len(self.done)} done", f"{len(self.todo)} to do"]
        newer = sum(run.state == "newer" for run in self.damaged)
        if len(self.damaged) > newer:
            counts.append(f"{len(self.damaged) - newer} damaged")
        if newer:
            counts.append(f"{newer} written by a newer harness")
        return f"profile {self.request.profile.name}: {', '.join(counts)}"

    @property
    def done(self) -> list[PlannedRun]:
        """Runs whose every suite is evaluated."""
        return [run for run in self.runs if run.state == "done"]

    @property
    def todo(self) -> list[PlannedRun]:
        """Runs still to train or to evaluate."""
        return [run for run in self.runs if run.state not in LEFT_ALONE]

    @property
    def damaged(self) -> list[PlannedRun]:
        """Runs whose result cannot be used; they are neither done nor to do."""
        return [run for run in self.runs if run.problem]

    @property
    def warnings(self) -> list[str]:
        """What a user should know of the data that the runs to do read, each line once."""
        experiments = self._list_distinct_experiments()
        lines = dict[str, None]()
        for experiment in experiments:
            lines |= dict.fromkeys(experiment.remarks)
            lines |= dict.fromkeys(experiment.describe_searches())
        if experiments:
            lines |= dict.fromkeys(self.remarks)
        return list(lines)

    @property
    def inputs(self) -> list[InputCensus]:
        """What the runs to do read of each of their inputs, and what else lies in it."""
        censuses: list[InputCensus] = []
        for experiment in self._list_distinct_experiments():
            censuses += experiment.census

        # many runs have the same encoder and suites
        censuses_of_tests: dict[tuple[object, tuple[str, ...]], list[InputCensus]] = {}
        for run in self.todo:
            encoder = run.experiment.named_encoder
            if (encoder, run.todo) not in censuses_of_tests:
                of_tests = make_task_censuses(self.inventory, run.todo, encoder)
                censuses_of_tests[encoder, run.todo] = of_tests

        for of_tests in censuses_of_tests.values():
            censuses += of_tests
        return merge_censuses(censuses)

    def _list_distinct_experiments(self) -> list[Experiment]:
        """The first run to do of each variant, setting and encoder: the others read the same."""
        experiments: dict[str, Experiment] = {}
        for run in self.todo:
            experiments.setdefault(run.experiment.key_without_seed, run.experiment)
        return list(experiments.values())

    @property
    def errors(self) -> list[str]:
        """What is wrong with the user's inputs, one line each, with the runs or the suite that need
        it.
        """
        needed_by: dict[str, list[str]] = {}
        for run_or_suite, reason in self.refused.items():
            needed_by.setdefault(reason, []).append(run_or_suite)
        return [
            f"{reason} (needed by {first_of(runs_or_suites, NAMED)})"
            for reason, runs_or_suites in needed_by.items()
        ]

    @property
    def unequal_seeds(self) -> Mapping[str, Mapping[str, Collection[int]]]:
        """The seeds that each variant will have where these are unequally many: by setting and
        encoder, then by variant, those of finished runs among them.
        """
        finished_seeds = self.frames.seeds_by_group()
        specs = set(self.request.suites_by_run)
        places: dict[str, dict[str, set[int]]] = {}
        for run in self.runs:
            spec = run.resolved.spec
            if not run.resolved.trains or spec not in specs:
                continue

            seeds_by_variant = places.setdefault(f"{spec.setting} / {spec.encoder}", {})
            seeds = seeds_by_variant.setdefault(str(spec.variant), set())
            seeds.add(spec.seed)
            seeds.update(finished_seeds.get(run.group, ()))

        return {
            place: seeds_by_variant
            for place, seeds_by_variant in places.items()
            if len(set(map(len, seeds_by_variant.values()))) > 1
        }

    @property
    def missing(self) -> list[Missing]:
        """All missing inputs of the runs to do, each once."""
        missing = dict[Missing, None]()
        for run in self.todo:
            missing |= dict.fromkeys(run.experiment.missing)
            missing |= dict.fromkeys(run.absent)
        return list(missing)


def make_plan(request: Request, store: Store) -> Plan:
    """Expand a request and look up what is done. Loads no data and no model.

    A method that cannot be trained in a setting is skipped, and so is a row of a paper's table
    whose teacher is unknown or whose plug-in fails; the same names in a user's own grid are
    refused. What is wrong with a file or a model is an error of the runs that need it. Raises
    UserError, also if no run is left.
    """
    inventory = request.inventory
    without_data = find_suites_without_data(request.suites, inventory)
    remarks = _list_remarks_on_tests(request.suites, without_data, inventory)
    runs, skipped = resolve_all(
        request.profile, request.suites_by_run, request.overrides, strict=request.strict
    )

    experiments = Experiments(inventory, request.overrides)
    if any(run.trains for run in runs):
        # an error of a plug-in's corpus concerns the runs that train on it
        with suppress(PlugInError):
            _ = inventory.corpora
    refused = _refuse_absent_files(without_data)
    refused |= _refuse_missing_tasks(request.suites, inventory)
    complete = _complete_runs(request, runs, experiments, store, skipped, refused)
    check_left(complete, skipped, refused)

    failures = store.failures()
    specs = {run.spec for run in runs}
    planned = []
    for experiment in complete:
        spec = experiment.resolved.spec
        # a teacher that nobody asked for is evaluated in a user's own grid only
        default_suites = request.suites if request.strict else ()
        wanted_suites = request.suites_by_run.get(spec, default_suites)
        suites = [name for name in wanted_suites if name not in without_data]
        suites = _skip_unfit_suites(experiment, suites, inventory, skipped)
        redo = request.selection.redo and spec in specs  # not a teacher that nobody asked for
        planned.append(_plan_run(experiment, experiments, suites, store, failures, redo=redo))

        for name in without_data.keys() & wanted_suites:
            missing_models = experiment.list_missing_models(inventory.suites[name], inventory.root)
            without_data[name] = tuple(dict.fromkeys((*without_data[name], *missing_models)))

    return Plan(
        request,
        store,
        inventory,
        tuple(planned),
        tuple(dict.fromkeys(skipped)),
        without_data,
        tuple(remarks),
        refused,
    )


def _list_remarks_on_tests(
    suites: Sequence[str], without_data: Collection[str], inventory: Inventory
) -> list[str]:
    """What a user should know of the tests of suites. Raises UserError for a task that cannot be
    read.
    """
    remarks = []
    for name in suites:
        remarks += inventory.check_tasks(name)
    for name in suites:
        if name not in without_data:
            remarks += inventory.list_gallery_remarks(name)
    return remarks


def _refuse_absent_files(without_data: Mapping[str, Sequence[Missing]]) -> dict[str, str]:
    """What is said of each suite that needs a file of the user which is not at its path."""
    refused = {}
    for name, missing in without_data.items():
        for item in missing:
            # others are merely not fetched, or below another data root
            if item.how == OWN_FILE and Path(item.what).is_absolute():
                refused[f"suite {name}"] = str(item)
    return refused


def _complete_runs(
    request: Request,
    runs: Sequence[Resolved],
    experiments: Experiments,
    store: Store,
    skipped: list[Skipped],
    refused: dict[str, str],
) -> list[Experiment]:
    """The runs with their ingredients, each after its teachers.

    A run that does not apply, such as a method in a setting without its pictures, is added to
    `skipped`, and one that is wrong to `refused`, by its name without the seed. Raises UserError.
    """
    complete: dict[str, Experiment] = {}
    checked = set[str]()
    for run in runs:
        run_without_seed = str(run.spec).rpartition("/")[0]
        if run_without_seed in refused:
            continue

        try:
            experiment = _find_in_stored_notation(experiments, run, store)
            # computed now, so that their errors are those of the plan
            _ = experiment.fingerprint
            for trained in (*experiment.teachers, experiment):
                # further seeds read the same
                if trained.key_without_seed not in checked:
                    trained.check_mixing()
                    trained.check_neighbours()
                    _ = trained.census
                    checked.add(trained.key_without_seed)
        except (UnfitSettingError, UnavailableError, PlugInError, MissingData) as error:
            # in a grid that was asked for, only a setting that does not fit is skipped
            if request.strict and not isinstance(error, UnfitSettingError):
                raise
            skipped.append(Skipped(f"{run.spec.variant}/{run.spec.setting}", str(error)))
        except UserError as error:
            refused[run_without_seed] = str(error)
        else:
            for trained in (*experiment.teachers, experiment):
                complete[trained.key] = trained

    return list(complete.values())


def _skip_unfit_suites(
    experiment: Experiment,
    suites: Sequence[str],
    inventory: Inventory,
    skipped: list[Skipped],
) -> list[str]:
    """The suites that a run can be evaluated on; the others are added to `skipped`."""
    spec = experiment.resolved.spec
    fit = []
    for name in suites:
        reason = experiment.explain_unfit(inventory.suites[name], inventory.root)
        if reason:
            skipped.append(Skipped(f"{spec.variant}/{spec.setting}, suite {name}", reason))
        else:
            fit.append(name)
    return fit


def check_left(
    runs: Collection[object], skipped: Sequence[Skipped], refused: Mapping[str, str]
) -> None:
    """Raise UserError if no run is left, with the first reason."""
    if runs:
        return

    prefix = ""
    reasons = list(dict.fromkeys(refused.values()))
    if not reasons:
        prefix = "every run is skipped, nothing can be trained: "
        reasons = [f"{skip.what}: {skip.why}" for skip in skipped]
    if reasons:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        raise UserError(f"{prefix}{reasons[0]}{more}")


def _find_in_stored_notation(experiments: Experiments, run: Resolved, store: Store) -> Experiment:
    """A run as its result, or the results of its other seeds, name it.

    Earlier versions know other packages' code by its bytes. Where such results have the bytes of
    now, they are those of this run, and further seeds belong to their group.
    """
    experiment = experiments.find(run)
    profile = experiments.inventory.profile.name
    if not list_plugin_modules() or store.has_result(profile, run.spec, experiment.fingerprint):
        return experiment

    by_bytes = experiments.by_bytes.find(run)
    if by_bytes.fingerprint == experiment.fingerprint:
        return experiment

    stored, _ = store.seeds(profile, run.spec)
    stored_groups = {result.group for result in stored}
    if store.has_result(profile, run.spec, by_bytes.fingerprint) or by_bytes.group in stored_groups:
        return by_bytes
    return experiment


def _plan_run(
    experiment: Experiment,
    experiments: Experiments,
    suites: Sequence[str],
    store: Store,
    failures: Sequence[Failure],
    *,
    redo: bool,
) -> PlannedRun:
    """A run with its state and what is left to do. Raises UserError for a suite whose name no file
    can have.
    """
    inventory = experiments.inventory
    profile = inventory.profile.name
    spec = experiment.resolved.spec
    fingerprint = experiment.fingerprint
    check_names(profile, spec, suites)
    try:
        result = store.find(profile, spec, fingerprint)
    except UserError as error:
        state: RunState = "newer" if isinstance(error, NewerError) else "damaged"
        return PlannedRun(experiment, state, (), problem=str(error))

    if redo:
        result = None
    failure = None
    for failed in failures:
        if failed.concerns(profile, spec, fingerprint):
            failure = failed
            break

    todo = []
    missing_models = dict[Missing, None]()
    for name in suites:
        if result is not None and inventory.is_scored(result, name):
            continue
        todo.append(name)
        absent = experiment.list_missing_models(inventory.suites[name], inventory.root)
        missing_models |= dict.fromkeys(absent)

    planned = PlannedRun(
        experiment, "missing", tuple(todo), result, failure, tuple(missing_models), redo=redo
    )
    if redo:
        return replace(planned, note=REDONE)
    if result is not None and not todo:
        return replace(planned, state="done")
    if failure is not None:
        return replace(planned, state="failed", note=RETRIED)
    if result is not None:
        return replace(planned, state="trained", note=UNSCORED)
    if has_training(store, fingerprint):
        return replace(planned, state="trained", note=KEPT)

    step = find_checkpoint_step(store, fingerprint)
    if step:
        return replace(planned, note=RESUMED.format(step))
    if store.has_key(profile, spec):
        seeds, _ = store.seeds(profile, spec)
        earlier = [stored for stored in seeds if stored.spec == spec]
        earlier.sort(key=lambda stored: stored.finished)
        note, changed = _compare_with_older_results(earlier, experiment, experiments)
        return replace(planned, note=note, changed=changed)
    return planned


def _compare_with_older_results(
    earlier: Sequence[Result], experiment: Experiment, experiments: Experiments
) -> tuple[str, tuple[str, ...]]:
    """The note on a run that has earlier results under its key, and what has changed since them."""
    if not earlier:
        return STALE, ()

    run = experiment.resolved
    if not experiment.missing:
        return STALE, list_changes(earlier[-1], run, experiments)

    differences = [list_changes(result, run, experiments) for result in reversed(earlier)]
    if all(differences):
        return STALE, min(differences, key=len)
    return UNSURE, ()


def _refuse_missing_tasks(suites: Collection[str], inventory: Inventory) -> dict[str, str]:
    """What is said of each suite with a task of the profile whose file is nowhere."""
    refused = {}
    for name in suites:
        for task in inventory.list_selected_tasks(name) or inventory.suites[name].tasks:
            own_task = inventory.tasks.get(task)
            if own_task is None:
                continue

            for item in own_task.missing(inventory.root):
                # files of the hub are merely not fetched
                if type(item) is Missing:
                    refused[f"suite {name}"] = str(item)
                    break
    return refused


def find_suites_without_data(
    suites: Collection[str], inventory: Inventory
) -> dict[str, tuple[Missing, ...]]:
    """Suites that cannot run, with their missing inputs. Raises UserError for an unknown suite."""
    without_data = {}
    for name in suites:
        missing = tuple(inventory.find_suite(name).missing(inventory.root))
        if missing:
            without_data[name] = missing
    return without_data
