"""Names of runs and models: other spellings of a run's options, and names for models from outside.

`mcse[lambda=1]` is `mcse` if the profile's lambda is 1. A model from outside is identified by its
content, and no two models share a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.commands import Commands, read_places
from harness.encoders.locate import FolderModel, RunModelFolder
from harness.errors import UserError
from harness.files import DamagedError, check_folder, expand
from harness.grid import Resolved, resolve
from harness.planning.inventory import Inventory
from harness.profiles import load_profile, shipped_profiles
from harness.registry import names, suggest
from harness.spec import (
    RUN,
    UNTRAINED,
    OptionValue,
    RunSpec,
    SpecError,
    Variant,
    parse_encoder,
    split,
)
from harness.store import Result, Store, find_results, frames_of
from harness.store.files import is_named, make_ambiguity_error
from harness.store.folder import BEST, refuse_linked


def find_run(store: Store, text: str, profile: str | None = None) -> list[Result]:
    """Look up a run by its key in any spelling, words of the key, digits of its fingerprint, or its
    result file.

    `profile` may be a file. Raises UserError, also if several runs match.
    """
    name = None if profile is None else load_profile(profile).name
    try:
        return find_results(store, text, name)
    except SpecError:
        return _named(store, text, name)
    except UserError:
        if text.endswith(".json"):
            raise
        results = list(_respelled(store, RunSpec.parse(text), profile))
        if not results:
            raise
        return results


def find_result(what: str, results: Path, profile: str | None = None) -> tuple[Result, Store]:
    """Find the one result of a run's key (in any spelling, below `results`) or of a result file,
    and its store.

    Raises UserError if no result or several match.
    """
    matching = find_run(Store(results), what, profile)
    store = Store.containing(Path(what)) if what.endswith(".json") else Store(results)
    if len(matching) > 1:
        listed = ", ".join(str(store.path(result)) for result in matching)
        raise UserError(
            f"{results} has {len(matching)} results of {what}; give the file of one of them: {listed}"
        )
    return matching[0], store


def best_model(result: Result, store: Store) -> Path:
    """The folder of a trained run's best model. Raises UserError where it is missing or damaged."""
    key = result.spec.key
    commands = Commands(store.root)
    # in its own folder of results, a run that is trained again counts as finished
    again = commands.again(result, Path("AGAIN"))
    best = store.work(result.fingerprint) / BEST
    if not (best / "config.json").is_file():
        raise UserError(
            f"the weights of {key} are not in {store.root / '.work'}; train the run again in another folder with "
            f"`{again}` and use that folder"
        )
    refuse_linked(store, best)
    try:
        check_folder(best)
    except DamagedError as error:
        raise UserError(
            f"the weights of {key} in {best} are damaged ({error}); restore them, or train the run again in another "
            f"folder with `{again}` and use that folder"
        ) from error
    return best


def run_model(text: str, results: Path) -> RunModelFolder:
    """The trained model that `run:` and the name of a run, its result file or the model's folder
    stand for.

    Raises UserError for a run that trains nothing, and as `find_result` and `best_model` do.
    """
    what = text.removeprefix(RUN)
    folder = expand(what)
    if not folder.is_dir():
        result, store = find_result(what, results)
        if str(result.spec.setting) == UNTRAINED:
            raise UserError(
                f"{text} trained nothing; give its encoder: --encoders {result.spec.encoder}"
            )
        folder = best_model(result, store)
    elif folder.resolve().parts[-3::2] != (".work", BEST):
        raise UserError(
            f"{text} is no model of a run in a folder of results; give NAME={what}, or the key of a run"
        )
    return RunModelFolder(folder.resolve())


def _named(store: Store, text: str, profile: str | None) -> list[Result]:
    """The results of the only run that matches words of its key or digits of its fingerprint."""
    frames = store.frames()
    runs = zip(frames.keys, *map(frames.texts, ("fingerprint", "profile")), strict=True)
    named = {
        fingerprint: key
        for key, fingerprint, of in runs
        if is_named(text, key, fingerprint) and profile in (None, of)
    }
    keys = list(dict.fromkeys(named.values()))
    if len(keys) > 1:
        raise make_ambiguity_error(text, keys)
    if not named:
        lists = "`harness status` lists the runs of a grid, `harness list methods` the methods"
        lists = suggest(text, {*names("method"), *frames.keys}, lists)
        raise UserError(f"there is no result of '{text}' in {store.root}; {lists}")
    return [
        result for result in find_results(store, keys[0], profile) if result.fingerprint in named
    ]


def is_same(result: Result, asked: RunSpec, profile: str | None = None) -> bool:
    """Whether the run `asked`, resolved now under the result's profile, has the values of the
    result.

    A profile that is not part of the package is read from the file `profile`.
    """
    if profile is None and result.profile not in shipped_profiles():
        return False
    try:
        run = resolve(load_profile(profile or result.profile), asked, result.overrides)
    except UserError:
        return False
    return _values(run) == _stored(result, run)


