"""Runs as a user names them, resolved into a request under a profile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.command_line import Names, Selection
from harness.commands import LastPlaces
from harness.encoders.locate import FolderModel, HubModel, ModelSource
from harness.encoders.modules import find_pooling
from harness.errors import UserError
from harness.evaluation.suites import Suite
from harness.files import expand
from harness.grid import (
    Overrides,
    expand_variants,
    make_grid,
    require_single_values,
    split_set_values,
)
from harness.method.declared import get_declared_method
from harness.papers.claims import PlannedClaim, find_claims, list_claim_runs
from harness.papers.needed import (
    Narrowing,
    Runs,
    StandIns,
    find_released_runs,
    find_wanted_runs,
    make_released_spec,
    merge_runs,
)
from harness.planning.inventory import Inventory
from harness.planning.model_names import name_model
from harness.planning.names import run_model
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.registry import get_class, list_registered, suggest
from harness.sources import resolve_data_root
from harness.spec import (
    RUN,
    UNTRAINED,
    RunSpec,
    SpecError,
    Variant,
    parse_encoder,
    parse_seeds,
    parse_setting,
    split,
    write_canonical,
)
from harness.store import Store, find_results
from harness.store.tunings import Tuning, make_tuning, resume_tuning, start_search

#: options that hold names
NAME_OPTIONS = (
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
)
#: options that select runs instead of a grid
OPTIONS_INSTEAD = ("table", "figure", "paper", "claim", "released")


@dataclass(frozen=True)
class Request:
    """Runs, seeds outermost, each with the suites to evaluate it on.

    A `strict` request is a user's own: what is wrong with a name is an error. Otherwise, as in a
    paper's table, it only costs the runs of the name, and a run that is only the teacher of a
    requested one is not evaluated. `own_encoders` are the user's own by name, `data` is the data
    root. `entries` names the tables, figures and claims of papers that the runs belong to, and
    `claims` are those that they decide. `selection` is what the user named, and `tuning` which of
    the methods are trials.
    """

    profile: Profile
    suites_by_run: Mapping[RunSpec, Sequence[str]]
    overrides: Overrides = field(default_factory=dict)
    strict: bool = True
    own_encoders: Mapping[str, ModelSource] = field(default_factory=dict)
    data: Path | None = None
    entries: Mapping[str, Collection[RunSpec]] = field(default_factory=dict)
    claims: Sequence[PlannedClaim] = ()
    tasks: Sequence[str] = ()
    selection: Selection = field(default_factory=Selection, compare=False)
    tuning: Tuning | None = None

    @property
    def methods(self) -> list[Variant]:
        return list(dict.fromkeys(spec.variant for spec in self.suites_by_run))

    @property
    def encoders(self) -> list[str]:
        return list(dict.fromkeys(spec.encoder for spec in self.suites_by_run))

    @cached_property
    def suites(self) -> list[str]:
        """Each suite that some run is evaluated on."""
        suites = dict[str, None]()
        for suites_of_run in self.suites_by_run.values():
            suites |= dict.fromkeys(suites_of_run)
        return list(suites)

    @property
    def inventory(self) -> Inventory:
        """The sources that its profile and the user name. Raises UserError for a data root that is
        a file.
        """
        return Inventory(self.profile, resolve_data_root(self.data), self.own_encoders, self.tasks)

    @property
    def places(self) -> LastPlaces:
        """The files and folders that the user gave."""
        profile = ""
        if self.selection.profile not in shipped_profiles():
            profile = str(Path(self.selection.profile).resolve())

        data = str(self.data.resolve()) if self.data else ""
        encoders = {
            name: source.typed
            for name, source in self.own_encoders.items()
            if isinstance(source, FolderModel)
        }
        return LastPlaces(profile=profile, data_root=data, encoders=encoders)


def make_request(selection: Selection, tuning: Tuning | None = None) -> Request:
    """Resolve a selection, with a later round of its `tuning`. Raises UserError for a wrong name or
    combination.
    """
    request = _resolve_selection(selection, tuning)
    used_encoders = set(request.encoders)
    own_encoders: dict[str, ModelSource] = {}
    for name, model in request.profile.encoders.items():
        # an encoder of the profile may be the model of a run, which is found in the results
        if name in used_encoders and model.folder and model.folder.startswith(RUN):
            own_encoders[name] = run_model(model.folder, Path(selection.results))

    own_encoders.update(request.own_encoders)
    return replace(request, own_encoders=own_encoders)


def _resolve_selection(selection: Selection, tuning: Tuning | None) -> Request:
    request = _make_empty_request(selection)
    option_instead = _find_option_instead(selection)
    tunes = selection.tune or selection.trials is not None or selection.sampler
    if tunes and option_instead:
        raise UserError(f"--tune works only with a grid of methods; remove --{option_instead}")

    if selection.released:
        return _select_released(request)
    if option_instead:
        return _select_paper_runs(request)

    if selection.readings is not None:
        raise UserError(
            "--readings works only with --table, --figure or --paper; in a grid, name readings in --methods, as in "
            "mcse,mcse@official"
        )
    if selection.rows is not None:
        raise UserError(
            "--rows works only with --table, --figure, --paper or --claim; in a grid, name --methods"
        )
    return _select_grid(request, tuning)


def select_settings(selection: Selection, profile: Profile) -> list[Variant]:
    """The settings of a selection, by default those of the profile. Raises UserError."""
    names_of_settings = _split_names(selection.settings) or profile.defaults.settings
    return [parse_setting(text) for text in names_of_settings]


def select_suites(selection: Selection, profile: Profile) -> list[str]:
    """The suites of a selection, by default those of the profile that are not opt-in."""
    named_suites = _split_names(selection.suites)
    if named_suites:
        return named_suites
    return [name for name, suite in profile.suites.items() if not suite.asked]


def make_inventory(selection: Selection) -> Inventory:
    """The sources that a selection's profile names. Raises UserError."""
    return _make_empty_request(selection).inventory


