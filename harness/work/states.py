"""The states of a plan's runs: as the plan has them, and of those in progress where they are."""

from __future__ import annotations

from collections.abc import Iterable

from harness.command_line import harness_command
from harness.errors import UserError
from harness.planning.events import STATES, RunState
from harness.planning.plan import Plan, PlannedRun
from harness.store import Result, Store
from harness.store.folder import Submission, in_progress, submissions
from harness.work.slurm.commands import SlurmState, states


def run_states(plan: Plan) -> list[tuple[RunState, str, str]]:
    """State and key of each run of a plan, in the order of the states, and why it is in that state or where it is."""
    submitted = whereabouts(plan.store)
    found = [_state(plan, run, submitted.get(plan.store.work(run.fingerprint).name)) for run in plan.runs]
    return sorted(found, key=lambda state: list(STATES).index(state[0]))


def _state(plan: Plan, run: PlannedRun, submitted: tuple[RunState, str] | None) -> tuple[RunState, str, str]:
    if run.state == "done":
        return run.state, run.key, ""
    if submitted:
        state, place = submitted
        return state, run.key, place
    if in_progress(plan.store, run.fingerprint):
        follow = harness_command("logs", run.key, "--follow", results=plan.store.root)
        return "running", run.key, f"in another process; `{follow}` shows its log"
    return run.state, run.key, run.why


def submitted_jobs(plan: Plan, results: Iterable[Result]) -> list[Submission]:
    """The jobs in a batch system of those runs of a plan that have no result among these."""
    notes, ended = submissions(plan.store), {result.fingerprint for result in results}
    names = (plan.store.work(run.fingerprint).name for run in plan.todo if run.fingerprint not in ended)
    return [notes[name] for name in names if name in notes]


def whereabouts(store: Store) -> dict[str, tuple[RunState, str]]:
    """The states of submitted runs and where they are, in words, by the first 32 digits of their fingerprints."""
    notes = submissions(store)
    if not notes:
        return {}
    try:
        there = states()
    except UserError as error:
        return {name: ("queued", f"{note.system} {note.id}; {error}") for name, note in notes.items()}
    return {name: _where(note, there.get(note.id, SlurmState("UNKNOWN"))) for name, note in notes.items()}


def _where(note: Submission, state: SlurmState) -> tuple[RunState, str]:
    place = f"{note.system} {note.id}"
    if state.waits:
        return "queued", f"{place}, {state.state.lower()} ({state.reason or 'no reason given'})"
    if state.ended:
        return "failed", f"{place} ended without a result ({state.state}); log: {note.log}"
    return "running", f"{place}, {state.state.lower()} on {state.node} for {state.elapsed}"