def stored_spelling(results: Sequence[Result], text: str, profile: str | None = None) -> str:
    """A VARIANT or VARIANT/SETTING/ENCODER as the results spell it; unchanged if they have no other
    spelling.
    """
    parts = split(text, "/")
    variant = Variant.parse(parts[0])
    runs = frames_of(results).where(method=[variant.name])
    if str(variant) in runs.texts("variant"):
        return text
    spelled = runs.runs.drop_duplicates(["profile", "variant", "setting", "encoder", "group"])
    for stored in runs.take_rows(spelled.index.tolist()).iterate_readable():
        asked = replace(RunSpec.parse(stored.spec.key), variant=variant)
        if is_same(stored, asked, profile):
            return "/".join((str(stored.spec.variant), *parts[1:]))
    return text


def _respelled(store: Store, asked: RunSpec, profile: str | None) -> Iterator[Result]:
    """The results of a run under other spellings. Raises UserError where one of them is damaged."""
    name = None if profile is None else load_profile(profile).name
    for spelled in store.find_spellings(asked):
        try:
            results = store.find_by_key(spelled)
        except UserError:
            if any(
                _mean_the_same(spelled, asked, each)
                for each in ([profile] if profile else shipped_profiles())
            ):
                raise
        else:
            yield from (
                result
                for result in results
                if name in (None, result.profile) and is_same(result, asked, profile)
            )


def _mean_the_same(spelled: RunSpec, asked: RunSpec, profile: str) -> bool:
    """Whether two spellings have the same values under a profile."""
    try:
        first, second = (resolve(load_profile(profile), run, {}) for run in (spelled, asked))
    except UserError:
        return False
    return _values(first) == _values(second)


def _values(run: Resolved) -> list[Any]:
    training: Mapping[str, Any] = run.training.model_dump() if run.trains else {}
    return [run.spec.variant.reading, dict(run.identity), training, run.pooling]


def _stored(result: Result, run: Resolved) -> list[Any]:
    """A result's values under the names that the run has now."""
    method: Mapping[str, OptionValue] = result.hyperparameters["method"]  # type: ignore[assignment]
    training = result.training
    return [
        result.spec.variant.reading,
        {name: method.get(name) for name in run.identity},
        {name: training.get(name) for name in (run.training.model_dump() if run.trains else ())},
        result.hyperparameters["encoder"]["pooling"],
    ]


def model_name(model: FolderModel, asked: str | None, inventory: Inventory, store: Store) -> str:
    """Name a folder's model in a store: `asked`, or by default a name that is known or free.

    The default is the name that commands gave this folder, else that of the same content in the
    store, else the shortest end of the folder's path that no other model has, in the store or in
    the profile. Raises UserError if `asked` belongs to another model, or this model has another
    name.
    """
    folder = model.folder.resolve()
    if model.missing(None):
        return _cleaned(folder.name)
    content = model.fingerprint(None)
    untrained = store.frames().where(setting=[UNTRAINED]).iterate_readable()
    known = sorted(
        {result.spec.encoder for result in untrained if result.identity.get("encoder") == content}
    )
    given = read_places(store.root, inventory.profile.name).encoders
    mine = next((name for name, path in given.items() if Path(path) == folder), None)
    if asked is None and mine is not None:
        return mine
    if asked is None:
        free = (
            name
            for name in (*known, *_ends(folder))
            if not _is_taken(name, content, inventory, store)
        )
        unused = next(free, None)
        if unused is None:
            raise UserError(
                f"{folder}: its path gives no name that is free in {store.root}; give --name NAME"
            )
        return unused
    if _is_taken(parse_encoder(asked), content, inventory, store):
        raise UserError(
            f"--name {asked}: the name is taken by another model in {store.root} or in the profile; give another"
        )
    if known and asked not in known:
        raise UserError(
            f"--name {asked}: {store.root} already has this model as {known[0]}; remove --name"
        )
    return asked


def _ends(folder: Path) -> Iterator[str]:
    """`name`, `parent/name`, `grandparent-parent/name` and so on."""
    *above, name = map(_cleaned, folder.parts[1:] or ("model",))
    yield name
    for start in range(len(above) - 1, -1, -1):
        yield f"{'-'.join(above[start:])}/{name}"


def _cleaned(part: str) -> str:
    """A part of a path, reduced to the characters allowed in names."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", part).lstrip("-._") or "model"


def _is_taken(name: str, content: str, inventory: Inventory, store: Store) -> bool:
    if name in (*inventory.profile.encoders, *inventory.profile.released):
        return inventory.encoder(name).fingerprint != content
    of_name = store.frames().where(encoder=[name]).iterate_readable()
    return any(result.identity.get("encoder") != content for result in of_name)
