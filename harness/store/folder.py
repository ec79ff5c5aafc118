"""The work folder of a run, until its result is saved: submissions, kept evaluations, notes on a redo.

RESULTS/.work/FINGERPRINT/submitted.json    from the submission of a job to a batch system until its end
RESULTS/.work/FINGERPRINT/scores-*          evaluations of a run in progress, with their arrays
RESULTS/.work/redo-ASKED.json               while a command notes which runs it was asked to train again
RESULTS/.work/FINGERPRINT/redo.json         of one of them, until its new result stands
RESULTS/.work/FINGERPRINT/new/              its new result before it takes its place: a folder of results
RESULTS/.superseded/TIME-FINGERPRINT/       what it had before, a folder of results too: result, arrays, log, weights

A run is in progress while a process holds its lock; a killed process frees it. For a redo, files are renamed, never
copied, and the note records the progress: after a kill at any moment, the next command continues.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import UserError, first_line
from harness.files import (
    LARGEST,
    DamagedError,
    content_hash,
    move,
    note_in,
    open_regular,
    put_aside,
    read_note_on,
    read_within,
    write_note,
)
from harness.locks import is_held
from harness.spec import RunSpec
from harness.store.files import NamedArrays, Store, read_named_arrays, write_named_arrays
from harness.store.schema import Evaluation, Protocol, Result

#: The record of a training that has ended, in the run's work folder.
RECORD_FILE = "trained.json"
#: Subfolder of a work folder for mteb's own files of tasks in the result; those of tasks in progress are in `mteb`.
SCORED_BY_MTEB = "mteb-scored"
#: the name of a checkpoint: its step, and the hash of its content
CHECKPOINT = re.compile(r"checkpoint-([0-9]+)-([0-9a-f]{32})\.pt")


class Note(BaseModel):
    """Base of the notes in work folders; one with a wrong type or an unknown key counts as none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


def in_progress(store: Store, fingerprint: str) -> bool:
    """Whether a process is executing the run now: it holds the run's lock."""
    return is_held(store.lock_file(fingerprint))


def has_training(store: Store, fingerprint: str) -> bool:
    """Whether a run's work folder has the record of a training that ended."""
    return (store.work(fingerprint) / RECORD_FILE).is_file()


def checkpoint_step(store: Store, fingerprint: str) -> int:
    """The step of the newest checkpoint in a run's work folder, from which training resumes; 0 without one."""
    return max((step for step, _ in checkpoints_in(store.work(fingerprint))), default=0)


def checkpoints_in(work: Path) -> list[tuple[int, Path]]:
    """The step and the file of each checkpoint in a work folder, the newest first; other names are ignored."""
    named = ((CHECKPOINT.fullmatch(path.name), path) for path in work.glob("checkpoint-*.pt"))
    return sorted(((int(match[1]), path) for match, path in named if match), reverse=True)


class Submission(BaseModel):
    """A job in a batch system. `id` is its id there, `key` the run's, `log` the file of its output."""

    model_config = ConfigDict(frozen=True)

    system: str
    id: str
    key: str
    folder: Path
    log: Path


def submission(store: Store, job: str) -> Submission | None:
    """The note on a job, by a run's fingerprint or a preparation's id; None where there is none."""
    return _submission_in(store, _submission_file(store, job))


def submissions(store: Store) -> dict[str, Submission]:
    """All notes, by the name of the work folder (the first 32 digits of a fingerprint)."""
    noted = {
        path.parent.name: _submission_in(store, path)
        for path in sorted((store.root / ".work").glob("*/submitted.json"))
    }
    return {name: note for name, note in noted.items() if note}


def note_submission(store: Store, job: str, note: Submission) -> None:
    """Write the note on a job that was submitted."""
    write_note(_submission_file(store, job), note.model_dump(mode="json"))


def forget_submission(store: Store, job: str, id_there: str) -> None:
    """Remove the note on a job that has ended, unless it was submitted again since."""
    noted = submission(store, job)
    if noted is not None and noted.id == id_there:
        _submission_file(store, job).unlink(missing_ok=True)


def _submission_file(store: Store, job: str) -> Path:
    return store.work(job) / "submitted.json"


def _submission_in(store: Store, path: Path) -> Submission | None:
    try:
        return Submission.model_validate(note_in(read_within(store.root, path)))
    except (OSError, DamagedError, ValidationError):  # removed since, or damaged: treated as never submitted
        return None