def _make_empty_request(selection: Selection) -> Request:
    """A request without runs, of the profile and the data root of a selection. Raises UserError."""
    for option in NAME_OPTIONS:
        value = getattr(selection, option)
        # as from an unset shell variable; it would mean the default
        if value is not None and not _split_names(value):
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


def _restrict_to_tasks(request: Request) -> Request:
    """A request for the tasks of its selection only; suites without one are left out. Raises
    UserError.
    """
    if request.selection.tasks is None:
        return request

    suites = request.suites
    tasks_by_suite: dict[str, Sequence[str]] = {}
    known_tasks = set[str]()
    for name in suites:
        if name in request.profile.suites:
            tasks_by_suite[name] = request.profile.suites[name].tasks
            known_tasks.update(tasks_by_suite[name])

    tasks = _join_task_names(_split_names(request.selection.tasks), known_tasks)
    for task in tasks:
        if task not in known_tasks:
            hint = suggest(task, sorted(known_tasks))
            raise UserError(
                f"--tasks {task}: no such task in the suites {', '.join(suites)}; {hint}"
            )

    suites_with_tasks = set[str]()
    for name in suites:
        # an unknown suite stays, and is refused by its name later
        if name not in tasks_by_suite or not set(tasks).isdisjoint(tasks_by_suite[name]):
            suites_with_tasks.add(name)

    suites_by_run = {}
    for spec, suites_of_run in request.suites_by_run.items():
        suites_by_run[spec] = [name for name in suites_of_run if name in suites_with_tasks]
    return replace(request, suites_by_run=suites_by_run, tasks=tasks)


def _join_task_names(parts: Sequence[str], known_tasks: Collection[str]) -> list[str]:
    """Names of tasks that were split at commas, joined where a known one has commas itself:
    MTEB(eng, v1):STS.
    """
    joined = dict[str, None]()
    start = 0
    while start < len(parts):
        end = len(parts)
        # the longest name that is known, else the part alone
        while end > start + 1 and ", ".join(parts[start:end]) not in known_tasks:
            end -= 1
        joined[", ".join(parts[start:end])] = None
        start = end
    return list(joined)


