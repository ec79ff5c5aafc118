"""Runs as a user names them, resolved into a request under a profile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.command_line import DEFAULT_PROFILE, parse_overrides
from harness.encoders.locate import FolderModel, HubModel, ModelSource
from harness.errors import UserError
from harness.grid import Overrides
from harness.papers.needed import merged, wanted_runs
from harness.profiles import Profile, load_profile
from harness.registry import names
from harness.spec import RunSpec, SpecError, Variant, parse_encoder, parse_seeds, parse_setting, split
from harness.store import Store, find_results

#: Several names: a sequence, or one text with commas.
Names = str | Sequence[str]


@dataclass(frozen=True)
class Selection:
    """Runs as a user names them; None takes the profile's default.

    `table`, `figure` and `paper` name the runs of a paper instead of a grid, and `readings` how they are read. `seeds`
    is a number of seeds from 0, or a list; `set` changes hyperparameters, as a mapping or as texts KEY=VALUE.
    """

    profile: str = DEFAULT_PROFILE
    methods: Names | None = None
    settings: Names | None = None
    encoders: Names | None = None
    seeds: int | str | Sequence[int] | None = None
    suites: Names | None = None
    table: Names | None = None
    figure: Names | None = None
    paper: Names | None = None
    readings: Names | None = None
    set: Mapping[str, object] | Sequence[str] = ()
    data_root: str | Path | None = None


@dataclass(frozen=True)
class Request:
    """A grid of runs, or the runs of `wanted` one by one, each with the suites to evaluate it on.

    `given` are encoders by name that the profile need not have, `data` the data root. `entries` names the tables and
    figures of papers that wanted runs belong to. A run that is only a teacher of a wanted one is not evaluated.
    `selection` is what the user named.
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
    selection: Selection = field(default_factory=Selection, compare=False)


def make_request(selection: Selection) -> Request:
    """Resolve a selection. Raises UserError for a name, a place or a combination that is wrong."""
    profile = load_profile(selection.profile)
    data = Path(selection.data_root) if selection.data_root is not None else None
    if data is not None and not data.is_dir():
        raise UserError(f"--data-root {data} is not a folder; give the folder that holds sts/, wiki/ and the like")
    seeds = None if selection.seeds is None else _seeds(selection.seeds)
    if selection.table or selection.figure or selection.paper:
        return _paper_request(selection, profile, seeds, data)
    if selection.readings is not None:
        raise UserError(
            "--readings is for the runs of --table, --figure and --paper; in a grid, name readings in --methods, as in "
            "mcse,mcse@official"
        )
    encoders, given = _encoders(_listed(selection.encoders) or profile.defaults.encoders)
    return Request(
        profile=profile,
        methods=[Variant.parse(text) for text in _listed(selection.methods) or profile.defaults.methods],
        settings=[parse_setting(text) for text in _listed(selection.settings) or profile.defaults.settings],
        encoders=encoders,
        seeds=seeds if seeds is not None else tuple(range(profile.defaults.seeds)),
        suites=_listed(selection.suites) or [name for name, table in profile.suites.items() if not table.asked],
        overrides=_overrides(selection.set),
        given=given,
        data=data,
        selection=selection,
    )


def _paper_request(selection: Selection, profile: Profile, seeds: tuple[int, ...] | None, data: Path | None) -> Request:
    """The runs of tables and figures, each once. Encoders may be given folders, not chosen."""
    option = next(name for name in ("table", "figure", "paper") if getattr(selection, name))
    encoders, given = _encoders(_listed(selection.encoders))
    chosen = {"methods": selection.methods, "settings": selection.settings, "suites": selection.suites}
    chosen |= {} if len(given) == len(encoders) else {"encoders": selection.encoders}
    for name, value in chosen.items():
        if value is not None:
            raise UserError(
                f"--{option} selects its own runs; remove --{name} (--seeds, --readings, --set and --encoders "
                "NAME=DIR are allowed)"
            )
    tables, figures, papers = map(_listed, (selection.table, selection.figure, selection.paper))
    entries = wanted_runs(profile, tables, figures, papers, seeds, _listed(selection.readings))
    wanted = merged(entries.values())
    return Request(
        profile=profile,
        methods=list(dict.fromkeys(spec.variant for spec in wanted)),
        settings=list(dict.fromkeys(spec.setting for spec in wanted)),
        encoders=list(dict.fromkeys(spec.encoder for spec in wanted)),
        seeds=sorted({spec.seed for spec in wanted}),
        suites=list(dict.fromkeys(name for suites in wanted.values() for name in suites)),
        overrides=_overrides(selection.set),
        given=given,
        data=data,
        wanted=wanted,
        entries=entries,
        selection=selection,
    )