def keep_evaluation(store: Store, fingerprint: str, evaluation: Evaluation, arrays: NamedArrays) -> None:
    """Keep an evaluation until the run ends: first its arrays, then its file, which holds their hash."""
    path = _evaluation_file(store, fingerprint, evaluation.suite, evaluation.protocol)
    beside = path.with_suffix(".npz")
    beside.unlink(missing_ok=True)
    if arrays:
        write_named_arrays(beside, arrays)
    write_note(path, {"scores": evaluation.model_dump(mode="json"), "arrays": content_hash(beside) if arrays else ""})


def kept_evaluation(store: Store, fingerprint: str, suite: str, protocol: Protocol) -> Evaluation | None:
    """The evaluation that an earlier process kept; None if there is none. A damaged one is put aside."""
    path, again = _evaluation_file(store, fingerprint, suite, protocol), "the suite is evaluated again"
    noted = read_note_on(path, {"arrays": path.with_suffix(".npz")}, again)
    try:
        return None if noted is None else Evaluation.model_validate(noted["scores"])
    except (ValueError, KeyError) as error:  # of another version
        put_aside(path, first_line(error), again)
        return None


def _first_part(log: Path) -> str:
    """A run's own log, cut far below the size at which a log would no longer be read."""
    with open_regular(log) as stream:
        text, more = stream.read(LARGEST // 2).decode("utf-8", "replace"), stream.read(1)
    return (
        f"{text}\n... (the rest of this log was not kept: it has more than {LARGEST / 2e6:.0f} MB)\n" if more else text
    )


def commit(store: Store, result: Result, log: Path) -> Result:
    """Save a run's result, its log and the arrays of its kept evaluations; return it as stored.

    If the run was trained again, its earlier result is superseded. Arrays and log are written first, since a run with
    a result counts as done; the work folder is cleared last. To be called under the run's lock.
    """
    into = new_results(store, result.fingerprint)
    for evaluation in result.evaluations:
        kept = _evaluation_file(store, result.fingerprint, evaluation.suite, evaluation.protocol)
        arrays = kept.with_suffix(".npz")
        if arrays.is_file():
            into.save_arrays(result, evaluation, read_named_arrays(arrays, store.root))
    into.save_log(result, _first_part(log))
    saved = into.save(result)
    end_redo(store, result.profile, result.spec, result.fingerprint)
    _clear_evaluations(store.work(result.fingerprint))
    log.unlink()
    return saved


def _evaluation_file(store: Store, fingerprint: str, suite: str, protocol: Protocol) -> Path:
    return store.work(fingerprint) / f"scores-{suite}-{protocol.key}.json"


def _clear_evaluations(work: Path) -> None:
    """Remove kept evaluations, except damaged ones; keep mteb's own files for export only."""
    for path in work.glob("scores-*"):
        if path.suffix in (".json", ".npz"):
            path.unlink()
    for folder in (work / "mteb").glob("*"):
        (work / SCORED_BY_MTEB).mkdir(exist_ok=True)
        shutil.rmtree(work / SCORED_BY_MTEB / folder.name, ignore_errors=True)
        folder.rename(work / SCORED_BY_MTEB / folder.name)
    shutil.rmtree(work / "mteb", ignore_errors=True)


class Redo(Note):
    """The note on a run to train again.

    `asked` identifies the command that asked for it, by a hash of its runs. `earlier` is the name of the folder for the
    run's former files; `cleared` says that its work has been moved there, `moved` that its result has.
    """

    asked: str
    earlier: str = Field(pattern=r"^[0-9A-Za-z-]+$")
    cleared: bool = False
    moved: bool = False


def redo_of(store: Store, fingerprint: str) -> Redo | None:
    """The note on a run; None where it is not to be trained again."""
    with suppress(OSError, DamagedError, ValidationError):
        return Redo.model_validate(note_in(read_within(store.root, _note(store, fingerprint))))
    return None


def begins_to_redo(store: Store, asked: str) -> bool:
    """Whether a command was stopped while it noted its runs, before it began any of them."""
    return _list(store, asked).exists()


def begin_redo(store: Store, runs: Mapping[str, str], asked: str) -> None:
    """Note runs, fingerprint -> key, to be trained again, and move their former work away.

    Raises UserError, before anything is noted, if another process is executing one of them.
    """
    new = {fingerprint: key for fingerprint, key in runs.items() if redo_of(store, fingerprint) is None}
    for fingerprint, key in new.items():
        with store.lock(fingerprint) as mine:
            if not mine or submission(store, fingerprint):
                raise UserError(f"{key} is running in another process; use --redo when that has ended")
    if new:
        write_note(_list(store, asked), {"runs": list(new)})
    for fingerprint in new:
        _write_redo(store, fingerprint, Redo(asked=asked, earlier=_unused_name(store, fingerprint)))
    try:
        for fingerprint in runs:
            with store.lock(fingerprint) as mine:
                note = redo_of(store, fingerprint)
                if mine and note and not note.cleared:
                    _clear(store, fingerprint, note)
    except OSError as error:
        for fingerprint in runs:  # what has not begun is not noted, so that later commands are not held up
            if (note := redo_of(store, fingerprint)) and not note.cleared:
                _note(store, fingerprint).unlink()
        _list(store, asked).unlink(missing_ok=True)
        where = error.filename2 or error.filename
        raise UserError(f"{where}: {error.strerror}; correct this, or leave out --redo") from error
    _list(store, asked).unlink(missing_ok=True)


def supersede(store: Store, runs: Iterable[Result]) -> list[Path]:
    """Move the result and work of each run to a results folder of its own; return these folders.

    Raises UserError, before anything is moved, where one of them is in progress.
    """
    moved = []
    with ExitStack() as locks:
        chosen = [(result, locks.enter_context(store.lock(result.fingerprint))) for result in runs]
        for dropped, mine in chosen:
            if not mine or submission(store, dropped.fingerprint) or redo_of(store, dropped.fingerprint):
                raise UserError(f"{dropped.spec.key} is in progress; drop it when that has ended")
        for dropped, _ in chosen:
            earlier = _unused_name(store, dropped.fingerprint)
            work, target = store.work(dropped.fingerprint), Store(store.root / ".superseded" / earlier)
            _move(sorted(work.iterdir()) if work.is_dir() else [], store, target)
            # the result last: until it is moved, the same command finds the run again
            _move(reversed(store.files_of(dropped.profile, dropped.spec, dropped.fingerprint)), store, target)
            moved.append(target.root)
    return moved


def new_results(store: Store, fingerprint: str) -> Store:
    """The store for a run's result: a separate one in its work folder if it is trained again, else the store itself."""
    return store if redo_of(store, fingerprint) is None else Store(store.work(fingerprint) / "new")


def end_redo(store: Store, profile: str, spec: RunSpec, fingerprint: str) -> None:
    """Replace a run's earlier result by its new one, if that is complete. To be called under the run's lock."""
    note, new = redo_of(store, fingerprint), new_results(store, fingerprint)
    if note is None or (new.find(profile, spec, fingerprint) is None and not note.moved):
        return
    if not note.moved:
        _move(store.files_of(profile, spec, fingerprint), store, earlier_results(store, note))
        _write_redo(store, fingerprint, note.model_copy(update={"moved": True}))
    # the result last: a run with a result counts as done
    _move(reversed(new.files_of(profile, spec, fingerprint)), new, store)
    shutil.rmtree(new.root, ignore_errors=True)
    store.forget_failure(profile, spec, fingerprint)
    _note(store, fingerprint).unlink()


def earlier_results(store: Store, note: Redo) -> Store:
    """The results folder to which a run's former files move."""
    return Store(store.root / ".superseded" / note.earlier)


def _clear(store: Store, fingerprint: str, note: Redo) -> None:
    """Move the former work of a run away; its checkpoints and weights are not used again."""
    work, note_file = store.work(fingerprint), _note(store, fingerprint)
    _move([path for path in sorted(work.iterdir()) if path != note_file], store, earlier_results(store, note))
    _write_redo(store, fingerprint, note.model_copy(update={"cleared": True}))


def _move(paths: Iterable[Path], store: Store, to: Store) -> None:
    for path in paths:
        move(path, to.root / path.relative_to(store.root))


def _unused_name(store: Store, fingerprint: str) -> str:
    """An unused name for the folder to which a run's former files move."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:16]}"
    names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(each for each in names if not (store.root / ".superseded" / each).exists())


def _note(store: Store, fingerprint: str) -> Path:
    return store.work(fingerprint) / "redo.json"


def _list(store: Store, asked: str) -> Path:
    return store.root / ".work" / f"redo-{asked[:32]}.json"


def _write_redo(store: Store, fingerprint: str, note: Redo) -> None:
    write_note(_note(store, fingerprint), note.model_dump())