def _select_grid(request: Request, tuning: Tuning | None) -> Request:
    selection = request.selection
    profile = request.profile
    seeds = tuple(range(profile.defaults.seeds))
    if selection.seeds is not None:
        seeds = _parse_seed_option(selection.seeds)
    encoders, own_encoders = _resolve_encoders(
        _split_names(selection.encoders) or profile.defaults.encoders, Path(selection.results)
    )
    overrides, lists = split_set_values(selection.set)
    settings = select_settings(selection, profile)

    if tuning is None:
        places = [f"{setting}/{encoder}" for setting in settings for encoder in encoders]
        tuning = _start_tuning(selection, profile, places)

    methods = _split_names(selection.methods)
    if tuning is not None:
        methods.extend(tuning.variants)
    elif not methods:
        methods = list(profile.defaults.methods)
    variants = expand_variants(methods, overrides, lists)
    specs = make_grid(profile, variants, settings, encoders, seeds)

    suites_by_run = dict.fromkeys(specs, select_suites(selection, profile))
    return _restrict_to_tasks(
        replace(
            request,
            suites_by_run=suites_by_run,
            overrides=overrides,
            own_encoders=own_encoders,
            tuning=tuning,
        )
    )


def _start_tuning(selection: Selection, profile: Profile, places: Sequence[str]) -> Tuning | None:
    """The tuning that a selection asks for, continued where the results have it; None for none.
    Raises UserError.
    """
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
        if not get_declared_method(Variant.parse(method.base).name).trains:
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
            keys.append(f"{key}={'|'.join(write_canonical(value) for value in listed)}")
        texts.append(f"{method}:{','.join(keys)}")
    return texts


def _find_option_instead(selection: Selection) -> str:
    """The option that selects runs instead of a grid, the first of several; empty for none."""
    for option in OPTIONS_INSTEAD:
        if getattr(selection, option):
            return option
    return ""


def _select_paper_runs(request: Request) -> Request:
    """The runs of tables, figures and claims, each once. `--encoders` with a folder gives an
    encoder; other names choose.
    """
    selection = request.selection
    profile = request.profile
    encoders, own_encoders = _resolve_encoders(
        _split_names(selection.encoders), Path(selection.results)
    )

    option = _find_option_instead(selection)
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
    seeds = None if selection.seeds is None else _parse_seed_option(selection.seeds)
    narrowing = Narrowing(
        [str(Variant.parse(text)) for text in _split_names(selection.rows)],
        [str(parse_setting(text)) for text in _split_names(selection.settings)],
        encoders if len(own_encoders) < len(encoders) else (),
    )

    claims: Sequence[PlannedClaim] = ()
    if selection.claim is not None:
        claims = find_claims(profile, _split_names(selection.claim), narrowing, seeds)
        entries = list_claim_runs(claims, StandIns.of(profile))
    else:
        entries = find_wanted_runs(
            profile,
            _split_names(selection.table),
            _split_names(selection.figure),
            _split_names(selection.paper),
            seeds,
            _split_names(selection.readings),
            narrowing,
        )
    request_of_entries = _request_entries(request, entries, own_encoders)
    return replace(request_of_entries, overrides=overrides, claims=claims)


def _request_entries(
    request: Request, entries: Mapping[str, Runs], own_encoders: Mapping[str, ModelSource]
) -> Request:
    runs = sorted(merge_runs(entries.values()).items(), key=lambda run: run[0].seed)
    return replace(
        request,
        suites_by_run=dict(runs),
        strict=False,
        own_encoders=own_encoders,
        entries=entries,
    )


