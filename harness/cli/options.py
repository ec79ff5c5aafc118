"""Options that several commands share, and the request they add up to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from harness.cli.wanted import wanted_runs
from harness.encoders.locate import FolderModel, HubModel, ModelSource
from harness.errors import UserError
from harness.papers.needed import Runs, merged
from harness.profiles import Profile, load_profile
from harness.spec import Variant, parse_encoder, parse_seeds, parse_setting, split

if TYPE_CHECKING:
    from harness.execution.request import Request

Command = TypeVar("Command", bound=Callable[..., Any])

#: A folder on the command line, as a Path.
FOLDER = click.Path(path_type=cast(Any, Path))

profile_option = click.option(
    "--profile", default="paper", show_default=True, metavar="NAME|FILE.toml", help="The profile to work by."
)
results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", type=FOLDER, help="The store."
)
data_option = click.option(
    "--data-root", metavar="DIR", type=FOLDER, help="The folder of data files; else HARNESS_DATA."
)


def grid_options(command: Command) -> Command:
    """The options that name a grid."""
    for option in reversed(
        (
            profile_option,
            click.option("--methods", metavar="A,B[key=value]", help="Method variants; else the profile's."),
            click.option("--settings", metavar="S,T", help="Training corpora mixtures; else the profile's."),
            click.option("--encoders", metavar="E,NAME=DIR", help="Encoders, folders as NAME=DIR; else the profile's."),
            click.option("--seeds", metavar="N|0,3,7", help="A number of seeds from 0, or a list; else the profile's."),
            click.option("--suites", metavar="A,B", help="Evaluation suites; else all of the profile."),
            click.option("--table", metavar="PAPER:TABLE", help="The runs of a paper's table instead: dalr:T3."),
            click.option("--figure", metavar="PAPER:FIGURE", help="The runs of a paper's figure instead: mcse:F3."),
            click.option("--paper", metavar="NAME", help="The runs of all tables and figures of a paper instead."),
            click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Change one hyperparameter."),
            results_option,
            data_option,
        )
    ):
        command = option(command)
    return command


def make_request(
    profile: str,
    methods: str | None,
    settings: str | None,
    encoders: str | None,
    seeds: str | None,
    suites: str | None,
    sets: Sequence[str],
    data_root: Path | None,
    table: str | None = None,
    figure: str | None = None,
    paper: str | None = None,
) -> Request:
    """What the options ask for. Raises UserError and SpecError."""
    from harness.execution.request import Request
    from harness.grid import parse_overrides

    loaded = load_profile(profile)
    if data_root is not None and not data_root.is_dir():
        raise UserError(f"--data-root {data_root} is no folder; give the folder that holds sts/, wiki/ and the like")
    if table or figure or paper:
        places = encoders is not None and all("=" in item for item in split(encoders))
        chosen = {"--methods": methods, "--settings": settings, "--suites": suites}
        chosen |= {} if places else {"--encoders": encoders}
        _exclude("--table" if table else "--figure" if figure else "--paper", chosen)
        wanted = wanted_runs(loaded, table, figure, paper, parse_seeds(seeds) if seeds is not None else None)
        given = _encoders(encoders, loaded)[1] if places else {}
        return paper_request(loaded, wanted, parse_overrides(sets), data_root, given)
    names, given = _encoders(encoders, loaded)
    return Request(
        profile=loaded,
        methods=[Variant.parse(text) for text in _listed(methods, loaded.defaults.methods)],
        settings=[parse_setting(text) for text in _listed(settings, loaded.defaults.settings)],
        encoders=names,
        seeds=parse_seeds(seeds) if seeds is not None else tuple(range(loaded.defaults.seeds)),
        suites=_listed(suites, [name for name, table in loaded.suites.items() if not table.asked]),
        overrides=parse_overrides(sets),
        given=given,
        data=data_root,
    )


def paper_request(
    profile: Profile,
    entries: Mapping[str, Runs],
    overrides: Mapping[str, Any],
    data: Path | None,
    given: Mapping[str, ModelSource],
) -> Request:
    """The runs of tables and figures, each once; `given` are the places of encoders by name."""
    from harness.execution.request import Request

    wanted = merged(entries)
    return Request(
        profile=profile,
        methods=list(dict.fromkeys(spec.variant for spec in wanted)),
        settings=list(dict.fromkeys(spec.setting for spec in wanted)),
        encoders=list(dict.fromkeys(spec.encoder for spec in wanted)),
        seeds=sorted({spec.seed for spec in wanted}),
        suites=list(dict.fromkeys(name for suites in wanted.values() for name in suites)),
        overrides=overrides,
        given=given,
        data=data,
        wanted=wanted,
        entries=entries,
    )


def _exclude(option: str, others: Mapping[str, str | None]) -> None:
    for name, value in others.items():
        if value is not None:
            raise UserError(
                f"{option} names its own runs; leave {name} out (--seeds, --set and --encoders NAME=DIR go with it)"
            )


def _listed(text: str | None, default: Sequence[str]) -> list[str]:
    if text is None:
        return list(default)
    return list(dict.fromkeys(part for part in split(text) if part)) or list(default)


def _encoders(text: str | None, profile: Profile) -> tuple[list[str], dict[str, ModelSource]]:
    """Names, and the places of those given as NAME=DIR, as a path or as OWNER/NAME@COMMIT."""
    names: list[str] = []
    given: dict[str, ModelSource] = {}
    for item in _listed(text, profile.defaults.encoders):
        name, equals, place = item.partition("=")
        if not equals and item.startswith((".", "/", "~")):
            name, place = Path(item).expanduser().resolve().name, item
        hub, at, commit = name.partition("@")
        name = parse_encoder(hub)
        if place:
            given[name] = _folder(place)
        elif at:
            given[name] = _pinned(hub, commit)
        names.append(name)
    return names, given


def _folder(place: str) -> FolderModel:
    folder = Path(place).expanduser().resolve()
    if not (folder / "config.json").is_file():
        raise UserError(f"the encoder folder {place} has no config.json; give a folder saved by transformers")
    return FolderModel(folder)


def _pinned(hub: str, commit: str) -> HubModel:
    if "/" not in hub or not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UserError(f"'{hub}@{commit}' does not pin a hub model; write OWNER/NAME@ and the 40 digits of a commit")
    return HubModel(hub, commit)
