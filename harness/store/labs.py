"""Results of several labs in one store: who contributed what, and every lab's own copy of it.

RESULTS/.labs/LAB/PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json        what a lab contributed

Each lab's folder is a store of its own. The tables of RESULTS read one result of each training, the
first to arrive, never the labs' copies. The copies show who contributed a result, and the results
of several labs for one experiment.

A merge checks each result first, then writes its arrays and log, the lab's copy, and finally the
result of the store. A merge killed at any moment loses nothing, and repeating it completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from harness.caches import writing_to
from harness.errors import UserError
from harness.files import expand
from harness.formatting import count_of
from harness.sources import digest
from harness.store.files import Store, read_named_arrays
from harness.store.schema import Result, differences
from harness.store.tunings import read_tunings, save_tuning

LABS: Final = ".labs"
#: shown in place of the lab for results that no lab contributed
HERE: Final = "this store"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_lab(name: str) -> str:
    """The name of a lab. Raises UserError if it is not a valid folder name on every system."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"'{name}' is not a valid contributor name: at most 63 letters, digits, '.', '_' and '-', first a letter "
            "or a digit; give one with --contributor"
        )
    return name


def lab_store(store: Store, lab: str) -> Store:
    """The results that a lab contributed to a store."""
    return Store(store.root / LABS / check_lab(lab))


def named_stores(folders: Sequence[Path], names: Sequence[str]) -> dict[str, Store]:
    """The stores of folders by the names of their contributors, which default to the folders' own
    names.

    Raises UserError for a repeated or invalid name, and if there are not as many names as folders.
    """
    if names and len(names) != len(folders):
        raise UserError(
            f"{count_of(len(folders), 'folder')} and {count_of(len(names), 'contributor')}; give --contributor once "
            "for each folder, in their order, or not at all"
        )
    stores: dict[str, Store] = {}
    for folder, name in zip(
        folders, names or [expand(folder).resolve().name for folder in folders], strict=True
    ):
        if stores.setdefault(check_lab(name), Store(expand(folder))).root != expand(folder):
            raise UserError(
                f"two folders are the results of '{name}'; tell them apart with --contributor, once for each"
            )
    return stores


def labs_of(store: Store) -> dict[str, Store]:
    """The labs that contributed to a store, by name."""
    folders = sorted((store.root / LABS).glob("*"))
    own = (path for path in folders if path.is_dir() and not path.is_symlink())
    return {path.name: Store(path) for path in own if _NAME.fullmatch(path.name)}


def same_training(first: Result, second: Result) -> bool:
    """Whether two results come from the same execution of a training; their evaluations may differ."""
    if (first.fingerprint, first.started) != (second.fingerprint, second.started):
        return False
    without: dict[str, object] = {"evaluations": []}
    return first.model_copy(update=without) == second.model_copy(update=without)


def contributor(store: Store, result: Result) -> str:
    """The lab that trained a result of a store; empty where no lab contributed it."""
    for lab, held in labs_of(store).items():
        contributed = held.find(result.profile, result.spec, result.fingerprint)
        if contributed is not None and same_training(contributed, result):
            return lab
    return ""


def repeated(store: Store) -> Iterator[dict[str, Result]]:
    """Each run's results that several labs contributed, by lab; the one shown in tables first, then
    by lab.

    Files that cannot be used are left out.
    """
    copies: dict[str, dict[str, Result]] = {}
    for lab, held in labs_of(store).items():
        for contributed in held.load()[0]:
            copies.setdefault(contributed.fingerprint, {})[lab] = contributed
    shown = {
        result.fingerprint: result for result in store.frames().where(fingerprint=copies).readable()
    }
    for fingerprint, same in copies.items():
        result = shown.get(fingerprint)
        first = {lab: copy for lab, copy in same.items() if result and same_training(result, copy)}
        found = {**(first or ({HERE: result} if result else {})), **same}
        if len(found) > 1:
            yield found


def check_identity(result: Result) -> bool:
    """Check a result's fingerprint against its content; return False for older files, which cannot
    be checked.

    Raises UserError if fingerprint, group or names do not match the identity in the file.
    """
    identity = result.identity
    if not identity:
        return False
    spec = result.spec
    told: Mapping[str, tuple[object, object]] = {
        "fingerprint": (digest(identity), result.fingerprint),
        "group": (digest({**identity, "seed": None}), result.group),
        "seed": (identity.get("seed"), spec.seed),
        "method": (identity.get("method"), spec.variant.name),
        "variant": (identity.get("reading"), spec.variant.reading),
        "training": (identity.get("training", {}), result.hyperparameters.get("training", {})),
        "setting": (identity.get("setting", spec.setting.name), spec.setting.name),
        "backend": (identity.get("backend", result.backend), result.backend),
    }
    wrong = [what for what, (computed, stated) in told.items() if computed != stated]
    if wrong:
        raise UserError(f"{spec}: its {' and '.join(wrong)} do not match the identity stored in it")
    return True