def _select_released(request: Request) -> Request:
    """Public weights on the suites of the tables that they should reproduce, or without tables on
    the given suites.

    Suites default to all that are not opt-in; those of images only for weights with published
    heads. `--encoders` may give folders of weights, but not choose them.
    """
    selection = request.selection
    profile = request.profile
    encoders, own_encoders = _resolve_encoders(
        _split_names(selection.encoders), Path(selection.results)
    )
    tables = _split_names(selection.table)
    papers = _split_names(selection.paper)

    refused = ["methods", "settings", "seeds", "figure", "claim", "rows", "readings", "set"]
    if tables or papers:
        refused += ["suites", "tasks"]
    if len(own_encoders) < len(encoders) or not set(encoders) <= profile.released.keys():
        refused.append("encoders")
    for name in refused:
        if getattr(selection, name):
            raise UserError(
                f"--released evaluates the public weights that the profile lists; remove --{name} (--table, --paper, "
                "without them --suites, and --encoders NAME=DIR for the name of such weights are allowed)"
            )

    if tables or papers:
        return _request_entries(request, find_released_runs(profile, tables, papers), own_encoders)
    if not profile.released:
        raise UserError(
            f"the profile {profile.name} lists no public weights; add some to its table [released]"
        )

    image_suites = {name for name in profile.suites if get_class("suite", name, Suite).needs_images}
    suites = select_suites(selection, profile)
    suites_of_text = suites
    if selection.suites is None:
        suites_of_text = [name for name in suites if name not in image_suites]

    suites_by_run = {}
    for name, weights in profile.released.items():
        spec = make_released_spec(name, weights)
        suites_by_run[spec] = suites if weights.heads else suites_of_text
    return _restrict_to_tasks(
        replace(request, suites_by_run=suites_by_run, strict=False, own_encoders=own_encoders)
    )


