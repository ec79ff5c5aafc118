"""Runs as a user names them, resolved into a request under a profile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.command_line import Names, Selection
from harness.commands import LastPlaces
from harness.encoders.locate import FolderModel, HubModel, ModelSource
from harness.encoders.modules import declared_pooling
from harness.errors import UserError
from harness.evaluation.suites import Suite
from harness.files import expand
from harness.grid import Overrides, expand_variants, grid, require_single_values, split_set_values
from harness.method.declared import declared_method
from harness.papers.claims import PlannedClaim, claim_runs, find_claims
from harness.papers.needed import (
    Narrowing,
    Runs,
    StandIns,
    find_released_runs,
    find_wanted_runs,
    make_released_spec,
    merged,
)
from harness.planning.inventory import Inventory
from harness.planning.model_names import name_model
from harness.planning.names import run_model
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.registry import get_class, names, suggest
from harness.sources import data_root
from harness.spec import (
    RUN,
    UNTRAINED,
    RunSpec,
    SpecError,
    Variant,
    canonical,
    parse_encoder,
    parse_seeds,
    parse_setting,
    split,
)
from harness.store import Store, find_results
from harness.store.tunings import Tuning, make_tuning, resume_tuning, start_search


@dataclass(frozen=True)
class Request:
    """Runs, seeds outermost, each with the suites to evaluate it on.

    A `strict` request is a user's own: what is wrong with a name is an error. Otherwise, as in a
    paper's table, it only costs the runs of the name, and a run that is only the teacher of a
    wanted one is not evaluated. `given` are the user's own encoders by name, `data` is the data
    root. `entries` names the tables, figures and claims of papers that the runs belong to, and
    `claims` are those that they decide. `selection` is what the user named, and `tuning` which of
    the methods are trials.
    """

    profile: Profile
    wanted: Mapping[RunSpec, Sequence[str]]
    overrides: Overrides = field(default_factory=dict)
    strict: bool = True
    given: Mapping[str, ModelSource] = field(default_factory=dict)
    data: Path | None = None
    entries: Mapping[str, Collection[RunSpec]] = field(default_factory=dict)
    claims: Sequence[PlannedClaim] = ()
    tasks: Sequence[str] = ()
    selection: Selection = field(default_factory=Selection, compare=False)
    tuning: Tuning | None = None

    @property
    def methods(self) -> list[Variant]:
        return list(dict.fromkeys(spec.variant for spec in self.wanted))

    @property
    def encoders(self) -> list[str]:
        return list(dict.fromkeys(spec.encoder for spec in self.wanted))

    @property
    def suites(self) -> list[str]:
        return list(dict.fromkeys(name for suites in self.wanted.values() for name in suites))

    @property
    def inventory(self) -> Inventory:
        """The sources that its profile and the user name. Raises UserError for a data root that is
        a file.
        """
        return Inventory(self.profile, data_root(self.data), self.given, self.tasks)

    @property
    def places(self) -> LastPlaces:
        """The files and folders that the user gave."""
        named = self.selection.profile
        return LastPlaces(
            profile=str(Path(named).resolve()) if named not in shipped_profiles() else "",
            data_root=str(self.data.resolve()) if self.data else "",
            encoders={
                name: source.typed
                for name, source in self.given.items()
                if isinstance(source, FolderModel)
            },
        )


def make_request(selection: Selection, tuning: Tuning | None = None) -> Request:
    """Resolve a selection, with a later round of its `tuning`. Raises UserError for a wrong name or
    combination.
    """
    request = _requested(selection, tuning)
    folders = {
        name: table.folder or ""
        for name, table in request.profile.encoders.items()
        if name in request.encoders
    }
    runs = {
        name: run_model(at, Path(selection.results))
        for name, at in folders.items()
        if at.startswith(RUN)
    }
    return replace(request, given={**runs, **request.given})


def _requested(selection: Selection, tuning: Tuning | None) -> Request:
    request = _empty(selection)
    if (selection.tune or selection.trials is not None or selection.sampler) and _other_runs(
        selection
    ):
        raise UserError(
            f"--tune works only with a grid of methods; remove --{_other_runs(selection)}"
        )
    if selection.released:
        return _of_released(request)
    if _other_runs(selection):
        return _of_papers(request)
    if selection.readings is not None:
        raise UserError(
            "--readings works only with --table, --figure or --paper; in a grid, name readings in --methods, as in "
            "mcse,mcse@official"
        )
    if selection.rows is not None:
        raise UserError(
            "--rows works only with --table, --figure, --paper or --claim; in a grid, name --methods"
        )
    return _of_grid(request, tuning)


def listed_settings(selection: Selection, profile: Profile) -> list[Variant]:
    """The settings of a selection, by default those of the profile. Raises UserError."""
    return [
        parse_setting(text) for text in _listed(selection.settings) or profile.defaults.settings
    ]


def listed_suites(selection: Selection, profile: Profile) -> list[str]:
    """The suites of a selection, by default those of the profile that are not opt-in."""
    return _listed(selection.suites) or [
        name for name, table in profile.suites.items() if not table.asked
    ]


def inventory_of(selection: Selection) -> Inventory:
    """The sources that a selection's profile names. Raises UserError."""
    return _empty(selection).inventory


