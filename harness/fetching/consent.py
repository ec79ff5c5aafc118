"""Licences that restrict the use of data: nothing is downloaded before the user accepts them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from harness.errors import UserError
from harness.fetching.checks import state
from harness.fetching.entries import Entry, restricted, with_inputs
from harness.registry import suggest


def check_names(given: Iterable[str]) -> None:
    """Raise UserError for a name that nothing restricted has. Models are not listed here; they are named OWNER/NAME."""
    known = [entry.name for entry in restricted()]
    for name in given:
        if name not in known and "/" not in name and not _is_of_mteb(name):
            raise UserError(
                f"--accept-licences {name}: no restricted data set or model has this name; {suggest(name, known)}"
            )


def _is_of_mteb(name: str) -> bool:
    """Whether mteb has a task of this name; its import takes seconds."""
    import mteb

    try:
        return bool(mteb.get_task(name))
    except KeyError:
        return False


def require_consent(terms: Mapping[str, str], accepted: Collection[str]) -> None:
    """Raise UserError unless the terms of each name are agreed to."""
    refused = [name for name in terms if name not in accepted]
    if refused:
        listed = "; ".join(f"{name}: {terms[name]}" for name in refused)
        raise UserError(
            f"licences restrict the use of some data ({listed}); to accept them, add "
            f"--accept-licences {','.join(terms)}"
        )


def terms_of(root: Path, wanted: Iterable[Entry]) -> dict[str, str]:
    """Restricting licences by name, of entries and of those that they are made from, unless they are there."""
    needed = (each for entry in wanted for each in with_inputs(entry))
    return {
        each.name: each.licence
        for each in needed
        if each.restricted and not each.by_hand and state(root, each).word in ("absent", "part")
    }
