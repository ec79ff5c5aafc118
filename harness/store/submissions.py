"""Notes in the work folders on jobs submitted to a batch system: which system, under which id.

RESULTS/.work/FINGERPRINT/submitted.json        from the submission of a job until its end
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.files import DamagedError, note_in, read_regular, write_note
from harness.store.files import Store


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
    return _read(_path(store, job))


def submissions(store: Store) -> dict[str, Submission]:
    """All notes, by the names of their work folders, the first 32 digits of a fingerprint."""
    found = {path.parent.name: _read(path) for path in sorted((store.root / ".work").glob("*/submitted.json"))}
    return {name: note for name, note in found.items() if note}


def note_submission(store: Store, job: str, note: Submission) -> None:
    """Write the note on a job that was submitted."""
    write_note(_path(store, job), note.model_dump(mode="json"))


def forget_submission(store: Store, job: str, id_there: str) -> None:
    """Remove the note on a job that has ended, unless it was submitted again since."""
    found = submission(store, job)
    if found is not None and found.id == id_there:
        _path(store, job).unlink(missing_ok=True)


def _path(store: Store, job: str) -> Path:
    return store.work(job) / "submitted.json"


def _read(path: Path) -> Submission | None:
    try:
        return Submission.model_validate(note_in(read_regular(path)))
    except (OSError, DamagedError, ValidationError):  # gone since, or not as it was written: as if never submitted
        return None
