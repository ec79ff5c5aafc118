"""The work folder of a run, until its result is saved: submissions, kept evaluations; and how a run
is moved away.

RESULTS/.work/FINGERPRINT/submitted.json    from the submission of a job to a batch system until its end
RESULTS/.work/FINGERPRINT/sessions.json     the processes that have worked on a run in progress
RESULTS/.work/FINGERPRINT/scores-*          evaluations of a run in progress, with their arrays
RESULTS/.superseded/TIME-FINGERPRINT/       what a run had before it was dropped or trained again: a folder of results
                                            too, with result, arrays, log, weights

A run is in progress while a process holds its lock; a killed process frees it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import UserError, first_line
from harness.files import (
    DamagedError,
    hash_content,
    move,
    parse_note,
    put_aside,
    read_note,
    read_note_on,
    read_regular,
    read_within,
    remove,
    write_note,
)
from harness.locks import is_held
from harness.spec import RunSpec
from harness.store.files import NamedArrays, Store, read_named_arrays, write_named_arrays
from harness.store.schema import Evaluation, Protocol, Result, Session
from harness.within import refuse_links

#: The record of a training that has ended, in the run's work folder.
RECORD_FILE = "trained.json"
#: The processes that have worked on a run, until its result is saved.
SESSIONS_FILE = "sessions.json"
#: Subfolder of a work folder for the best model of the training.
BEST = "best"
#: Subfolder of a work folder for mteb's own files of tasks in the result; those of tasks in
#: progress are in `mteb`.
SCORED_BY_MTEB = "mteb-scored"
#: the name of a checkpoint: its step, and the hash of its content
CHECKPOINT = re.compile(r"checkpoint-([0-9]+)-([0-9a-f]{32})\.pt")


def is_in_progress(store: Store, fingerprint: str) -> bool:
    """Whether a process is executing the run now: it holds the run's lock."""
    return is_held(store.lock_file(fingerprint))


def has_training(store: Store, fingerprint: str) -> bool:
    """Whether a run's work folder has the record of a training that ended."""
    return (store.work(fingerprint) / RECORD_FILE).is_file()


def find_checkpoint_step(store: Store, fingerprint: str) -> int:
    """The step of the newest checkpoint in a run's work folder, from which training resumes; 0
    without one.
    """
    checkpoints = list_checkpoints(store.work(fingerprint))
    if not checkpoints:
        return 0
    return checkpoints[0][0]


def list_checkpoints(work: Path) -> list[tuple[int, Path]]:
    """The step and the file of each checkpoint in a work folder, the newest first; other names are
    ignored.
    """
    checkpoints = []
    for path in work.glob("checkpoint-*.pt"):
        match = CHECKPOINT.fullmatch(path.name)
        if match:
            checkpoints.append((int(match[1]), path))
    return sorted(checkpoints, reverse=True)


def refuse_linked(store: Store, path: Path) -> None:
    """Raise UserError where a path of a store, or a file or folder in it, is a link."""
    try:
        refuse_links(store.root, path)
    except OSError as error:
        raise UserError(
            f"{error.filename}: {error.strerror}; remove it, or copy in its place what it points to"
        ) from error