def _empty(selection: Selection) -> Request:
    """A request without runs, of the profile and the data root of a selection. Raises UserError."""
    for option in (
        "methods",
        "settings",
        "encoders",
        "suites",
        "tasks",
        "table",
        "figure",
        "paper",
        "claim",
        "rows",
        "readings",
    ):
        given = getattr(selection, option)
        if given is not None and not _listed(
            given
        ):  # as from an unset shell variable; it would mean the default
            raise UserError(
                f"--{option} is empty; give a name, or leave the option out for the default"
            )
    data = Path(selection.data_root) if selection.data_root is not None else None
    profile = load_profile(selection.profile)
    if data is not None and not data.is_dir():
        raise UserError(
            f"--data-root {data} is not a folder; give the folder that holds sts/, wiki/ and the like"
        )
    return Request(profile, {}, data=data, selection=selection)


def _of_tasks(request: Request) -> Request:
    """A request for the tasks of its selection only; suites without one are left out. Raises
    UserError.
    """
    if request.selection.tasks is None:
        return request
    tasks = {
        name: request.profile.suites[name].tasks
        for name in request.suites
        if name in request.profile.suites
    }
    known = {task for each in tasks.values() for task in each}
    chosen = _joined(_listed(request.selection.tasks), known)
    for name in chosen:
        if name not in known:
            hint = suggest(name, sorted(known))
            raise UserError(
                f"--tasks {name}: no such task in the suites {', '.join(request.suites)}; {hint}"
            )
    left = {name for name in request.suites if name not in tasks or {*tasks[name]} & {*chosen}}
    wanted = {
        spec: [name for name in suites if name in left] for spec, suites in request.wanted.items()
    }
    return replace(request, wanted=wanted, tasks=chosen)


def _joined(parts: Sequence[str], known: Collection[str]) -> list[str]:
    """Names of tasks that were split at commas, joined where a known one has commas itself:
    MTEB(eng, v1):STS.
    """
    joined = []
    start = 0
    while start < len(parts):
        ends = range(len(parts), start, -1)
        end = next((end for end in ends if ", ".join(parts[start:end]) in known), start + 1)
        joined.append(", ".join(parts[start:end]))
        start = end
    return list(dict.fromkeys(joined))


def _of_grid(request: Request, tuning: Tuning | None) -> Request:
    selection = request.selection
    profile = request.profile
    seeds = (
        tuple(range(profile.defaults.seeds)) if selection.seeds is None else _seeds(selection.seeds)
    )
    encoders, given = _encoders(
        _listed(selection.encoders) or profile.defaults.encoders, Path(selection.results)
    )
    overrides, lists = split_set_values(selection.set)
    settings = listed_settings(selection, profile)
    places = [f"{setting}/{encoder}" for setting in settings for encoder in encoders]
    tuning = tuning or _tuning(selection, profile, places)
    methods = _listed(selection.methods) or ([] if tuning else profile.defaults.methods)
    variants = expand_variants([*methods, *(tuning.variants if tuning else ())], overrides, lists)
    specs = grid(profile, variants, settings, encoders, seeds)
    wanted = dict.fromkeys(specs, listed_suites(selection, profile))
    return _of_tasks(
        replace(request, wanted=wanted, overrides=overrides, given=given, tuning=tuning)
    )


