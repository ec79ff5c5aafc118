"""The plan: which runs a command line asks for, which are done, and what they lack, before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.encoders.locate import ModelSource
from harness.errors import UserError
from harness.execution.identity import lacking, teacher_runs, training_identity
from harness.execution.sources import Sources
from harness.grid import Resolved, Skipped, check_setting, expand, impossible, resolve
from harness.profiles import Profile
from harness.registry import get, suggest
from harness.sources import Missing, data_root, digest
from harness.spec import RunSpec, Variant
from harness.store import Failure, Result, Spec, Store


@dataclass(frozen=True)
class Request:
    """What a person asked for: a grid, or the runs of `wanted` one by one, each with the suites it is scored on.

    `entries` says of wanted runs which table or figure of a paper they are for. A run that is only the teacher of a
    wanted one is not scored.
    """

    profile: Profile
    methods: Sequence[Variant]
    settings: Sequence[Variant]
    encoders: Sequence[str]
    seeds: Sequence[int]
    suites: Sequence[str]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, ModelSource] = field(default_factory=dict)
    data: Path | None = None
    wanted: Mapping[RunSpec, Sequence[str]] | None = None
    entries: Mapping[str, Collection[RunSpec]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """A run with its fingerprint and its state: done, stale, failed or missing.

    `stale` is missing too, but an older configuration of the same key has a result. `todo` are the
    suites still to evaluate, `lacking` what must be fetched first.
    """

    resolved: Resolved
    #: identity of the training; the suites do not count
    fingerprint: str
    group: str
    state: str
    todo: tuple[str, ...]
    lacking: tuple[Missing, ...]
    #: fingerprints of the runs that are its teachers
    needs: frozenset[str] = frozenset()
    result: Result | None = None
    failure: Failure | None = None

    @property
    def key(self) -> str:
        """The run's key."""
        return str(self.resolved.spec)

    @property
    def spec(self) -> Spec:
        """The run's spec, as the store records it."""
        return Spec.of(self.resolved.spec)


@dataclass(frozen=True)
class Plan:
    """All runs of a request, in order."""

    request: Request
    sources: Sources
    runs: tuple[PlannedRun, ...]
    skipped: tuple[Skipped, ...]
    without_data: Mapping[str, tuple[Missing, ...]]

    @property
    def done(self) -> list[PlannedRun]:
        """Runs whose every suite is evaluated."""
        return [run for run in self.runs if run.state == "done"]

    @property
    def todo(self) -> list[PlannedRun]:
        """Runs still to do."""
        return [run for run in self.runs if run.state != "done"]

    @property
    def lacking(self) -> list[Missing]:
        """Everything absent that some run to do needs, once each."""
        return list(dict.fromkeys(item for run in self.todo for item in run.lacking))


def make_plan(request: Request, store: Store) -> Plan:
    """Expand a request and look up what is done. Loads no data and no model. Raises UserError."""
    sources = Sources(request.profile, data_root(request.data), request.given)
    without_data = _suites_without_data(request, sources)
    runs, skipped = _resolved(request)
    failures = store.failures()
    planned = []
    for run in _with_teachers(runs, sources):
        asked = request.suites if request.wanted is None else request.wanted.get(run.spec, ())
        suites = [name for name in asked if name not in without_data]
        planned.append(_planned(run, sources, suites, store, failures))
    return Plan(request, sources, tuple(planned), tuple(skipped), without_data)


def _resolved(request: Request) -> tuple[list[Resolved], list[Skipped]]:
    """The runs, seeds outermost, and what makes no sense or is not in the profile."""
    if request.wanted is None:
        return expand(
            request.profile, request.methods, request.settings, request.encoders, request.seeds, request.overrides
        )
    expand(request.profile, request.methods, (), (), (), request.overrides)  # says which overrides are wrong
    runs: list[Resolved] = []
    skipped: dict[Skipped, None] = {}
    for spec in sorted(request.wanted, key=lambda one: one.seed):
        why = _unfit(request, spec)
        if why:
            skipped[Skipped(f"{spec.variant}/{spec.setting}/{spec.encoder}", why)] = None
        else:
            runs.append(resolve(request.profile, spec, request.overrides))
    return runs, list(skipped)


def _unfit(request: Request, spec: RunSpec) -> str | None:
    """Why a run cannot be under the profile, or None."""
    method = get("method", spec.variant.name)
    if spec.encoder not in request.profile.encoders and spec.encoder not in request.given:
        return f"the profile '{request.profile.name}' has no encoder '{spec.encoder}'"
    if not method.trains:
        return None
    try:
        check_setting(request.profile, spec.setting)
    except UserError as error:
        return str(error)
    return impossible(request.profile, method, spec.setting)


def _planned(
    run: Resolved, sources: Sources, suites: Sequence[str], store: Store, failures: Sequence[Failure]
) -> PlannedRun:
    training = training_identity(run, sources)
    place = (sources.profile.name, Spec.of(run.spec))
    fingerprint = digest(training)
    result = store.find(*place, fingerprint)
    failure = next((one for one in failures if one.concerns(*place, fingerprint)), None)
    todo = tuple(name for name in suites if result is None or not result.evaluated(name, sources.protocol(name)))
    state = "missing"
    if result is not None and not todo:
        state = "done"
    elif failure is not None:
        state = "failed"
    elif result is None and store.has_key(*place):
        state = "stale"
    return PlannedRun(
        run,
        fingerprint,
        result.group if result else _group(training, store.seeds(*place)),
        state,
        todo,
        tuple(lacking(run, sources)),
        frozenset(digest(training_identity(teacher, sources)) for teacher in teacher_runs(run, sources)),
        result,
        failure,
    )


def _group(training: Mapping[str, Any], others: Sequence[Result]) -> str:
    """The group of a training: that of a finished run that differs by its seed alone, else a digest of its own.

    Results upgraded from schema 1 have groups that cannot be computed again, which new seeds join in this way.
    """
    same = (one.group for one in others if digest({**training, "seed": one.spec.seed}) == one.fingerprint)
    return next(same, None) or digest({**training, "seed": None})


def _with_teachers(runs: Sequence[Resolved], sources: Sources) -> list[Resolved]:
    """The runs with those that they need as teachers, each before the first that needs it."""
    ordered: dict[RunSpec, Resolved] = {}
    for run in runs:
        ordered.update({one.spec: one for one in (*teacher_runs(run, sources), run) if one.spec not in ordered})
    return list(ordered.values())


def _suites_without_data(request: Request, sources: Sources) -> dict[str, tuple[Missing, ...]]:
    """Requested suites that cannot run, with what they lack. Raises UserError for an unknown suite."""
    for name in request.suites:
        if name not in sources.suites:
            hint = suggest(name, sorted(sources.suites))
            raise UserError(f"the profile '{request.profile.name}' has no suite '{name}'; {hint}")
    absent = {name: tuple(sources.missing(sources.suites[name])) for name in request.suites}
    return {name: missing for name, missing in absent.items() if missing}
