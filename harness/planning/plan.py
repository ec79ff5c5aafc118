"""The plan: the runs of a request, which are done, and which inputs are missing, before anything
runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from harness.census import InputCensus
from harness.errors import MissingData, NewerError, PlugInError, UnavailableError, UserError
from harness.formatting import count_of, first_of, one_line
from harness.grid import Resolved, Skipped, UnfitSettingError, resolve_all
from harness.planning.census import census_of_tasks, merge_censuses
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.planning.present import changes
from harness.planning.request import Request
from harness.registry import plugin_modules
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
        return f"changed: {one_line('; '.join(self.changed))}" if self.changed else self.note


#: the most runs that a printed plan lists
SHOWN = 40


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
        lines = (f"{run.state:8} {run.key}  {run.why}".rstrip() for run in self.runs[:SHOWN])
        more = [f"and {len(self.runs) - SHOWN} more"] if len(self.runs) > SHOWN else []
        return "\n".join([self.counts, *lines, *more])

    @cached_property
    def known(self) -> Frames:
        """All results of its store, read once."""
        return self.store.frames()

    @property
    def counts(self) -> str:
        """One line: the profile, and the numbers of runs that are done, to do, damaged and of a
        newer harness.
        """
        added = sum(run.resolved.spec not in self.request.wanted for run in self.runs)
        counts = [
            count_of(len(self.runs), "run")
            + (f" ({count_of(added, 'teacher')} among them)" if added else "")
        ]
        counts += [f"{len(self.done)} done", f"{len(self.todo)} to do"]
        newer = sum(run.state == "newer" for run in self.damaged)
        counts += [f"{len(self.damaged) - newer} damaged"] if len(self.damaged) > newer else []
        counts += [f"{newer} written by a newer harness"] if newer else []
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
        of_runs = (line for run in self.todo for line in run.experiment.remarks)
        return list(dict.fromkeys((*of_runs, *(self.remarks if self.todo else ()))))

    @property
    def inputs(self) -> list[InputCensus]:
        """What the runs to do read of each of their inputs, and what else lies in it."""
        censuses: list[InputCensus] = []
        tests: dict[tuple[object, tuple[str, ...]], list[InputCensus]] = {}
        for run in self.todo:
            censuses += run.experiment.census
            encoder = run.experiment.named_encoder
            if (encoder, run.todo) not in tests:
                found = census_of_tasks(self.inventory, run.todo, encoder)
                tests[encoder, run.todo] = found
        for listed in tests.values():
            censuses += listed
        return merge_censuses(censuses)

    @property
    def errors(self) -> list[str]:
        """What is wrong with the user's inputs, one line each, with the runs or the suite that need
        it.
        """
        concerned: dict[str, list[str]] = {}
        for what, why in self.refused.items():
            concerned.setdefault(why, []).append(what)
        return [f"{why} (needed by {first_of(each, NAMED)})" for why, each in concerned.items()]

    @property
    def unequal_seeds(self) -> Mapping[str, Mapping[str, Collection[int]]]:
        """The seeds that each variant will have where these are unequally many: by setting and
        encoder, then by variant, those of finished runs among them.
        """
        finished = self.known.runs.groupby("group", observed=True)["seed"].unique()
        wanted = {*self.request.wanted}
        places: dict[str, dict[str, set[int]]] = {}
        for run in self.runs:
            spec = run.resolved.spec
            if not run.resolved.trains or spec not in wanted:
                continue
            variants = places.setdefault(f"{spec.setting} / {spec.encoder}", {})
            seeds = variants.setdefault(str(spec.variant), set())
            seeds.add(spec.seed)
            seeds.update(map(int, finished.get(run.group, ())))
        return {
            place: variants
            for place, variants in places.items()
            if len({len(seeds) for seeds in variants.values()}) > 1
        }

    @property
    def missing(self) -> list[Missing]:
        """All missing inputs of the runs to do, each once."""
        return list(
            dict.fromkeys(
                item for run in self.todo for item in (*run.experiment.missing, *run.absent)
            )
        )


def make_plan(request: Request, store: Store) -> Plan:
    """Expand a request and look up what is done. Loads no data and no model.

    A method that cannot be trained in a setting is skipped, and so is a row of a paper's table
    whose teacher is unknown or whose plug-in fails; the same names in a user's own grid are
    refused. What is wrong with a file or a model is an error of the runs that need it. Raises
    UserError, also if no run is left.
    """
    inventory = request.inventory
    without_data = suites_without_data(request.suites, inventory)
    remarks = [line for name in request.suites for line in inventory.check_tasks(name)]
    with_data = [name for name in request.suites if name not in without_data]
    remarks += [line for name in with_data for line in inventory.remarks_on_galleries(name)]
    runs, skipped = resolve_all(
        request.profile, request.wanted, request.overrides, strict=request.strict
    )
    experiments = Experiments(inventory, request.overrides)
    with suppress(PlugInError):  # of a corpus, which concerns the runs that train on it
        _ = any(run.trains for run in runs) and inventory.corpora
    ordered: dict[str, Experiment] = {}
    absent = ((f"suite {name}", item) for name, missing in without_data.items() for item in missing)
    # a file at a path of the user's own; others are merely not fetched, or below another data root
    refused = {
        what: str(item)
        for what, item in absent
        if item.how == OWN_FILE and Path(item.what).is_absolute()
    }
    refused |= _missing_own_tasks(request.suites, inventory)
    for run in runs:
        what = str(run.spec).rpartition("/")[0]
        if what in refused:
            continue
        try:
            experiment = _in_stored_notation(experiments, run, store)
            _ = experiment.fingerprint
            for needed in (*experiment.teachers, experiment):
                needed.check_mixing()
                _ = needed.census
        except (UnfitSettingError, UnavailableError, PlugInError, MissingData) as error:
            if request.strict and not isinstance(error, UnfitSettingError):
                raise
            skipped.append(Skipped(f"{run.spec.variant}/{run.spec.setting}", str(error)))
        except UserError as error:
            refused[what] = str(error)
        else:
            ordered |= {needed.key: needed for needed in (*experiment.teachers, experiment)}
    check_left(ordered, skipped, refused)
    failures = store.failures()
    specs = {run.spec for run in runs}
    planned = []
    for experiment in ordered.values():
        spec = experiment.resolved.spec
        wanted = request.wanted.get(spec, request.suites if request.strict else ())
        suites = [name for name in wanted if name not in without_data]
        unfit = {
            name: experiment.unfit_for(inventory.suites[name], inventory.root) for name in suites
        }
        skipped += [
            Skipped(f"{spec.variant}/{spec.setting}, suite {name}", why)
            for name, why in unfit.items()
            if why
        ]
        suites = [name for name in suites if not unfit[name]]
        redo = request.selection.redo and spec in specs  # not a teacher that nobody asked for
        planned.append(_planned(experiment, experiments, suites, store, failures, redo=redo))
        for name in without_data.keys() & wanted:
            more = experiment.missing_for(inventory.suites[name], inventory.root)
            without_data[name] = tuple(dict.fromkeys((*without_data[name], *more)))
    left_out = tuple(dict.fromkeys(skipped))
    return Plan(
        request,
        store,
        inventory,
        tuple(planned),
        left_out,
        without_data,
        tuple(remarks),
        refused,
    )


def check_left(
    runs: Collection[object], skipped: Sequence[Skipped], refused: Mapping[str, str]
) -> None:
    """Raise UserError if no run is left, with the first reason."""
    whys = [*dict.fromkeys(refused.values())] or [f"{skip.what}: {skip.why}" for skip in skipped]
    if whys and not runs:
        more = f" (and {len(whys) - 1} more)" if len(whys) > 1 else ""
        raise UserError(
            ("" if refused else "every run is skipped, nothing can be trained: ") + whys[0] + more
        )


def _in_stored_notation(experiments: Experiments, run: Resolved, store: Store) -> Experiment:
    """A run as its result, or the results of its other seeds, name it.

    Earlier versions know other packages' code by its bytes. Where such results have the bytes of
    now, they are those of this run, and further seeds belong to their group.
    """
    experiment = experiments.of(run)
    key = (experiments.inventory.profile.name, run.spec)
    if not plugin_modules() or store.has_result(*key, experiment.fingerprint):
        return experiment
    by_bytes = experiments.by_bytes.of(run)
    if by_bytes.fingerprint == experiment.fingerprint:
        return experiment
    stored, _ = store.seeds(*key)
    groups = {result.group for result in stored}
    is_known = store.has_result(*key, by_bytes.fingerprint) or by_bytes.group in groups
    return by_bytes if is_known else experiment


def _planned(
    experiment: Experiment,
    experiments: Experiments,
    suites: Sequence[str],
    store: Store,
    failures: Sequence[Failure],
    *,
    redo: bool,
) -> PlannedRun:
    inventory = experiments.inventory
    key = (inventory.profile.name, experiment.resolved.spec)
    check_names(*key, suites)
    try:
        result = store.find(*key, experiment.fingerprint)
    except UserError as error:
        state: RunState = "newer" if isinstance(error, NewerError) else "damaged"
        return PlannedRun(experiment, state, (), problem=str(error))
    if redo:
        result = None
    failure = next(
        (failed for failed in failures if failed.concerns(*key, experiment.fingerprint)), None
    )
    todo = tuple(name for name in suites if result is None or not inventory.scored(result, name))
    state = "missing"
    note = ""
    changed = tuple[str, ...]()
    if redo:
        note = REDONE
    elif result is not None and not todo:
        state = "done"
    elif failure is not None:
        state = "failed"
        note = RETRIED
    elif result is not None:
        state = "trained"
        note = UNSCORED
    elif has_training(store, experiment.fingerprint):
        state = "trained"
        note = KEPT
    elif step := find_checkpoint_step(store, experiment.fingerprint):
        note = RESUMED.format(step)
    elif store.has_key(*key):
        others = sorted(
            (stored for stored in store.seeds(*key)[0] if stored.spec == key[1]),
            key=lambda earlier: earlier.finished,
        )
        note, changed = _compare_with_older_results(others, experiment, experiments)
    absent = (
        item
        for name in todo
        for item in experiment.missing_for(inventory.suites[name], inventory.root)
    )
    absences = tuple(dict.fromkeys(absent))
    return PlannedRun(
        experiment, state, todo, result, failure, absences, note=note, changed=changed, redo=redo
    )


def _compare_with_older_results(
    others: Sequence[Result], experiment: Experiment, experiments: Experiments
) -> tuple[str, tuple[str, ...]]:
    """The note on a run that has earlier results under its key, and what has changed since them."""
    if not others:
        return STALE, ()
    run = experiment.resolved
    if not experiment.missing:
        return STALE, changes(others[-1], run, experiments)
    known = [changes(result, run, experiments) for result in reversed(others)]
    return (STALE, min(known, key=len)) if all(known) else (UNSURE, ())


def _missing_own_tasks(names: Collection[str], inventory: Inventory) -> dict[str, str]:
    """What is said of each suite with a task of the profile whose file is nowhere."""
    refused = {}
    for name in names:
        for task in inventory.part(name) or inventory.suites[name].tasks:
            own = inventory.tasks.get(task)
            missing = own.missing(inventory.root) if own is not None else []
            # files of the hub are merely not fetched
            nowhere = [item for item in missing if type(item) is Missing]
            if nowhere:
                refused[f"suite {name}"] = str(nowhere[0])
    return refused


def suites_without_data(
    names: Collection[str], inventory: Inventory
) -> dict[str, tuple[Missing, ...]]:
    """Suites that cannot run, with their missing inputs. Raises UserError for an unknown suite."""
    absent = {name: tuple(inventory.suite(name).missing(inventory.root)) for name in names}
    return {name: missing for name, missing in absent.items() if missing}