def _tuning(selection: Selection, profile: Profile, places: Sequence[str]) -> Tuning | None:
    texts = _list_tunings(selection.tune)
    if not texts and selection.trials is None and selection.sampler is None:
        return None
    if not texts or selection.trials is None:
        raise UserError(
            "--tune and --trials go together; write for example --tune 'mcse:lambda=0.01|0.1|1' --trials 3"
        )
    overrides = require_single_values(selection.set, "--tune draws its own values")
    if selection.sampler is not None and len(places) > 1:
        raise UserError(
            f"--sampler searches in one place, not in {' and '.join(places)}; give one of --settings and of --encoders"
        )
    tuning = make_tuning(profile.name, overrides, texts, selection.trials)
    for method in tuning.methods:
        if not declared_method(Variant.parse(method.base).name).trains:
            raise UserError(
                f"--tune {method.base}: it trains nothing, so there is nothing to tune; use --methods {method.base}"
            )
    if selection.sampler is not None:
        tuning = start_search(tuning, selection.sampler, places[0])
    return resume_tuning(Store(Path(selection.results)), tuning)


def _list_tunings(tune: str | Sequence[str] | Mapping[str, Mapping[str, object]]) -> list[str]:
    """The texts METHOD:KEY=V|W,... of `--tune`, or of {METHOD: {KEY: [V, W]}}."""
    if isinstance(tune, str):
        return [tune]
    if not isinstance(tune, Mapping):
        return list(tune)

    texts = []
    for method, spaces in tune.items():
        keys = []
        for key, values in spaces.items():
            listed = values if isinstance(values, list | tuple) else [values]
            keys.append(f"{key}={'|'.join(canonical(value) for value in listed)}")
        texts.append(f"{method}:{','.join(keys)}")
    return texts


def _other_runs(selection: Selection) -> str:
    """The option that selects runs instead of a grid, the first of several; empty for none."""
    return next(
        (
            name
            for name in ("table", "figure", "paper", "claim", "released")
            if getattr(selection, name)
        ),
        "",
    )


def _of_papers(request: Request) -> Request:
    """The runs of tables, figures and claims, each once. `--encoders` with a folder gives an
    encoder; other names choose.
    """
    selection = request.selection
    profile = request.profile
    option = _other_runs(selection)
    encoders, given = _encoders(_listed(selection.encoders), Path(selection.results))
    refused = ["methods", "suites", "tasks"]
    if selection.claim is not None:
        option = "claim"
        refused += ["table", "figure", "paper", "readings"]
    for name in refused:
        if getattr(selection, name) is not None:
            raise UserError(
                f"--{option} selects its own runs; remove --{name} (--rows, --settings, --encoders "
                "NAME or NAME=DIR, --seeds and --set are allowed)"
            )
    overrides = require_single_values(selection.set, f"--{option} selects its own runs")
    seeds = None if selection.seeds is None else _seeds(selection.seeds)
    part = Narrowing(
        [str(Variant.parse(text)) for text in _listed(selection.rows)],
        [str(parse_setting(text)) for text in _listed(selection.settings)],
        encoders if len(given) < len(encoders) else (),
    )

    claims: Sequence[PlannedClaim] = ()
    if selection.claim is not None:
        claims = find_claims(profile, _listed(selection.claim), part, seeds)
        entries = claim_runs(claims, StandIns.of(profile))
    else:
        tables, figures, papers = map(_listed, (selection.table, selection.figure, selection.paper))
        readings = _listed(selection.readings)
        entries = find_wanted_runs(profile, tables, figures, papers, seeds, readings, part)
    made = _of_entries(request, entries, given)
    return replace(made, overrides=overrides, claims=claims)


