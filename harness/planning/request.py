"""Runs as a user names them, resolved into a request under a profile."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.command_line import Names, Selection
from harness.commands import Typed
from harness.encoders.locate import FolderModel, HubModel, ModelSource
from harness.encoders.modules import declared_pooling
from harness.errors import UserError
from harness.evaluation.suites import Suite
from harness.files import expand
from harness.grid import Overrides, listed_values, one_value_each, swept
from harness.method.declared import declared_method
from harness.papers.needed import Runs, merged, released_runs, released_spec, wanted_runs
from harness.planning.inventory import Inventory
from harness.planning.names import model_name, run_model
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.registry import get_class, names, suggest
from harness.sources import data_root
from harness.spec import RUN, UNTRAINED, RunSpec, SpecError, Variant, parse_encoder, parse_seeds, parse_setting, split
from harness.store import Store, find_results
from harness.store.tunings import Tuning, make_tuning


@dataclass(frozen=True)
class Request:
    """A grid of runs, or the runs of `wanted` one by one, each with the suites to evaluate it on.

    `given` are the user's own encoders by name, `data` is the data root. `entries` names the tables and
    figures of papers that wanted runs belong to. A run that is only a teacher of a wanted one is not evaluated.
    `selection` is what the user named, and `tuning` which of the methods are trials.
    """

    profile: Profile
    methods: Sequence[Variant]
    settings: Sequence[Variant]
    encoders: Sequence[str]
    seeds: Sequence[int]
    suites: Sequence[str]
    overrides: Overrides = field(default_factory=dict)
    given: Mapping[str, ModelSource] = field(default_factory=dict)
    data: Path | None = None
    wanted: Mapping[RunSpec, Sequence[str]] | None = None
    entries: Mapping[str, Collection[RunSpec]] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    selection: Selection = field(default_factory=Selection, compare=False)
    tuning: Tuning | None = None

    @property
    def inventory(self) -> Inventory:
        """The sources that its profile and the user name. Raises UserError for a data root that is a file."""
        return Inventory(self.profile, data_root(self.data), self.given, self.tasks)

    @property
    def typed(self) -> Typed:
        """The files and folders that the user gave."""
        named = self.selection.profile
        return Typed(
            profile=str(Path(named).resolve()) if named not in shipped_profiles() else "",
            data_root=str(self.data.resolve()) if self.data else "",
            encoders={name: source.typed for name, source in self.given.items() if isinstance(source, FolderModel)},
        )


def make_request(selection: Selection) -> Request:
    """Resolve a selection. Raises UserError for a name, a place or a combination that is wrong."""
    request = replace(_of_all_tasks(selection), selection=selection)
    known = request.profile.encoders
    named = {name: known[name].folder or "" for name in request.encoders if name in known}
    runs = {name: run_model(at, Path(selection.results)) for name, at in named.items() if at.startswith(RUN)}
    request = replace(request, given={**runs, **request.given})
    return request if selection.tasks is None else _of_tasks(request, selection.tasks)


def _of_tasks(request: Request, names: Names) -> Request:
    """A request for some tasks of its suites; suites without one are left out. Raises UserError for an unknown task."""
    tasks = {name: request.profile.suites[name].tasks for name in request.suites if name in request.profile.suites}
    known = {task for each in tasks.values() for task in each}
    chosen = _joined(_listed(names), known)
    for name in chosen:
        if name not in known:
            hint = suggest(name, sorted(known))
            raise UserError(f"--tasks {name}: no such task in the suites {', '.join(request.suites)}; {hint}")

    def left(suites: Iterable[str]) -> list[str]:
        return [name for name in suites if name not in tasks or {*tasks[name]} & {*chosen}]

    wanted = None if request.wanted is None else {spec: left(suites) for spec, suites in request.wanted.items()}
    return replace(request, suites=left(request.suites), wanted=wanted, tasks=chosen)


def _joined(parts: Sequence[str], known: Collection[str]) -> list[str]:
    """Names of tasks that were split at commas, joined where a known one has commas itself: MTEB(eng, v1):STS."""
    joined, start = [], 0
    while start < len(parts):
        ends = range(len(parts), start, -1)
        end = next((end for end in ends if ", ".join(parts[start:end]) in known), start + 1)
        joined.append(", ".join(parts[start:end]))
        start = end
    return list(dict.fromkeys(joined))


def _of_all_tasks(selection: Selection) -> Request:
    _check_named(selection)
    profile = load_profile(selection.profile)
    data = Path(selection.data_root) if selection.data_root is not None else None
    if data is not None and not data.is_dir():
        raise UserError(f"--data-root {data} is not a folder; give the folder that holds sts/, wiki/ and the like")
    if (selection.tune or selection.trials is not None) and _other_runs(selection):
        raise UserError(f"--tune works only with a grid of methods; remove --{_other_runs(selection)}")
    if selection.released:
        return _released_request(selection, profile, data)
    seeds = None if selection.seeds is None else _seeds(selection.seeds)
    if selection.table or selection.figure or selection.paper:
        return _paper_request(selection, profile, seeds, data)
    if selection.readings is not None:
        raise UserError(
            "--readings works only with --table, --figure or --paper; in a grid, name readings in --methods, as in "
            "mcse,mcse@official"
        )
    encoders, given = _encoders(_listed(selection.encoders) or profile.defaults.encoders, Path(selection.results))
    overrides, lists = listed_values(selection.set)
    tuning = _tuning(selection, profile)
    methods = _listed(selection.methods) or ([] if tuning else profile.defaults.methods)
    return Request(
        profile=profile,
        methods=swept([*methods, *(tuning.variants if tuning else ())], overrides, lists),
        settings=[parse_setting(text) for text in _listed(selection.settings) or profile.defaults.settings],
        encoders=encoders,
        seeds=seeds if seeds is not None else tuple(range(profile.defaults.seeds)),
        suites=_listed(selection.suites) or [name for name, table in profile.suites.items() if not table.asked],
        overrides=overrides,
        given=given,
        data=data,
        tuning=tuning,
    )


def _tuning(selection: Selection, profile: Profile) -> Tuning | None:
    texts = [selection.tune] if isinstance(selection.tune, str) else list(selection.tune)
    if not texts and selection.trials is None:
        return None
    if not texts or selection.trials is None:
        raise UserError("--tune and --trials go together; write for example --tune 'mcse:lambda=0.01|0.1|1' --trials 3")
    overrides = one_value_each(selection.set, "--tune draws its own values")
    tuning = make_tuning(profile.name, overrides, texts, selection.trials)
    for method in tuning.methods:
        if not declared_method(Variant.parse(method.base).name).trains:
            raise UserError(
                f"--tune {method.base}: it trains nothing, so there is nothing to tune; use --methods {method.base}"
            )
    return tuning


def _other_runs(selection: Selection) -> str:
    """The option that selects runs instead of a grid; empty for none."""
    return next((name for name in ("table", "figure", "paper", "released") if getattr(selection, name)), "")


def _check_named(selection: Selection) -> None:
    """Refuse an empty list of names, as from an unset shell variable, which would mean the default."""
    for option in ("methods", "settings", "encoders", "suites", "tasks", "table", "figure", "paper", "readings"):
        given = getattr(selection, option)
        if given is not None and not _listed(given):
            raise UserError(f"--{option} is empty; give a name, or leave the option out for the default")


def _paper_request(selection: Selection, profile: Profile, seeds: tuple[int, ...] | None, data: Path | None) -> Request:
    """The runs of tables and figures, each once. `--encoders` may give folders of encoders, but not choose them."""
    option = next(name for name in ("table", "figure", "paper") if getattr(selection, name))
    encoders, given = _encoders(_listed(selection.encoders), Path(selection.results))
    chosen = {name: getattr(selection, name) for name in ("methods", "settings", "suites", "tasks")}
    chosen |= {} if len(given) == len(encoders) else {"encoders": selection.encoders}
    for name, value in chosen.items():
        if value is not None:
            raise UserError(
                f"--{option} selects its own runs; remove --{name} (--seeds, --readings, --set and --encoders "
                "NAME=DIR are allowed)"
            )
    tables, figures, papers = map(_listed, (selection.table, selection.figure, selection.paper))
    entries = wanted_runs(profile, tables, figures, papers, seeds, _listed(selection.readings))
    runs = _listed_runs(profile, merged(entries.values()), given, data, entries)
    return replace(runs, overrides=one_value_each(selection.set, f"--{option} selects its own runs"))


def _released_request(selection: Selection, profile: Profile, data: Path | None) -> Request:
    """Public weights on the suites of the tables that they should reproduce, or without tables on the given suites.

    Suites default to all that are not opt-in; those of images only for weights with published heads. `--encoders` may
    give folders of weights, but not choose them.
    """
    encoders, given = _encoders(_listed(selection.encoders), Path(selection.results))
    tables, papers = _listed(selection.table), _listed(selection.paper)
    refused = ["methods", "settings", "seeds", "figure", "readings", "set"]
    refused += ["suites", "tasks"] if tables or papers else []
    refused += ["encoders"] if len(given) < len(encoders) or set(encoders) - set(profile.released) else []
    for name in refused:
        if getattr(selection, name):
            raise UserError(
                f"--released evaluates the public weights that the profile lists; remove --{name} (--table, --paper, "
                "without them --suites, and --encoders NAME=DIR for the name of such weights are allowed)"
            )
    if tables or papers:
        entries = released_runs(profile, tables, papers)
        return _listed_runs(profile, merged(entries.values()), given, data, entries)
    if not profile.released:
        raise UserError(f"the profile {profile.name} lists no public weights; add some to its table [released]")
    default = {
        name: get_class("suite", name, Suite).needs_images for name, table in profile.suites.items() if not table.asked
    }
    wanted = {
        released_spec(name, weights): tuple(
            _listed(selection.suites) or (suite for suite, images in default.items() if weights.heads or not images)
        )
        for name, weights in profile.released.items()
    }
    return _listed_runs(profile, wanted, given, data, {})


def _listed_runs(
    profile: Profile, wanted: Runs, given: Mapping[str, ModelSource], data: Path | None, entries: Mapping[str, Runs]
) -> Request:
    return Request(
        profile=profile,
        methods=list(dict.fromkeys(spec.variant for spec in wanted)),
        settings=list(dict.fromkeys(spec.setting for spec in wanted)),
        encoders=list(dict.fromkeys(spec.encoder for spec in wanted)),
        seeds=sorted({spec.seed for spec in wanted}),
        suites=list(dict.fromkeys(name for suites in wanted.values() for name in suites)),
        given=given,
        data=data,
        wanted=wanted,
        entries=entries,
    )


def model_request(
    model: str | None,
    pooling: str | None,
    selection: Selection,
    store: Store,
    *,
    trusted: bool = False,
    name: str | None = None,
) -> Request:
    """Request the evaluation of a finished run (its key), a folder, or a hub name OWNER/NAME[@COMMIT], and of encoders.

    A model from outside is the run `none[pooling=...]` with seed 0. `pooling` defaults to what the model states,
    `modules` for a sentence-transformers model; `trusted` allows code in its repository to be executed. `name` names a
    folder's model (see `model_name`). With a run, the selection's `encoders` give the folder of its encoder.
    """
    _check_named(selection)
    spec = None if model is None else _run_spec(model)
    if spec is None:
        models = [*([] if model is None else [model]), *_listed(selection.encoders)]
        if not models:
            raise UserError("no model is given; give a folder, a hub name, a run's key or --encoders")
        if name is not None and (model is None or not expand(model).is_dir()):
            raise UserError("--name works only for the model of a folder; remove it")
        return _together(
            [
                _outside_request(each, pooling, selection, trusted, store, name if each == model else None)
                for each in models
            ]
        )
    if name is not None:
        raise UserError("a run is named by its key; remove --name")
    if pooling is not None:
        raise UserError("the pooling of a run is fixed by its method; remove --pooling")
    if trusted:
        raise UserError("--trust-remote-code does not apply to a run; remove it")
    request = make_request(replace(selection, encoders=selection.encoders or spec.encoder))
    if list(request.encoders) != [spec.encoder]:
        raise UserError(f"{spec} has the encoder {spec.encoder}; give --encoders {spec.encoder}=FOLDER, or none")
    first, *others = find_results(store, str(spec), request.profile.name)
    if any(other.overrides != first.overrides for other in others):
        raise UserError(
            f"{store.root} has runs {spec} that differ by --set; `harness run --suites ...` with the options of one "
            "adds suites to it"
        )
    runs = replace(request, methods=[spec.variant], settings=[spec.setting], seeds=(spec.seed,))
    return replace(runs, overrides=first.overrides)


def _run_spec(model: str) -> RunSpec | None:
    """The run that a key names; None if the text is not the key of a registered method's run."""
    try:
        spec = RunSpec.parse(model)
    except SpecError:
        return None
    return spec if spec.variant.name in names("method") else None


