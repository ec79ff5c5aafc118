"""How a job in SLURM ended, as a note in its work folder: JSON, from which nothing is executed that reads it.

RESULTS/.work/JOB/end.json           the id there, and a result, a failure, a preparation, another turn or an error
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from harness.files import DamagedError, note_in, read_regular, write_note
from harness.store import Failure, Result, Store
from harness.work.job import Again, End, Prepared

_KINDS: Final[dict[str, Any]] = {kind.__name__: TypeAdapter(kind) for kind in (Result, Failure, Prepared, Again, str)}


def write_end(store: Store, job: str, number: str, end: End | Again | BaseException) -> None:
    """Note how a job ended that has an id in SLURM; of an error, the last line."""
    found = traceback.format_exception_only(end)[-1].strip() if isinstance(end, BaseException) else end
    kind = type(found).__name__
    write_note(_path(store, job), {"id": number, "kind": kind, "end": _KINDS[kind].dump_python(found, mode="json")})


def read_end(store: Store, job: str, number: str) -> End | Again | str | None:
    """How a job ended, or the error that it raised; None where it has not, or was killed."""
    try:
        noted = note_in(read_regular(_path(store, job)))
        if noted["id"] != number:
            return None
        found: End | Again | str = _KINDS[noted["kind"]].validate_python(noted["end"])
    except (OSError, DamagedError, ValueError, KeyError):
        return None
    return found


def _path(store: Store, job: str) -> Path:
    return store.work(job) / "end.json"
