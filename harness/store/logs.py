"""The logs of runs in a results folder, found by key or fingerprint without reading a result.

RESULTS/.work/FINGERPRINT/run.log       of a run in progress, or one that was killed and will resume
RESULTS/failed/FINGERPRINT.log          of the last failure, beside its record
RESULTS/PROFILE/.../seed-N-FINGERPRINT.log      of a finished run, beside its result

For a job that was submitted to a batch system and has no log of its own yet, the batch system's
output is the log.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from harness.errors import UserError
from harness.files import read_within
from harness.registry import suggest
from harness.store.files import Store, is_named, make_ambiguity_error
from harness.store.folder import is_in_progress, read_submission, read_submissions

#: Seconds between two reads of a log that is followed.
FOLLOW_S = 0.3

LogState = Literal["submitted", "unfinished", "failed", "finished"]

_START = re.compile(r"^\S+  start (.+) on \S+$", re.MULTILINE)
_FINISHED = re.compile(r"(seed-[0-9]+)-([0-9a-f]+)")


@dataclass(frozen=True)
class StoredLog:
    """The log of one run. `fingerprint` has at least 12 digits; `profile` is empty if it is not
    known.
    """

    key: str
    state: LogState
    fingerprint: str
    path: Path
    profile: str = ""


def running_log(store: Store, fingerprint: str) -> Path:
    """The log of a run in progress; `Store.save_log` keeps it beside the result."""
    return store.work(fingerprint) / "run.log"


def failed_log(store: Store, fingerprint: str) -> Path:
    """The log that `Store.save_failure` keeps of a run's last failure."""
    return store.root / "failed" / f"{fingerprint[:16]}.log"


def find_logs(store: Store) -> list[StoredLog]:
    """One log of each run: of its unfinished or submitted work, else of its failure, else of its
    result.
    """
    logs: list[StoredLog] = []
    profiles_by_run: dict[str, set[str]] = {}
    for log in chain(
        _find_unfinished_logs(store),
        _find_submitted_logs(store),
        _find_failed_logs(store),
        _find_finished_logs(store),
    ):
        profiles = profiles_by_run.setdefault(log.fingerprint[:12], set())
        # a log without a profile may be of any
        if profiles.isdisjoint((log.profile, "")):
            profiles.add(log.profile)
            logs.append(log)

    return logs


def read_last_lines(store: Store) -> dict[str, str]:
    """The last line of the log of each run that is submitted or in progress now, by key."""
    logs = [log for log in _find_unfinished_logs(store) if is_in_progress(store, log.fingerprint)]
    logs += _find_submitted_logs(store)

    last_lines = {}
    for log in logs:
        _, _, last_lines[log.key] = _read_text(store, log.path).rstrip().rpartition("\n")
    return last_lines


def find_log(store: Store, text: str) -> StoredLog:
    """Look up a log by its run's key, whole parts of it, or the first six or more digits of the
    fingerprint.

    Raises UserError, one line that names the runs that match, or similar ones where none does.
    """
    logs = find_logs(store)
    matches = [log for log in logs if log.key == text]
    if not matches:
        matches = [log for log in logs if is_named(text, log.key, log.fingerprint)]
    if len(matches) == 1:
        return matches[0]

    if matches:
        names = [f"{log.key} ({log.state}, {log.fingerprint[:12]})" for log in matches]
        raise make_ambiguity_error(text, names)

    hint = suggest(text, {log.key for log in logs}, "`harness status` lists the runs of a grid")
    raise UserError(f"there is no log of '{text}' in {store.root}; {hint}")


def follow(
    log: StoredLog, store: Store, wait: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Yield the text of a log, and for a run in progress also each addition until the run ends.

    The file may be appended to, or replaced by a longer one that a worker sent. For a submitted
    job, the output kept by the batch system comes first.
    """
    if log.state == "submitted":
        yield from _follow_submitted(log, store, wait)
        log = find_log(store, log.fingerprint)

    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be half written
    failure_path = failed_log(store, log.fingerprint)
    failure_time = _read_time_written(failure_path)
    yielded = b""
    while True:
        is_over = (
            log.state != "unfinished"
            or not log.path.exists()
            or _read_time_written(failure_path) != failure_time
        )
        # looked at before the log is read: what was written until the end is then in it
        content = _read_final_log(log, store, yielded) if is_over else _read_log(store, log.path)
        addition = content[len(yielded) :]
        yield decoder.decode(addition)
        if is_over:
            return
        yielded += addition
        wait(FOLLOW_S)


def _follow_submitted(log: StoredLog, store: Store, wait: Callable[[float], None]) -> Iterator[str]:
    """Yield the batch system's output of a job until the job has a log of its own, or is over."""
    own_log = running_log(store, log.fingerprint)
    length = 0
    while read_submission(store, log.fingerprint) and not own_log.is_file():
        text = _read_text(store, log.path)
        yield text[length:]
        length = len(text)
        wait(FOLLOW_S)


def _read_final_log(log: StoredLog, store: Store, yielded: bytes) -> bytes:
    """The final log of a run that has ended, from the start of the text already yielded."""
    paths = [log.path, *store.root.glob(f"[!.]*/*/*/*/seed-*-{log.fingerprint[:16]}.log")]
    paths.append(failed_log(store, log.fingerprint))
    for path in paths:
        content = _read_log(store, path)
        if not content:
            continue
        if not yielded:
            return content
        # earlier sessions may stand before it
        start = content.rfind(yielded)
        if start >= 0:
            return content[start:]

    return yielded


def _read_log(store: Store, path: Path) -> bytes:
    try:
        return read_within(store.root, path)
    except OSError:
        return b""


def _read_text(store: Store, path: Path) -> str:
    return _read_log(store, path).decode("utf-8", "replace")


def _find_unfinished_logs(store: Store) -> Iterator[StoredLog]:
    for path in sorted((store.root / ".work").glob("*/run.log")):
        fingerprint = path.parent.name
        start = _START.search(_read_text(store, path))
        if start is None:
            continue

        # the failure's log is a copy of this one, until the run is tried again
        failure_path = failed_log(store, fingerprint)
        is_copy = failure_path.is_file() and failure_path.stat().st_size == path.stat().st_size
        state: LogState = "unfinished"
        if is_copy and read_submission(store, fingerprint) is None:
            state = "failed"
        yield StoredLog(start.group(1), state, fingerprint, path)


def _find_submitted_logs(store: Store) -> Iterator[StoredLog]:
    root = store.root.resolve()
    for name, note in read_submissions(store).items():
        # a note in a folder from someone else may name any file
        path = running_log(store, name)
        log = note.log.resolve()
        if log.is_relative_to(root):
            path = store.root / log.relative_to(root)
        yield StoredLog(note.key, "submitted", name, path)


def _find_failed_logs(store: Store) -> Iterator[StoredLog]:
    for failure in store.failures():
        path = failed_log(store, failure.fingerprint)
        if path.is_file():
            yield StoredLog(failure.spec.key, "failed", failure.fingerprint, path, failure.profile)


def _find_finished_logs(store: Store) -> Iterator[StoredLog]:
    for path in sorted(store.root.glob("[!.]*/*/*/*/seed-*.log")):
        match = _FINISHED.fullmatch(path.stem)
        if match is None or not path.is_file():
            continue
        seed, fingerprint = match.groups()
        profile, *names = path.parent.relative_to(store.root).parts
        key = "/".join([*map(unquote, names), seed])
        yield StoredLog(key, "finished", fingerprint, path, profile)


def _read_time_written(path: Path) -> int:
    """When a file was last written, in nanoseconds; 0 where it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
