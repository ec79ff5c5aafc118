"""Runs that are trained again although they have a result, which is replaced only when the new one is complete.

RESULTS/.work/redo-ASKED.json               while a command notes which runs it was asked to train again
RESULTS/.work/FINGERPRINT/redo.json         of one of them, until its new result stands
RESULTS/.work/FINGERPRINT/new/              its new result before it takes its place: a folder of results
RESULTS/.superseded/TIME-FINGERPRINT/       what it had before, a folder of results too: result, arrays, log, weights

Files are renamed, never copied, and the note says how far that is: killed at any moment, the next command goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import UserError
from harness.files import DamagedError, note_in, read_regular, write_note
from harness.store.files import Store
from harness.store.schema import Result, Spec
from harness.store.submissions import submission


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
        earlier = _unused(store, _earlier(fingerprint))
        _write(store, fingerprint, Redo(asked, earlier))
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
        chosen = [(one, locks.enter_context(store.lock(one.fingerprint))) for one in runs]
        for one, mine in chosen:
            if not mine or submission(store, one.fingerprint) or redo_of(store, one.fingerprint):
                raise UserError(f"{one.spec.key} is in progress; drop it when that has ended")
        for one, _ in chosen:
            earlier = _unused(store, _earlier(one.fingerprint))
            work, place = store.work(one.fingerprint), Store(store.root / ".superseded" / earlier)
            _move(sorted(work.iterdir()) if work.is_dir() else [], store, place)
            # the result last: as long as it is there, the same command finds it again
            _move(reversed(store.files_of(one.profile, one.spec, one.fingerprint)), store, place)
            moved.append(place.root)
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
        _write(store, fingerprint, replace(note, moved=True))
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
    _write(store, fingerprint, replace(note, cleared=True))


def _move(paths: Iterable[Path], store: Store, to: Store) -> None:
    for path in paths:
        place = to.root / path.relative_to(store.root)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)


def _earlier(fingerprint: str) -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:16]}"


def _unused(store: Store, name: str) -> str:
    names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(each for each in names if not (store.root / ".superseded" / each).exists())


def _note(store: Store, fingerprint: str) -> Path:
    return store.work(fingerprint) / "redo.json"


def _list(store: Store, asked: str) -> Path:
    return store.root / ".work" / f"redo-{asked[:32]}.json"


def _write(store: Store, fingerprint: str, note: Redo) -> None:
    write_note(_note(store, fingerprint), asdict(note))