def model_request(model: str, pooling: str | None, selection: Selection, store: Store) -> Request:
    """Evaluate one model: a finished run by its key, a folder, or a hub name OWNER/NAME[@COMMIT].

    A model from outside is `none[pooling=...]` with seed 0. `pooling` defaults to what the folder declares.
    """
    try:
        spec = RunSpec.parse(model)
    except SpecError:
        return _outside_request(model, pooling, selection)
    if spec.variant.name not in names("method"):
        return _outside_request(model, pooling, selection)
    if pooling is not None:
        raise UserError("a run is pooled as its method says; remove --pooling")
    request = make_request(replace(selection, encoders=spec.encoder))
    first, *others = find_results(store, str(spec), request.profile.name)
    if any(other.overrides != first.overrides for other in others):
        raise UserError(
            f"{store.root} has runs {spec} that differ by --set; `harness run --suites ...` with the options of one "
            "adds suites to it"
        )
    runs = replace(request, methods=[spec.variant], settings=[spec.setting], seeds=(spec.seed,))
    return replace(runs, overrides=first.overrides)


def _outside_request(model: str, pooling: str | None, selection: Selection) -> Request:
    from harness.encoders.folder import read_modules

    folder, encoder = Path(model).expanduser(), model
    if folder.is_dir():
        root, declared = read_modules(folder)
        encoder, pooling = f"{folder.resolve().name}={root}", pooling or declared
    elif model.startswith((".", "/", "~")):
        raise UserError(f"no folder {model}; give the folder of a saved model, a hub name or a run's key")
    if pooling is None:
        raise UserError(f"{model} does not declare its pooling; give --pooling cls, mean or pooler")
    request = make_request(replace(selection, encoders=encoder))
    return replace(request, methods=[Variant.make("none", {"pooling": pooling})], seeds=(0,))


def _listed(names: Names | None) -> list[str]:
    parts = split(names) if isinstance(names, str) else names or ()
    return list(dict.fromkeys(part for part in parts if part))


def _seeds(seeds: int | str | Sequence[int]) -> tuple[int, ...]:
    return parse_seeds(str(seeds)) if isinstance(seeds, int | str) else tuple(seeds)


def _overrides(values: Mapping[str, object] | Sequence[str]) -> Overrides:
    pairs = [f"{key}={value}" for key, value in values.items()] if isinstance(values, Mapping) else values
    return parse_overrides(pairs)


def _encoders(items: Sequence[str]) -> tuple[list[str], dict[str, ModelSource]]:
    """Names, and the places of those given as NAME=DIR, as a path or as OWNER/NAME@COMMIT."""
    found: list[str] = []
    given: dict[str, ModelSource] = {}
    for item in items:
        name, equals, place = item.partition("=")
        if not equals and item.startswith((".", "/", "~")):
            name, place = Path(item).expanduser().resolve().name, item
        hub, at, commit = name.partition("@")
        name = parse_encoder(hub)
        if place:
            given[name] = _folder(place)
        elif at:
            given[name] = _pinned(hub, commit)
        found.append(name)
    return found, given


def _folder(place: str) -> FolderModel:
    folder = Path(place).expanduser().resolve()
    if not (folder / "config.json").is_file():
        raise UserError(f"the encoder folder {place} has no config.json; give a folder saved by transformers")
    return FolderModel(folder)


def _pinned(hub: str, commit: str) -> HubModel:
    if "/" not in hub or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UserError(f"'{hub}@{commit}' does not pin a hub model; write OWNER/NAME@ and the 40 digits of a commit")
    return HubModel(hub, commit)