def _of_entries(
    request: Request, entries: Mapping[str, Runs], given: Mapping[str, ModelSource]
) -> Request:
    wanted = sorted(merged(entries.values()).items(), key=lambda run: run[0].seed)
    return replace(request, wanted=dict(wanted), strict=False, given=given, entries=entries)


def _of_released(request: Request) -> Request:
    """Public weights on the suites of the tables that they should reproduce, or without tables on
    the given suites.

    Suites default to all that are not opt-in; those of images only for weights with published
    heads. `--encoders` may give folders of weights, but not choose them.
    """
    selection = request.selection
    profile = request.profile
    encoders, given = _encoders(_listed(selection.encoders), Path(selection.results))
    tables = _listed(selection.table)
    papers = _listed(selection.paper)
    refused = ["methods", "settings", "seeds", "figure", "claim", "rows", "readings", "set"]
    refused += ["suites", "tasks"] if tables or papers else []
    refused += (
        ["encoders"] if len(given) < len(encoders) or set(encoders) - set(profile.released) else []
    )
    for name in refused:
        if getattr(selection, name):
            raise UserError(
                f"--released evaluates the public weights that the profile lists; remove --{name} (--table, --paper, "
                "without them --suites, and --encoders NAME=DIR for the name of such weights are allowed)"
            )
    if tables or papers:
        return _of_entries(request, find_released_runs(profile, tables, papers), given)
    if not profile.released:
        raise UserError(
            f"the profile {profile.name} lists no public weights; add some to its table [released]"
        )
    images = {name for name in profile.suites if get_class("suite", name, Suite).needs_images}
    wanted = {
        make_released_spec(name, weights): [
            suite
            for suite in listed_suites(selection, profile)
            if selection.suites is not None or weights.heads or suite not in images
        ]
        for name, weights in profile.released.items()
    }
    return _of_tasks(replace(request, wanted=wanted, strict=False, given=given))


def model_request(
    model: str | None,
    pooling: str | None,
    selection: Selection,
    store: Store,
    *,
    trusted: bool = False,
    name: str | None = None,
) -> Request:
    """Request the evaluation of a finished run (its key), a folder, or a hub name
    OWNER/NAME[@COMMIT], and of encoders.

    A model from outside is the run `none[pooling=...]` with seed 0. `pooling` defaults to what the
    model states, `modules` for a sentence-transformers model; `trusted` allows code in its
    repository to be executed. `name` names a folder's model (see `name_model`). With a run, the
    selection's `encoders` give the folder of its encoder.
    """
    request = _empty(selection)
    spec = None if model is None else _run_spec(model)
    if spec is None:
        models = [*([] if model is None else [model]), *_listed(selection.encoders)]
        if not models:
            raise UserError(
                "no model is given; give a folder, a hub name, a run's key or --encoders"
            )
        if name is not None and (model is None or not expand(model).is_dir()):
            raise UserError("--name works only for the model of a folder; remove it")
        named = [
            _outside_name(each, request, store, name if each == model else None) for each in models
        ]
        return _of_models(request, named, pooling, trusted)
    if name is not None:
        raise UserError("a run is named by its key; remove --name")
    if pooling is not None:
        raise UserError("the pooling of a run is fixed by its method; remove --pooling")
    if trusted:
        raise UserError("--trust-remote-code does not apply to a run; remove it")
    encoders, given = _encoders(
        _listed(selection.encoders) or [spec.encoder], Path(selection.results)
    )
    if encoders != [spec.encoder]:
        raise UserError(
            f"{spec} has the encoder {spec.encoder}; give --encoders {spec.encoder}=FOLDER, or none"
        )
    first, *others = find_results(store, str(spec), request.profile.name)
    if any(other.overrides != first.overrides for other in others):
        raise UserError(
            f"{store.root} has runs {spec} that differ by --set; `harness run --suites ...` with the options of one "
            "adds suites to it"
        )
    wanted = {spec: listed_suites(selection, request.profile)}
    return _of_tasks(replace(request, wanted=wanted, overrides=first.overrides, given=given))


def _run_spec(model: str) -> RunSpec | None:
    """The run that a key names; None if the text is not the key of a registered method's run."""
    try:
        spec = RunSpec.parse(model)
    except SpecError:
        return None
    return spec if spec.variant.name in names("method") else None


