"""What the work folder of a run contains, and its end: attempts, submissions, kept evaluations, notes on a redo.

RESULTS/.work/FINGERPRINT/attempt.json      from the start of a run until it ends; kept if its process died
RESULTS/.work/FINGERPRINT/submitted.json    from the submission of a job to a batch system until its end
RESULTS/.work/FINGERPRINT/scores-*          evaluations of a run in progress, with their arrays
RESULTS/.work/redo-ASKED.json               while a command notes which runs it was asked to train again
RESULTS/.work/FINGERPRINT/redo.json         of one of them, until its new result stands
RESULTS/.work/FINGERPRINT/new/              its new result before it takes its place: a folder of results
RESULTS/.superseded/TIME-FINGERPRINT/       what it had before, a folder of results too: result, arrays, log, weights

An attempt says whether a process has the run, and under how many processes it died: one that says so while nobody holds
the run's lock was left by a process that was killed or crashed. For a redo, files are renamed, never copied, and the
note says how far that is: after a kill at any moment, the next command goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import LockError, UserError, first_line
from harness.files import (
    DamagedError,
    content_hash,
    note_in,
    put_aside,
    read_note_on,
    read_regular,
    write_note,
    write_text,
)
from harness.store.files import NamedArrays, Store, read_named_arrays, write_named_arrays
from harness.store.schema import Evaluation, Protocol, Result, Spec

#: The record of a training that has ended, in the run's work folder.
RECORD_FILE = "trained.json"
#: mteb's own files of tasks that a run's result has, in its work folder; those of tasks in progress are in `mteb`.
SCORED_BY_MTEB = "mteb-scored"
#: Deaths after which a run is carried out after all others.
LAST_AFTER = 2


@dataclass(frozen=True)
class Attempt:
    """Whether a process is working on the run, and how many processes died while running it."""

    running: bool = False
    deaths: int = 0

    @property
    def settled(self) -> Attempt:
        """The state after the process that had the run is known to be gone."""
        return Attempt(deaths=self.deaths + self.running)


def attempt(store: Store, fingerprint: str) -> Attempt:
    """What is noted of a run; a note that cannot be read counts as none."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return Attempt(**json.loads(read_regular(_attempt_file(store, fingerprint))))
    return Attempt()


def in_progress(store: Store, fingerprint: str) -> bool:
    """Whether a process has the run now: its note says so, and the run's lock is held."""
    if not attempt(store, fingerprint).running:
        return False
    try:
        with store.lock(fingerprint) as free:
            return not free
    except LockError:  # something else lies in its place, which no process holds
        return False
    except (OSError, UserError):  # a folder of another user: the note has to do
        return True


def has_training(store: Store, fingerprint: str) -> bool:
    """Whether a run's work folder has the record of a training that ended."""
    return (store.work(fingerprint) / RECORD_FILE).is_file()


def checkpoint_step(store: Store, fingerprint: str) -> int:
    """The step of the newest checkpoint in a run's work folder, after which its training goes on; 0 without one."""
    names = (path.name.split("-")[1] for path in store.work(fingerprint).glob("checkpoint-*-*.pt"))
    return max((int(step) for step in names if step.isdigit()), default=0)


def begin_attempt(store: Store, fingerprint: str) -> None:
    """Note, under the run's lock, that this process has the run."""
    _write_attempt(store, fingerprint, Attempt(True, attempt(store, fingerprint).settled.deaths))


def end_attempt(store: Store, fingerprint: str, *, well: bool) -> None:
    """Note that the run ended or was given up by its own process; all is forgotten of one that ended `well`."""
    _write_attempt(store, fingerprint, Attempt(deaths=0 if well else attempt(store, fingerprint).deaths))


def settle_attempt(store: Store, fingerprint: str) -> bool:
    """Count a death where the note still says that a process has the run; whether it did. That process must be gone."""
    begun = attempt(store, fingerprint)
    if begun.running:
        _write_attempt(store, fingerprint, begun.settled)
    return begun.running