class Submission(BaseModel):
    """A job in a batch system. `id` is its id there, `key` the run's, `log` the file of its output.

    `after` are the ids there of the jobs, or arrays of jobs, for whose end it waits.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    system: str
    id: str
    key: str
    log: Path
    after: tuple[str, ...] = ()


def read_submission(store: Store, job: str) -> Submission | None:
    """The note on a job, by a run's fingerprint or a preparation's id; None where there is none."""
    return _read_submission_file(store, _submission_file(store, job))


def read_submissions(store: Store) -> dict[str, Submission]:
    """All notes, by the name of the work folder (the first 32 digits of a fingerprint)."""
    notes = {}
    for path in sorted((store.root / ".work").glob("*/submitted.json")):
        note = _read_submission_file(store, path)
        if note is not None:
            notes[path.parent.name] = note
    return notes


def write_submission(store: Store, job: str, note: Submission) -> None:
    """Write the note on a job that was submitted."""
    write_note(_submission_file(store, job), note.model_dump(mode="json"), store.root)


def forget_submission(store: Store, job: str, id_there: str) -> None:
    """Remove the note on a job that has ended, unless it was submitted again since."""
    note = read_submission(store, job)
    if note is not None and note.id == id_there:
        remove(_submission_file(store, job), store.root)


def _submission_file(store: Store, job: str) -> Path:
    return store.work(job) / "submitted.json"


def _read_submission_file(store: Store, path: Path) -> Submission | None:
    try:
        return Submission.model_validate(parse_note(read_within(store.root, path)))
    # removed since, or damaged: treated as never submitted
    except (OSError, DamagedError, ValidationError):
        return None


def keep_evaluation(
    store: Store, fingerprint: str, evaluation: Evaluation, arrays: NamedArrays
) -> None:
    """Keep an evaluation until the run ends: first its arrays, then its file, which holds their
    hash.
    """
    path = _evaluation_file(store, fingerprint, evaluation.suite, evaluation.protocol)
    array_path = path.with_suffix(".npz")
    remove(array_path, store.root)
    array_hash = ""
    if arrays:
        write_named_arrays(array_path, arrays, store.root)
        array_hash = hash_content(array_path, store.root)

    note = {"scores": evaluation.model_dump(mode="json"), "arrays": array_hash}
    write_note(path, note, store.root)


def read_kept_evaluation(
    store: Store, fingerprint: str, suite: str, protocol: Protocol
) -> Evaluation | None:
    """The evaluation that an earlier process kept; None if there is none. A damaged one is put
    aside.
    """
    path = _evaluation_file(store, fingerprint, suite, protocol)
    consequence = "the suite is evaluated again"
    note = read_note_on(path, {"arrays": path.with_suffix(".npz")}, consequence, store.root)
    if note is None:
        return None

    try:
        return Evaluation.model_validate(note["scores"])
    except (ValueError, KeyError) as error:  # of another version
        put_aside(path, first_line(error), consequence, store.root)
        return None


def add_session(store: Store, fingerprint: str, session: Session) -> list[Session]:
    """Note that a process works on a run; return all that have, the first one first."""
    path = store.work(fingerprint) / SESSIONS_FILE
    consequence = "the result does not list the processes before this one"
    note = read_note(path, consequence, store.root) or {"sessions": []}
    sessions = []
    try:
        sessions = [Session.model_validate(values) for values in note["sessions"]]
    except (ValueError, KeyError, TypeError) as error:  # of another version
        put_aside(path, first_line(error), consequence, store.root)

    sessions.append(session)
    values = [session.model_dump(mode="json") for session in sessions]
    write_note(path, {"sessions": values}, store.root)
    return sessions


def commit(store: Store, result: Result, log: Path) -> Result:
    """Save a run's result, its log and the arrays of its kept evaluations; return it as stored.

    Arrays and log are written first, since a run with a result counts as done; the work folder is
    cleared last. To be called under the run's lock.
    """
    for evaluation in result.evaluations:
        path = _evaluation_file(store, result.fingerprint, evaluation.suite, evaluation.protocol)
        array_path = path.with_suffix(".npz")
        if array_path.is_file():
            store.save_arrays(result, evaluation, read_named_arrays(array_path, store.root))

    store.save_log(result, read_regular(log, store.root).decode("utf-8", "replace"))

    saved = store.save(result)

    work = store.work(result.fingerprint)
    _clear_evaluations(work)
    remove(work / SESSIONS_FILE, store.root)
    remove(log, store.root)
    return saved


def _evaluation_file(store: Store, fingerprint: str, suite: str, protocol: Protocol) -> Path:
    return store.work(fingerprint) / f"scores-{suite}-{protocol.key}.json"


def _clear_evaluations(work: Path) -> None:
    """Remove kept evaluations, except damaged ones; keep mteb's own files for export only."""
    for path in work.glob("scores-*"):
        if path.suffix in (".json", ".npz"):
            path.unlink()

    scored = work / SCORED_BY_MTEB
    for folder in (work / "mteb").glob("*"):
        scored.mkdir(exist_ok=True)
        target = scored / folder.name
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)

    shutil.rmtree(work / "mteb", ignore_errors=True)


def supersede(store: Store, runs: Sequence[tuple[str, RunSpec, str]]) -> list[Path]:
    """Move what each run, (profile, spec, fingerprint), has to a results folder of its own; return
    these folders.

    Raises UserError, before anything is moved, where one of them is in progress; and where a file
    cannot be moved.
    """
    for profile, spec, fingerprint in runs:
        with _hold_idle_run(store, spec, fingerprint):
            for path in _list_files_of_run(store, profile, spec, fingerprint):
                refuse_linked(store, path)
    return [_move_away(store, *run) for run in runs]


@contextmanager
def _hold_idle_run(store: Store, spec: RunSpec, fingerprint: str) -> Iterator[None]:
    """Hold a run's lock. Raises UserError where the run is in progress or submitted."""
    with store.lock(fingerprint) as acquired:
        if not acquired or read_submission(store, fingerprint):
            raise UserError(
                f"{spec.key} is in progress; run the same command again when that has ended"
            )
        yield


def _move_away(store: Store, profile: str, spec: RunSpec, fingerprint: str) -> Path:
    """Move the work and then the result of a run: until the result is moved, the same command finds
    the run again.
    """
    target = _pick_superseded_folder(store, fingerprint)
    with _hold_idle_run(store, spec, fingerprint):
        try:
            for path in _list_files_of_run(store, profile, spec, fingerprint):
                move(path, target / path.relative_to(store.root), store.root)
        except OSError as error:
            file = error.filename2 or error.filename
            raise UserError(
                f"{file}: {error.strerror}; correct this, and run the same command again"
            ) from error

    return target


def _list_files_of_run(store: Store, profile: str, spec: RunSpec, fingerprint: str) -> list[Path]:
    """What lies in the work folder of a run, and its files, the result last."""
    work = store.work(fingerprint)
    in_work = sorted(work.iterdir()) if work.is_dir() else []
    return [*in_work, *reversed(store.files_of(profile, spec, fingerprint))]


def _pick_superseded_folder(store: Store, fingerprint: str) -> Path:
    """An unused folder to which a run's former files move."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:16]}"
    folder = store.root / ".superseded" / name
    number = 2
    while folder.exists():
        folder = folder.with_name(f"{name}-{number}")
        number += 1
    return folder
