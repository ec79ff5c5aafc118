"""Rewriting the schema-1 files of a store as schema 2."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UserError
from harness.sources import write_text
from harness.store.arrays import read_named_arrays
from harness.store.files import Store, old_files
from harness.store.schema import Evaluation, Result
from harness.store.upgrade import has_old_name

#: The only suite of schema 1 that kept arrays.
_FIGURES = "figures"


@dataclass
class Rewritten:
    """Counts of schema-1 files, and one line for each that could not be used."""

    upgraded: int = 0
    in_use: int = 0
    problems: list[str] = field(default_factory=list)


def rewrite_old_files(store: Store) -> Rewritten:
    """Upgrade every schema-1 file, and move its arrays and its log to the new name.

    New files are complete before an old one is removed, so an interrupted call loses nothing and the next call goes
    on. Runs that another process holds are skipped and counted as in use.
    """
    done = Rewritten()
    for path in store.files():
        if not has_old_name(path) or not path.is_file():
            continue
        try:
            result = store.read(path)
        except UserError as error:
            done.problems.append(str(error))
            continue
        with store.lock(result.fingerprint) as mine:
            if mine:
                done.upgraded += _rewrite(store, result)
            else:
                done.in_use += 1
    return done


def _rewrite(store: Store, result: Result) -> int:
    """Upgrade all schema-1 files of one training; returns their number."""
    merged = store.find(result.profile, result.spec, result.fingerprint)
    old = old_files(store.path(result), result.fingerprint)
    if merged is None or not old:
        return 0
    _move_arrays(store, merged, old)
    log = store.log(merged)
    if log:
        write_text(store.path(merged).with_suffix(".log"), log)
    store.save(merged)
    for path in old:
        for suffix in (".figures.npz", ".log", ".json"):
            path.with_suffix(suffix).unlink(missing_ok=True)
    return len(old)


def _move_arrays(store: Store, result: Result, old: list[Path]) -> None:
    """Write the arrays of schema-1 files under the evaluation that they belong to."""
    owner: Evaluation = result.latest(_FIGURES) or result.evaluations[-1]
    for path in reversed(old):
        arrays = path.with_suffix(".figures.npz")
        if arrays.is_file():
            store.save_arrays(result, owner, read_named_arrays(arrays))
