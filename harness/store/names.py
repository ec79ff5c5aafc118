"""Names of files in a results folder: whether a file system accepts them, and leftovers of killed processes."""

from __future__ import annotations

from collections.abc import Iterable

from harness.errors import UserError
from harness.files import remove_leftovers
from harness.plaintext import LONGEST_NAME
from harness.store.files import Store, file_name
from harness.store.schema import Spec

#: What is added to the name of a result: a fingerprint, a protocol, an ending.
_ADDED = 64


def check_names(profile: str, spec: Spec, suites: Iterable[str]) -> None:
    """Refuse a run whose result could not be written. Raises UserError naming what is too long."""
    parts = {"profile": profile, "variant": spec.variant, "setting": spec.setting, "encoder": spec.encoder}
    for what, name in parts.items():
        _check(what, name, len(file_name(name).encode()))
    for suite in suites:
        _check("suite", suite, len(file_name(suite).encode()) + len(f"seed-{spec.seed}") + _ADDED)


def remove_leftovers_of(store: Store, profile: str, spec: Spec, fingerprint: str) -> None:
    """Remove temporary files that killed processes left of a run. To be called under its lock."""
    remove_leftovers(store.work(fingerprint))
    remove_leftovers(store.folder(profile, spec), f".seed-{spec.seed}-{fingerprint[:16]}*.tmp")
    remove_leftovers(store.root / "failed", f".{fingerprint[:16]}*.tmp")


def _check(what: str, name: str, size: int) -> None:
    if size > LONGEST_NAME:
        raise UserError(
            f"the {what} '{name[:60]}...' makes a file name of {size} bytes in the folder of results, and "
            f"{LONGEST_NAME} are the most; shorten it"
        )