def _together(requests: Sequence[Request]) -> Request:
    """The models of several requests as one; they may differ in their pooling."""
    first, *others = requests
    if not others:
        return first
    wanted = {
        RunSpec(request.methods[0], Variant(UNTRAINED), request.encoders[0], 0): tuple(request.suites)
        for request in requests
    }
    given = {name: source for request in requests for name, source in request.given.items()}
    if len(wanted) < len(requests):
        raise UserError("two of the models have the same name; give each its own with --encoders NAME=FOLDER")
    runs = _listed_runs(first.profile, wanted, given, first.data, {})
    return replace(runs, tasks=first.tasks, selection=first.selection)


def _outside_request(
    model: str, pooling: str | None, selection: Selection, trusted: bool, store: Store, called: str | None
) -> Request:
    folder, encoder = expand(model), model
    if folder.is_dir():
        local = FolderModel(folder.resolve(), trusted=trusted)
        inventory = Inventory(load_profile(selection.profile), data_root(selection.data_root), {})
        encoder = f"{model_name(local, called, inventory, store)}={folder}"
    elif model.startswith((".", "/", "~")):
        raise UserError(f"no folder {model}; give the folder of a saved model, a hub name or a run's key")
    request = make_request(replace(selection, encoders=encoder))
    (name,) = request.encoders
    source = request.inventory.encoder(name).source
    pooling = pooling or _known_pooling(source, request.profile)
    if pooling is None:
        raise UserError(
            f"{model} does not state its pooling; give --pooling cls, mean or avg-first-last, or pooler for a model "
            "that is used through its trained head"
        )
    given = {**request.given, name: replace(source, trusted=True)} if trusted else request.given
    return replace(request, methods=[Variant.make("none", {"pooling": pooling})], seeds=(0,), given=given)


def _known_pooling(source: ModelSource, profile: Profile) -> str | None:
    """The pooling of a hub model that the profile lists as released weights or a teacher, else that of its files."""
    named = {table.hub: table.pooling for table in profile.teachers.values() if table.kind == "text"}
    named |= {table.hub: table.pooling for table in profile.released.values()}
    if isinstance(source, HubModel) and source.hub in named:
        return named[source.hub]
    return declared_pooling(source.path())


def _listed(names: Names | None) -> list[str]:
    parts = split(names) if isinstance(names, str) else names or ()
    return list(dict.fromkeys(part for part in parts if part))


def _seeds(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    return parse_seeds(str(seeds) if isinstance(seeds, int | str) else f"{','.join(map(str, seeds))},")


def _encoders(items: Sequence[str], results: Path) -> tuple[list[str], dict[str, ModelSource]]:
    """Names of encoders, and the sources of those given as NAME=DIR, as a path, a run or OWNER/NAME@COMMIT."""
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
            name, folder = expand(item).resolve().name, item
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
        raise UserError(f"'{hub}@{commit}' does not pin a hub model; write OWNER/NAME@ and the 40 digits of a commit")
    return HubModel(hub, commit)