def _attempt_file(store: Store, fingerprint: str) -> Path:
    return store.work(fingerprint) / "attempt.json"


def _write_attempt(store: Store, fingerprint: str, note: Attempt) -> None:
    path = _attempt_file(store, fingerprint)
    with suppress(OSError):  # a full disk: the run itself reports it
        if note == Attempt():
            path.unlink(missing_ok=True)
        else:
            write_text(path, json.dumps(asdict(note)) + "\n")


class Submission(BaseModel):
    """A job in a batch system. `id` is its id there, `key` the run's, `log` the file that has what it prints."""

    model_config = ConfigDict(frozen=True)

    system: str
    id: str
    key: str
    folder: Path
    log: Path


def submission(store: Store, job: str) -> Submission | None:
    """The note on a job, by a run's fingerprint or a preparation's id; None where there is none."""
    return _submission_in(_submission_file(store, job))


def submissions(store: Store) -> dict[str, Submission]:
    """All notes, by the names of their work folders, the first 32 digits of a fingerprint."""
    noted = {path.parent.name: _submission_in(path) for path in sorted((store.root / ".work").glob("*/submitted.json"))}
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


def _submission_in(path: Path) -> Submission | None:
    try:
        return Submission.model_validate(note_in(read_regular(path)))
    except (OSError, DamagedError, ValidationError):  # gone since, or not as it was written: as if never submitted
        return None


def keep_evaluation(store: Store, fingerprint: str, evaluation: Evaluation, arrays: NamedArrays) -> None:
    """Keep an evaluation until the run ends; its file is written after its arrays, and has their hash."""
    path = _evaluation_file(store, fingerprint, evaluation.suite, evaluation.protocol)
    beside = path.with_suffix(".npz")
    beside.unlink(missing_ok=True)
    if arrays:
        write_named_arrays(beside, arrays)
    write_note(path, {"scores": evaluation.model_dump(mode="json"), "arrays": content_hash(beside) if arrays else ""})


def kept_evaluation(store: Store, fingerprint: str, suite: str, protocol: Protocol) -> Evaluation | None:
    """The evaluation that an earlier process kept; None where there is none, or a damaged one, which is put aside."""
    path, again = _evaluation_file(store, fingerprint, suite, protocol), "the suite is evaluated again"
    noted = read_note_on(path, {"arrays": path.with_suffix(".npz")}, again)
    try:
        return None if noted is None else Evaluation.model_validate(noted["scores"])
    except (ValueError, KeyError) as error:  # of another version
        put_aside(path, first_line(error), again)
        return None


def commit(store: Store, result: Result, log: Path) -> Result:
    """Save a run's result, its log and the arrays of its kept evaluations; return it as stored.

    The earlier result of a run that was trained again is superseded. Arrays and log come first, since a run counts as
    done when its result is there; then the work folder is cleared. To be called under the run's lock.
    """
    into = new_results(store, result.fingerprint)
    for evaluation in result.evaluations:
        kept = _evaluation_file(store, result.fingerprint, evaluation.suite, evaluation.protocol)
        arrays = kept.with_suffix(".npz")
        if arrays.is_file():
            into.save_arrays(result, evaluation, read_named_arrays(arrays))
    into.save_log(result, log.read_text(encoding="utf-8", errors="replace"))
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


@dataclass(frozen=True)
class Redo:
    """The note on a run to train again.

    `asked` is the command that asked for it, as a hash of its runs, and `earlier` the name of the folder that gets what
    the run had. `cleared` says that its former work is there, `moved` that its former result is.
    """

    asked: str
    earlier: str
    cleared: bool = False
    moved: bool = False


def redo_of(store: Store, fingerprint: str) -> Redo | None:
    """The note on a run; None where it is not to be trained again."""
    with suppress(OSError, DamagedError, TypeError):
        return Redo(**note_in(read_regular(_note(store, fingerprint))))
    return None


