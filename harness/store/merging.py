"""Results of several folders in one.

Of the results of one run, the first to arrive stays. A result of the same training with more
evaluations extends it; one of another training, or with other scores, is named and left out.

A merge checks each result first, then writes its arrays and log, and finally the result. A merge
killed at any moment loses nothing, and repeating it completes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.caches import explain_write_errors
from harness.errors import UserError
from harness.sources import digest
from harness.spec import select_identifying
from harness.store.files import Store, read_named_arrays
from harness.store.schema import Result, find_differences
from harness.store.tunings import read_tunings, save_tuning


def is_same_training(first: Result, second: Result) -> bool:
    """Whether two results come from the same execution of a training; their evaluations may differ."""
    if (first.fingerprint, first.started) != (second.fingerprint, second.started):
        return False
    # a later evaluation adds its session
    no_evaluations: dict[str, object] = {"evaluations": [], "sessions": []}
    return first.model_copy(update=no_evaluations) == second.model_copy(update=no_evaluations)


def check_identity(result: Result) -> bool:
    """Check a result's fingerprint against its content; return False for older files, which cannot
    be checked.

    Raises UserError if fingerprint, group or names do not match the identity in the file.
    """
    identity = result.identity
    if not identity:
        return False

    spec = result.spec
    training = result.hyperparameters.get("training", {})
    stated = {
        "fingerprint": result.fingerprint,
        "group": result.group,
        "seed": spec.seed,
        "method": spec.variant.name,
        "variant": spec.variant.reading,
        "training": select_identifying(training),
        "setting": spec.setting.name,
        "backend": result.backend,
    }
    computed = {
        "fingerprint": digest(identity),
        "group": digest({**identity, "seed": None}),
        "seed": identity.get("seed"),
        "method": identity.get("method"),
        "variant": identity.get("reading"),
        "training": identity.get("training", {}),
        # identities of older results lack these
        "setting": identity.get("setting", spec.setting.name),
        "backend": identity.get("backend", result.backend),
    }
    wrong = [name for name, value in stated.items() if computed[name] != value]
    if wrong:
        raise UserError(f"{spec}: its {' and '.join(wrong)} do not match the identity stored in it")
    return True


#: a result is new, has new evaluations, or was there already
Standing = Literal["new", "extended", "there"]


@dataclass
class MergeOutcome:
    """What a merge has done, in counts of results, and what it left out.

    `standings` are by source. `in_use` counts results skipped since a command is executing the run,
    `unchecked` those too old to hold the data that their fingerprint is computed from. `conflicts`
    has one line for each result that contradicts the one that was there first, `problems` one for
    each file left out.
    """

    standings: dict[Path, Counter[Standing]] = field(default_factory=dict)
    in_use: int = 0
    unchecked: int = 0
    conflicts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def merge(into: Store, sources: Sequence[Store]) -> MergeOutcome:
    """Merge the results and tunings of stores into one.

    A result that cannot be used, or whose fingerprint does not match its content, is left out.
    Raises UserError for a source without results, before anything is written.
    """
    for source in sources:
        if not source.files():
            raise UserError(f"{source.root} has no results; give folders of results")

    outcome = MergeOutcome()
    with explain_write_errors(into.root, "give another folder, or make room and repeat the merge"):
        for source in sources:
            _merge_store(into, source, outcome)
    return outcome


def _merge_store(into: Store, source: Store, outcome: MergeOutcome) -> None:
    for path in source.files():
        try:
            _merge_result(into, source, path, outcome)
        except UserError as error:
            outcome.problems.append(f"{error}; left out")

    tunings, damaged = read_tunings(source)
    outcome.problems += damaged
    for tuning in tunings:
        save_tuning(into, tuning)


def _merge_result(into: Store, source: Store, path: Path, outcome: MergeOutcome) -> None:
    result = _read_own_result(source, path)
    has_identity = _check_own_identity(result, path)

    with into.lock(result.fingerprint) as acquired:
        if not acquired:
            outcome.in_use += 1
            return

        present = into.find(result.profile, result.spec, result.fingerprint)
        contradictions = _find_contradictions(present, result)
        if present and contradictions:
            outcome.conflicts.append(
                f"two results of {result.spec.key} ({result.fingerprint[:16]}) differ in "
                f"{', '.join(contradictions)}: {into.path(present)} is kept, {path} left out"
            )
            return

        _copy_other_files(into, source, result, outcome)
        is_written = _save_new_parts(into, present, result)

    if not is_written:
        state: Standing = "there"
    elif present:
        state = "extended"
    else:
        state = "new"

    outcome.standings.setdefault(source.root, Counter())[state] += 1
    if not has_identity:
        outcome.unchecked += 1


def _read_own_result(source: Store, path: Path) -> Result:
    """Read a result of a store. Raises UserError for one behind a link, or under another's name."""
    if not path.resolve().is_relative_to(source.root.resolve()):
        raise UserError(
            f"the result {path} lies behind a link, which is not followed; copy it into {source.root}"
        )

    result = source.read(path)
    if source.path(result) != path:
        raise UserError(f"the result {path} is not of the run that its path names")
    return result


def _check_own_identity(result: Result, path: Path) -> bool:
    try:
        return check_identity(result)
    except UserError as error:
        raise UserError(f"the result {path} contradicts itself: {error}") from error


def _find_contradictions(present: Result | None, result: Result) -> list[str]:
    """In what a result differs from the one that is present; empty where it only adds to it."""
    if present is None:
        return []
    if not is_same_training(present, result):
        return ["training"]
    return find_differences(present, result)


def _save_new_parts(into: Store, present: Result | None, result: Result) -> bool:
    """Write a result unless the store has all of it; return whether it was written."""
    if present is not None and present.merge(result) == present:
        return False
    into.save(result)
    return True


def _copy_other_files(into: Store, source: Store, result: Result, outcome: MergeOutcome) -> None:
    """Copy the arrays of a result's evaluations, and its log where there is none."""
    for evaluation in result.evaluations:
        path = source.arrays_path(result, evaluation)
        if not path.is_file() or into.arrays_path(result, evaluation).is_file():
            continue
        try:
            into.save_arrays(result, evaluation, read_named_arrays(path, source.root))
        except UserError as error:
            outcome.problems.append(f"{error}; left out")

    try:
        log = source.log(result)
        if log and not into.log(result):
            into.save_log(result, log)
    except UserError as error:
        outcome.problems.append(f"{error}; left out")
