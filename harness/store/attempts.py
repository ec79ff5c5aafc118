"""Notes in work folders on the processes that carried out a run, which outlive these processes.

RESULTS/.work/FINGERPRINT/attempt.json       from the start of a run until it ends; kept where a process died

The note says whether a process has the run, and under how many processes it died. One that says so while nobody holds
the run's lock was left by a process that ended without a word: killed, crashed, or ended by code of its own.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.errors import LockError, UserError
from harness.files import read_regular, write_text
from harness.store.files import Store

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
        return Attempt(**json.loads(read_regular(_path(store, fingerprint))))
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


def begin_attempt(store: Store, fingerprint: str) -> None:
    """Note, under the run's lock, that this process has the run."""
    _write(store, fingerprint, Attempt(True, attempt(store, fingerprint).settled.deaths))


def end_attempt(store: Store, fingerprint: str, *, well: bool) -> None:
    """Note that the run ended or was given up by its own process; all is forgotten of one that ended `well`."""
    _write(store, fingerprint, Attempt(deaths=0 if well else attempt(store, fingerprint).deaths))


def settle_attempt(store: Store, fingerprint: str) -> bool:
    """Count a death where the note still says that a process has the run; whether it did. That process must be gone."""
    found = attempt(store, fingerprint)
    if found.running:
        _write(store, fingerprint, found.settled)
    return found.running


def _path(store: Store, fingerprint: str) -> Path:
    return store.work(fingerprint) / "attempt.json"


def _write(store: Store, fingerprint: str, found: Attempt) -> None:
    path = _path(store, fingerprint)
    with suppress(OSError):  # a full disk: the run itself reports it
        if found == Attempt():
            path.unlink(missing_ok=True)
        else:
            write_text(path, json.dumps(asdict(found)) + "\n")