def begins_to_redo(store: Store, asked: str) -> bool:
    """Whether a command was stopped while it noted its runs, of which none was begun."""
    return _list(store, asked).exists()


def begin_redo(store: Store, runs: Mapping[str, str], asked: str) -> None:
    """Note runs, fingerprint -> key, to be trained again, and move their former work away.

    Raises UserError, before anything is noted, where another process has one of them.
    """
    new = {fingerprint: key for fingerprint, key in runs.items() if redo_of(store, fingerprint) is None}
    for fingerprint, key in new.items():
        with store.lock(fingerprint) as mine:
            if not mine or submission(store, fingerprint):
                raise UserError(f"{key} is running in another process; use --redo when that has ended")
    if new:
        write_note(_list(store, asked), {"runs": list(new)})
    for fingerprint in new:
        _write_redo(store, fingerprint, Redo(asked, _unused_name(store, fingerprint)))
    for fingerprint in runs:
        with store.lock(fingerprint) as mine:
            note = redo_of(store, fingerprint)
            if mine and note and not note.cleared:
                _clear(store, fingerprint, note)
    _list(store, asked).unlink(missing_ok=True)


def supersede(store: Store, runs: Iterable[Result]) -> list[Path]:
    """Move the results of runs, and their work, to folders of results of their own, which are returned.

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
            # the result last: as long as it is there, the same command finds it again
            _move(reversed(store.files_of(dropped.profile, dropped.spec, dropped.fingerprint)), store, target)
            moved.append(target.root)
    return moved


def new_results(store: Store, fingerprint: str) -> Store:
    """Where the result of a run is saved: beside the earlier one if it is trained again, else in the store itself."""
    return store if redo_of(store, fingerprint) is None else Store(store.work(fingerprint) / "new")


def end_redo(store: Store, profile: str, spec: Spec, fingerprint: str) -> None:
    """Put the new result of a run in the place of its earlier one, once it is complete. To be called under its lock."""
    note, new = redo_of(store, fingerprint), new_results(store, fingerprint)
    if note is None or (new.find(profile, spec, fingerprint) is None and not note.moved):
        return
    if not note.moved:
        _move(store.files_of(profile, spec, fingerprint), store, earlier_results(store, note))
        _write_redo(store, fingerprint, replace(note, moved=True))
    # the result last: what counts as done is complete
    _move(reversed(new.files_of(profile, spec, fingerprint)), new, store)
    shutil.rmtree(new.root, ignore_errors=True)
    store.forget_failure(profile, spec, fingerprint)
    _note(store, fingerprint).unlink()


def earlier_results(store: Store, note: Redo) -> Store:
    """The folder of results that gets what a run had."""
    return Store(store.root / ".superseded" / note.earlier)


def _clear(store: Store, fingerprint: str, note: Redo) -> None:
    """Move the former work of a run away; its checkpoints and weights are not used again."""
    work, note_file = store.work(fingerprint), _note(store, fingerprint)
    _move([path for path in sorted(work.iterdir()) if path != note_file], store, earlier_results(store, note))
    _write_redo(store, fingerprint, replace(note, cleared=True))


def _move(paths: Iterable[Path], store: Store, to: Store) -> None:
    for path in paths:
        target = to.root / path.relative_to(store.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def _unused_name(store: Store, fingerprint: str) -> str:
    """Names the folder that gets what a run had."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:16]}"
    names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(each for each in names if not (store.root / ".superseded" / each).exists())


def _note(store: Store, fingerprint: str) -> Path:
    return store.work(fingerprint) / "redo.json"


def _list(store: Store, asked: str) -> Path:
    return store.root / ".work" / f"redo-{asked[:32]}.json"


def _write_redo(store: Store, fingerprint: str, note: Redo) -> None:
    write_note(_note(store, fingerprint), asdict(note))
