"""Rewriting the files of earlier schemas in a store in the current one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.sources import write_text
from harness.store.arrays import read_named_arrays
from harness.store.files import Store
from harness.store.schema import Result
from harness.store.upgrade import old_files

#: The only suite of schema 1 that kept arrays.
_FIGURES = "figures"


@dataclass(frozen=True)
class Rewritten:
    """Number of results that were rewritten, number in use, and one line for each file that cannot be read."""

    results: int
    in_use: int
    problems: tuple[str, ...]


def rewrite_old_results(store: Store, confirm: Callable[[Result], Result]) -> Rewritten:
    """Write each result of an earlier schema in the current one, with its digest.

    Arrays and logs of schema 1 are moved to the new name. `confirm` may add to a result what schema 1 did not record
    (see `harness.execution.finished`); results that were rewritten without it earlier are given to it again. New files
    are complete before an old one is removed, so an interrupted call loses nothing and can be repeated. Runs that
    another process holds are skipped.
    """
    rewritten = in_use = 0
    results, problems = store.load()
    for result in results:
        if result.profile_origin != "unknown" and store.has_digest(result):
            continue
        with store.lock(result.fingerprint) as mine:
            in_use += not mine
            rewritten += mine and _rewrite(store, result, confirm)
    return Rewritten(rewritten, in_use, tuple(problems))


def _rewrite(store: Store, result: Result, confirm: Callable[[Result], Result]) -> bool:
    """Write one result under its new name and remove its schema-1 files; whether anything changed."""
    old = old_files(store.path(result), result.fingerprint)
    confirmed = confirm(result) if result.profile_origin == "unknown" else result
    if not old and confirmed == result and store.has_digest(result):
        return False
    _move_arrays(store, result, old)
    log = store.log(result)
    if log:
        write_text(store.path(result).with_suffix(".log"), log)
    store.save(confirmed)
    for path in old:
        for suffix in (".figures.npz", ".log", ".json"):
            path.with_suffix(suffix).unlink(missing_ok=True)
    return True


def _move_arrays(store: Store, result: Result, old: list[Path]) -> None:
    """Write the arrays of schema-1 files, the newest first, under the evaluation that they belong to."""
    owner = result.latest(_FIGURES) or result.evaluations[-1]
    for path in reversed(old):
        arrays = path.with_suffix(".figures.npz")
        if arrays.is_file():
            store.save_arrays(result, owner, read_named_arrays(arrays))
