"""The state of runs that were submitted to a batch system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.errors import UserError
from harness.store import Store
from harness.store.folder import Submission, submissions
from harness.work.slurm_commands import SlurmState, states


@dataclass(frozen=True)
class Whereabouts:
    """The location of a run, in words. `lost`: its job ended without a result; `sent`: SLURM cannot be asked here."""

    state: Literal["queued", "running", "lost", "sent"]
    text: str


def whereabouts(store: Store) -> dict[str, Whereabouts]:
    """Where submitted jobs are, by the first 32 digits of their fingerprints; those that ended are not among them."""
    notes = submissions(store)
    if not notes:
        return {}
    try:
        there = states()
    except UserError as error:
        return {name: Whereabouts("sent", f"{note.system} {note.id}; {error}") for name, note in notes.items()}
    return {name: _of(note, there.get(note.id, SlurmState("UNKNOWN"))) for name, note in notes.items()}


def _of(note: Submission, state: SlurmState) -> Whereabouts:
    place = f"{note.system} {note.id}"
    if state.waits:
        return Whereabouts("queued", f"{place}, {state.state.lower()} ({state.reason or 'no reason given'})")
    if state.ended:
        return Whereabouts("lost", f"{place} ended without a result ({state.state}); log: {note.log}")
    return Whereabouts("running", f"{place}, {state.state.lower()} on {state.node} for {state.elapsed}")
