"""Merging the results of several labs into one store, without changing existing results.

Each result is checked before it is taken, and written whole: arrays and log, the lab's copy, then the result of the
store. A merge that is killed at any moment loses nothing, and the same merge again completes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from harness.caches import is_unusable
from harness.errors import UserError
from harness.store.files import Store, read_named_arrays
from harness.store.labs import check_identity, contributor, disagreement, lab_store, labs_of, same_training
from harness.store.schema import Result
from harness.store.tunings import read_tunings, save_tuning

#: a result is new, has new evaluations, or was there already
Standing = Literal["new", "extended", "there"]


@dataclass
class Merged:
    """The outcome of a merge. `states` has that of each result, by lab and fingerprint.

    `in_use` results are those of running commands; `unchecked` ones are too old to hold what their fingerprint is
    computed from. `conflicts` have one line for each result that contradicts what the same lab contributed before,
    `problems` for each file that was left out.
    """

    states: dict[tuple[str, str], Standing] = field(default_factory=dict)
    in_use: int = 0
    unchecked: int = 0
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def count(self, lab: str, state: Standing) -> int:
        """The number of a lab's results of a state."""
        return sum(place[0] == lab and found == state for place, found in self.states.items())


class Contribution(NamedTuple):
    """A result file of a lab, and its store."""

    lab: str
    store: Store
    path: Path


def merge(into: Store, sources: Mapping[str, Store]) -> Merged:
    """Take the results of stores, by the names of their labs; what a source has of other labs keeps their names.

    Tunings, which declare what is compared, come along. A result that cannot be used, or whose fingerprint does not
    follow from its content, is left out. Raises UserError for a source without results, before anything is written.
    """
    for store in sources.values():
        if not (store.files() or labs_of(store)):
            raise UserError(f"{store.root} has no results; give folders of results")
    done = Merged()
    try:
        _take_all(into, sources, done)
    except OSError as error:
        if not is_unusable(error):
            raise
        raise UserError(
            f"{into.root} cannot be written: {error.strerror}; give another folder, or make room and repeat the merge"
        ) from error
    return done


def _take_all(into: Store, sources: Mapping[str, Store], done: Merged) -> None:
    """Take the results and the tunings of stores."""
    for lab, store in sources.items():
        for one in contributions(lab, store):
            try:
                _take(into, one, done)
            except UserError as error:
                done.problems.append(f"{error}; left out")
        tunings, damaged = read_tunings(store)
        done.problems += damaged
        for tuning in tunings:
            save_tuning(into, tuning)


def contributions(lab: str, store: Store) -> Iterator[Contribution]:
    """The result files of a store: first those of other labs, then its own, which are those of `lab`."""
    for other, held in labs_of(store).items():
        yield from (Contribution(other, held, path) for path in held.files())
    yield from (Contribution(lab, store, path) for path in store.files())


def checked(one: Contribution) -> tuple[Result, bool]:
    """A contributed result, and whether its fingerprint was computed. Raises UserError for one that cannot be used."""
    result = one.store.read(one.path)
    if one.store.path(result) != one.path:
        raise UserError(f"the result {one.path} is not of the run that its path names")
    try:
        return result, check_identity(result)
    except UserError as error:
        raise UserError(f"the result {one.path} contradicts itself: {error}") from error


def _take(into: Store, one: Contribution, done: Merged) -> None:
    """Take a result as that of the lab that trained it, which need not be the lab that has the file."""
    result, computed = checked(one)
    lab = contributor(one.store, result) or contributor(into, result) or one.lab
    held = lab_store(into, lab)
    with into.lock(result.fingerprint) as mine:
        if not mine:
            done.in_use += 1
            return
        before = held.find(result.profile, result.spec, result.fingerprint)
        if before and (differ := disagreement(before, result)):
            done.conflicts.append(
                f"{lab} has two results of {result.spec.key} ({result.fingerprint[:16]}) that differ in {differ}: "
                f"{held.path(result)} is kept, {one.path} left out"
            )
            return
        changed = _write(into, held, one, result, done)
    place = (lab, result.fingerprint)
    done.unchecked += place not in done.states and not computed
    state: Standing = "there" if not changed else "extended" if before else "new"
    if done.states.get(place, "there") == "there":
        done.states[place] = state


def _write(into: Store, held: Store, one: Contribution, result: Result, done: Merged) -> bool:
    """Write what is new of a result into the lab's store, and into the store of all; whether anything was."""
    shown = into.find(result.profile, result.spec, result.fingerprint)
    if shown is None or (same_training(shown, result) and not disagreement(shown, result)):
        _copy_beside(into, one, result, done)
        return bool(sum([_save(held, result), _save(into, result)]))
    return _save(held, result)


def _save(store: Store, result: Result) -> bool:
    """Write a result unless the store has all of it; whether it was written."""
    found = store.find(result.profile, result.spec, result.fingerprint)
    if found is not None and found.merged(result) == found:
        return False
    store.save(result)
    return True


def _copy_beside(into: Store, one: Contribution, result: Result, done: Merged) -> None:
    """Copy the arrays of a result's evaluations, and its log where there is none."""
    for evaluation in result.evaluations:
        path = one.store.arrays_path(result, evaluation)
        if path.is_file() and not into.arrays_path(result, evaluation).is_file():
            try:
                into.save_arrays(result, evaluation, read_named_arrays(path))
            except (UserError, KeyError, ValueError, TypeError) as error:
                done.problems.append(f"the arrays {path} are left out: {error}")
    if not into.log(result) and (log := one.store.log(result)):
        into.save_log(result, log)