def _outside_name(model: str, request: Request, store: Store, called: str | None) -> str:
    """A model from outside as `--encoders` takes it. Raises UserError for a folder that does not
    exist.
    """
    folder = expand(model)
    if folder.is_dir():
        return f"{name_model(FolderModel(folder.resolve()), called, request.inventory, store)}={folder}"
    if model.startswith((".", "/", "~")):
        raise UserError(
            f"no folder {model}; give the folder of a saved model, a hub name or a run's key"
        )
    return model


def _of_models(
    request: Request, models: Sequence[str], pooling: str | None, trusted: bool
) -> Request:
    """Models from outside, each in its own pooling. Raises UserError for one that does not state
    it.
    """
    encoders, given = _encoders(models, Path(request.selection.results))
    if len(set(encoders)) < len(models):
        raise UserError(
            "two of the models have the same name; give each its own with --encoders NAME=FOLDER"
        )
    request = replace(request, given=given, selection=replace(request.selection, encoders=models))
    suites = listed_suites(request.selection, request.profile)
    sources = dict(given)
    wanted = dict[RunSpec, Sequence[str]]()
    for name, model in zip(encoders, models, strict=True):
        source = request.inventory.encoder(name).source
        known = pooling or _known_pooling(source, request.profile)
        if known is None:
            raise UserError(
                f"{model} does not state its pooling; give --pooling cls, mean or avg-first-last, or pooler for a "
                "model that is used through its trained head"
            )
        sources |= {name: replace(source, trusted=True)} if trusted else {}
        wanted[
            RunSpec(Variant.make(UNTRAINED, {"pooling": known}), Variant(UNTRAINED), name, 0)
        ] = suites
    return _of_tasks(replace(request, wanted=wanted, given=sources))


def _known_pooling(source: ModelSource, profile: Profile) -> str | None:
    """The pooling of a hub model that the profile lists as released weights or a teacher, else that
    of its files.
    """
    named = {
        table.hub: table.pooling for table in profile.teachers.values() if table.kind == "text"
    }
    named |= {table.hub: table.pooling for table in profile.released.values()}
    if isinstance(source, HubModel) and source.hub in named:
        return named[source.hub]
    return declared_pooling(source.path())


def _listed(names: Names | None) -> list[str]:
    parts = split(names) if isinstance(names, str) else names or ()
    return list(dict.fromkeys(part for part in parts if part))


def _seeds(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    return parse_seeds(
        str(seeds) if isinstance(seeds, int | str) else f"{','.join(map(str, seeds))},"
    )


def _encoders(items: Sequence[str], results: Path) -> tuple[list[str], dict[str, ModelSource]]:
    """Names of encoders, and the sources of those given as NAME=DIR, as a path, a run or
    OWNER/NAME@COMMIT.
    """
    encoders: list[str] = []
    given: dict[str, ModelSource] = {}
    for item in items:
        name, equals, folder = ("", "", item) if item.startswith(RUN) else item.partition("=")
        if folder.startswith(RUN):
            model = run_model(folder, results)
            encoders.append(parse_encoder(name or f"run-{model.run[:12]}"))
            given[encoders[-1]] = model
            continue
        if not equals and item.startswith((".", "/", "~")):
            name = expand(item).resolve().name
            folder = item
        hub, at, commit = name.partition("@")
        name = parse_encoder(hub)
        if folder:
            given[name] = _folder(folder)
        elif at:
            given[name] = _pinned(hub, commit)
        encoders.append(name)
    return encoders, given


def _folder(text: str) -> FolderModel:
    folder = expand(text).resolve()
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        raise UserError(
            f"the encoder folder {text} has no config.json; give a folder saved by transformers or "
            "sentence-transformers"
        )
    return FolderModel(folder)


def _pinned(hub: str, commit: str) -> HubModel:
    if "/" not in hub or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UserError(
            f"'{hub}@{commit}' does not pin a hub model; write OWNER/NAME@ and the 40 digits of a commit"
        )
    return HubModel(hub, commit)
