"""Finished runs by what a user types: keys in other spellings, words, digits, files.

`mcse[lambda=1]` is `mcse` if the profile's lambda is 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.commands import Commands
from harness.encoders.locate import RunModelFolder
from harness.errors import UserError
from harness.files import DamagedError, check_folder, expand
from harness.grid import Resolved, resolve
from harness.profiles import load_profile, shipped_profiles
from harness.registry import list_registered, suggest
from harness.spec import (
    RUN,
    UNTRAINED,
    OptionValue,
    RunSpec,
    SpecError,
    Variant,
    settle_compile,
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
        return _find_named(store, text, name)
    except UserError:
        if text.endswith(".json"):
            raise
        results = list(_find_respelled(store, RunSpec.parse(text), profile))
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


def find_best_model(result: Result, store: Store) -> Path:
    """The folder of a trained run's best model. Raises UserError where it is missing or damaged."""
    key = result.spec.key
    commands = Commands(store.root)
    # in its own folder of results, a run that is trained again counts as finished
    again = commands.repeat(result, Path("AGAIN"))
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

    Raises UserError for a run that trains nothing, and as `find_result` and `find_best_model` do.
    """
    key = text.removeprefix(RUN)
    folder = expand(key)
    if not folder.is_dir():
        result, store = find_result(key, results)
        if str(result.spec.setting) == UNTRAINED:
            raise UserError(
                f"{text} trained nothing; give its encoder: --encoders {result.spec.encoder}"
            )
        folder = find_best_model(result, store)
    elif folder.resolve().parts[-3::2] != (".work", BEST):
        raise UserError(
            f"{text} is no model of a run in a folder of results; give NAME={key}, or the key of a run"
        )
    return RunModelFolder(folder.resolve())


def _find_named(store: Store, text: str, profile: str | None) -> list[Result]:
    """The results of the only run that matches words of its key or digits of its fingerprint."""
    frames = store.frames()
    fingerprints = set[str]()
    keys = dict[str, None]()
    columns = zip(frames.keys, frames.texts("fingerprint"), frames.texts("profile"), strict=True)
    for key, fingerprint, profile_of_run in columns:
        if profile in (None, profile_of_run) and is_named(text, key, fingerprint):
            fingerprints.add(fingerprint)
            keys[key] = None

    if len(keys) > 1:
        raise make_ambiguity_error(text, list(keys))
    if not keys:
        lists = "`harness status` lists the runs of a grid, `harness list methods` the methods"
        hint = suggest(text, {*list_registered("method"), *frames.keys}, lists)
        raise UserError(f"there is no result of '{text}' in {store.root}; {hint}")
    results = find_results(store, next(iter(keys)), profile)
    return [result for result in results if result.fingerprint in fingerprints]


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
    return _list_values(run) == _list_stored_values(result, run)


def find_stored_spelling(results: Sequence[Result], text: str, profile: str | None = None) -> str:
    """A VARIANT or VARIANT/SETTING/ENCODER as the results spell it; unchanged if they have no other
    spelling.
    """
    parts = split(text, "/")
    variant = Variant.parse(parts[0])
    runs = frames_of(results).where(method=[variant.name])
    if str(variant) in runs.texts("variant"):
        return text

    # one run of each group tells the values of all
    groups = runs.runs.drop_duplicates(["profile", "variant", "setting", "encoder", "group"])
    for stored in runs.take_rows(groups.index.tolist()).iterate_readable():
        spec = replace(RunSpec.parse(stored.spec.key), variant=variant)
        if is_same(stored, spec, profile):
            return "/".join((str(stored.spec.variant), *parts[1:]))
    return text


def _find_respelled(store: Store, asked: RunSpec, profile: str | None) -> Iterator[Result]:
    """The results of a run under other spellings. Raises UserError where one of them is damaged."""
    profile_name = None if profile is None else load_profile(profile).name
    profiles = [profile] if profile else shipped_profiles()
    for spelling in store.find_spellings(asked):
        try:
            results = store.find_by_key(spelling)
        except UserError:
            # the damaged result may be the one that is asked for
            if any(_is_same_run(spelling, asked, of) for of in profiles):
                raise
            continue

        for result in results:
            if profile_name in (None, result.profile) and is_same(result, asked, profile):
                yield result


def _is_same_run(one: RunSpec, other: RunSpec, profile: str) -> bool:
    """Whether two spellings have the same values under a profile."""
    try:
        loaded = load_profile(profile)
        first = resolve(loaded, one, {})
        second = resolve(loaded, other, {})
    except UserError:
        return False
    return _list_values(first) == _list_values(second)


def _list_values(run: Resolved) -> list[Any]:
    """What tells whether two runs are the same but for their seed."""
    training = settle_compile(run.training.model_dump()) if run.trains else {}
    return [run.spec.variant.reading, dict(run.identity), training, run.pooling]


def _list_stored_values(result: Result, run: Resolved) -> list[Any]:
    """The same of a result, under the names that the run has now."""
    method: Mapping[str, OptionValue] = result.hyperparameters["method"]  # type: ignore[assignment]
    training_names = run.training.model_dump() if run.trains else ()
    values = {name: method.get(name) for name in run.identity}
    training = {name: result.training.get(name) for name in training_names}
    pooling = result.hyperparameters["encoder"]["pooling"]
    return [result.spec.variant.reading, values, training, pooling]