def make_model_request(
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
    request = _make_empty_request(selection)
    spec = None if model is None else _parse_run_key(model)
    if spec is None:
        models = _name_outside_models(request, model, name, store)
        return _request_models(request, models, pooling, trusted)

    if name is not None:
        raise UserError("a run is named by its key; remove --name")
    if pooling is not None:
        raise UserError("the pooling of a run is fixed by its method; remove --pooling")
    if trusted:
        raise UserError("--trust-remote-code does not apply to a run; remove it")
    return _request_run(request, spec, store)


def _request_run(request: Request, spec: RunSpec, store: Store) -> Request:
    """Request more suites for a finished run. Raises UserError."""
    selection = request.selection
    encoders, own_encoders = _resolve_encoders(
        _split_names(selection.encoders) or [spec.encoder], Path(selection.results)
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

    suites_by_run = {spec: select_suites(selection, request.profile)}
    return _restrict_to_tasks(
        replace(
            request,
            suites_by_run=suites_by_run,
            overrides=first.overrides,
            own_encoders=own_encoders,
        )
    )


def _parse_run_key(text: str) -> RunSpec | None:
    """The run that a key names; None if the text is not the key of a registered method's run."""
    try:
        spec = RunSpec.parse(text)
    except SpecError:
        return None
    return spec if spec.variant.name in list_registered("method") else None


def _name_outside_models(
    request: Request, model: str | None, name: str | None, store: Store
) -> list[str]:
    """The models to evaluate as `--encoders` takes them; `name` is that of `model`. Raises
    UserError.
    """
    models = _split_names(request.selection.encoders)
    if model is not None:
        models.insert(0, model)
    if not models:
        raise UserError("no model is given; give a folder, a hub name, a run's key or --encoders")
    if name is not None and (model is None or not expand(model).is_dir()):
        raise UserError("--name works only for the model of a folder; remove it")

    named_models = []
    for text in models:
        asked_name = name if text == model else None
        named_models.append(_name_outside_model(text, request, store, asked_name))
    return named_models


def _name_outside_model(model: str, request: Request, store: Store, asked_name: str | None) -> str:
    """A model from outside as `--encoders` takes it. Raises UserError for a folder that does not
    exist.
    """
    folder = expand(model)
    if folder.is_dir():
        source = FolderModel(folder.resolve())
        return f"{name_model(source, asked_name, request.inventory, store)}={folder}"
    if model.startswith((".", "/", "~")):
        raise UserError(
            f"no folder {model}; give the folder of a saved model, a hub name or a run's key"
        )
    return model


def _request_models(
    request: Request, models: Sequence[str], pooling: str | None, trusted: bool
) -> Request:
    """Models from outside, each in its own pooling. Raises UserError for one that does not state
    it.
    """
    encoders, own_encoders = _resolve_encoders(models, Path(request.selection.results))
    if len(set(encoders)) < len(models):
        raise UserError(
            "two of the models have the same name; give each its own with --encoders NAME=FOLDER"
        )

    request = replace(
        request,
        own_encoders=own_encoders,
        selection=replace(request.selection, encoders=models),
    )
    suites = select_suites(request.selection, request.profile)
    sources = dict(own_encoders)
    suites_by_run = dict[RunSpec, Sequence[str]]()
    for name, model in zip(encoders, models, strict=True):
        source = request.inventory.find_encoder(name).source
        pooling_of_model = pooling or _find_pooling(source, request.profile)
        if pooling_of_model is None:
            raise UserError(
                f"{model} does not state its pooling; give --pooling cls, mean or avg-first-last, or pooler for a "
                "model that is used through its trained head"
            )

        if trusted:
            sources[name] = replace(source, trusted=True)
        variant = Variant.make(UNTRAINED, {"pooling": pooling_of_model})
        suites_by_run[RunSpec(variant, Variant(UNTRAINED), name, 0)] = suites
    return _restrict_to_tasks(replace(request, suites_by_run=suites_by_run, own_encoders=sources))


def _find_pooling(source: ModelSource, profile: Profile) -> str | None:
    """The pooling of a hub model that the profile lists as released weights or a teacher, else that
    of its files.
    """
    pooling_by_hub = {}
    for teacher in profile.teachers.values():
        if teacher.kind == "text":
            pooling_by_hub[teacher.hub] = teacher.pooling
    for weights in profile.released.values():
        pooling_by_hub[weights.hub] = weights.pooling

    if isinstance(source, HubModel) and source.hub in pooling_by_hub:
        return pooling_by_hub[source.hub]
    return find_pooling(source.path())


def _split_names(names: Names | None) -> list[str]:
    """The names of an option, each once; empty for none."""
    parts = split(names) if isinstance(names, str) else names or ()
    return list(dict.fromkeys(part for part in parts if part))


def _parse_seed_option(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int | str):
        return parse_seeds(str(seeds))
    return parse_seeds(f"{','.join(map(str, seeds))},")


def _resolve_encoders(
    items: Sequence[str], results: Path
) -> tuple[list[str], dict[str, ModelSource]]:
    """Names of encoders, and the sources of those given as NAME=DIR, as a path, a run or
    OWNER/NAME@COMMIT.
    """
    encoders: list[str] = []
    own_encoders: dict[str, ModelSource] = {}
    for item in items:
        name, _, folder = item.partition("=")
        if item.startswith(RUN):  # the key of a run has equals signs of its own
            name = ""
            folder = item

        if folder.startswith(RUN):
            model = run_model(folder, results)
            name = parse_encoder(name or f"run-{model.run[:12]}")
            own_encoders[name] = model
            encoders.append(name)
            continue

        if "=" not in item and item.startswith((".", "/", "~")):
            name = expand(item).resolve().name
            folder = item
        hub, at, commit = name.partition("@")
        name = parse_encoder(hub)
        if folder:
            own_encoders[name] = _find_model_folder(folder)
        elif at:
            own_encoders[name] = _pin_hub_model(hub, commit)
        encoders.append(name)
    return encoders, own_encoders


def _find_model_folder(text: str) -> FolderModel:
    folder = expand(text).resolve()
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        raise UserError(
            f"the encoder folder {text} has no config.json; give a folder saved by transformers or "
            "sentence-transformers"
        )
    return FolderModel(folder)


def _pin_hub_model(hub: str, commit: str) -> HubModel:
    if "/" not in hub or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UserError(
            f"'{hub}@{commit}' does not pin a hub model; write OWNER/NAME@ and the 40 digits of a commit"
        )
    return HubModel(hub, commit)