#: a result is new, has new evaluations, or was there already
Standing = Literal["new", "extended", "there"]


@dataclass
class Merged:
    """The outcome of a merge: the state of each result, by lab and fingerprint, and counts.

    `in_use` counts results skipped since a command is executing the run, `unchecked` those too old
    to hold the data that their fingerprint is computed from. `conflicts` has one line for each
    result that contradicts an earlier contribution of the same lab, `problems` one for each file
    left out.
    """

    states: dict[tuple[str, str], Standing] = field(default_factory=dict)
    in_use: int = 0
    unchecked: int = 0
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def count(self, lab: str, state: Standing) -> int:
        return sum(training[0] == lab and noted == state for training, noted in self.states.items())


def merge(into: Store, sources: Mapping[str, Store]) -> Merged:
    """Merge the results of stores, given by lab; results that a source has from other labs keep
    those labs' names.

    Tunings are merged too. A result that cannot be used, or whose fingerprint does not match its
    content, is left out. Raises UserError for a source without results, before anything is written.
    """
    for store in sources.values():
        if not (store.files() or labs_of(store)):
            raise UserError(f"{store.root} has no results; give folders of results")
    done = Merged()
    with writing_to(into.root, "give another folder, or make room and repeat the merge"):
        for lab, store in sources.items():
            _take_all(into, lab, store, done)
    return done


def _take_all(into: Store, lab: str, store: Store, done: Merged) -> None:
    """Merge the results of a store: first those of other labs, then its own, attributed to `lab`."""
    for name, held in (*labs_of(store).items(), (lab, store)):
        for path in held.files():
            try:
                _take(into, name, held, path, done)
            except UserError as error:
                done.problems.append(f"{error}; left out")
    tunings, damaged = read_tunings(store)
    done.problems += damaged
    for tuning in tunings:
        save_tuning(into, tuning)


def _checked(store: Store, path: Path) -> tuple[Result, bool]:
    """A contributed result, and whether its fingerprint could be checked. Raises UserError if it
    cannot be used.
    """
    if not path.resolve().is_relative_to(store.root.resolve()):
        raise UserError(
            f"the result {path} lies behind a link, which is not followed; copy it into {store.root}"
        )
    result = store.read(path)
    if store.path(result) != path:
        raise UserError(f"the result {path} is not of the run that its path names")
    try:
        return result, check_identity(result)
    except UserError as error:
        raise UserError(f"the result {path} contradicts itself: {error}") from error


def _take(into: Store, owner: str, source: Store, path: Path, done: Merged) -> None:
    """Merge a result under the name of the lab that trained it, which may not be the `owner` of the
    file.
    """
    result, computed = _checked(source, path)
    lab = contributor(source, result) or contributor(into, result) or owner
    held = lab_store(into, lab)
    with into.lock(result.fingerprint) as mine:
        if not mine:
            done.in_use += 1
            return
        before = held.find(result.profile, result.spec, result.fingerprint)
        differ = (
            differences(before, result)
            if before and same_training(before, result)
            else ["training"]
        )
        if before and differ:
            done.conflicts.append(
                f"{lab} has two results of {result.spec.key} ({result.fingerprint[:16]}) that differ in "
                f"{', '.join(differ)}: {held.path(result)} is kept, {path} left out"
            )
            return
        changed = _write(into, held, source, result, done)
    training = (lab, result.fingerprint)
    done.unchecked += training not in done.states and not computed
    state: Standing = "there" if not changed else "extended" if before else "new"
    if done.states.get(training, "there") == "there":
        done.states[training] = state


def _write(into: Store, held: Store, source: Store, result: Result, done: Merged) -> bool:
    """Write the new parts of a result to the lab's store and to the main store; return whether
    there were any.
    """
    shown = into.find(result.profile, result.spec, result.fingerprint)
    if shown is None or (same_training(shown, result) and not differences(shown, result)):
        _copy_beside(into, source, result, done)
        return bool(sum([_save(held, result), _save(into, result)]))
    return _save(held, result)


def _save(store: Store, result: Result) -> bool:
    """Write a result unless the store has all of it; return whether it was written."""
    stored = store.find(result.profile, result.spec, result.fingerprint)
    if stored is not None and stored.merged(result) == stored:
        return False
    store.save(result)
    return True


def _copy_beside(into: Store, source: Store, result: Result, done: Merged) -> None:
    """Copy the arrays of a result's evaluations, and its log where there is none."""
    for evaluation in result.evaluations:
        path = source.arrays_path(result, evaluation)
        if path.is_file() and not into.arrays_path(result, evaluation).is_file():
            try:
                into.save_arrays(result, evaluation, read_named_arrays(path, source.root))
            except UserError as error:
                done.problems.append(f"{error}; left out")
    try:
        if not into.log(result) and (log := source.log(result)):
            into.save_log(result, log)
    except UserError as error:
        done.problems.append(f"{error}; left out")
