"""The work of a Ray worker: one job, which reports into the results folder, or sends files for it.

Files of runs travel between the results folder and a machine that does not see it: to the node, the checkpoint,
best model and teachers; back, these when they change, the job's report, and finally the result.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray

from harness.errors import UserError
from harness.events import Event
from harness.files import write_bytes
from harness.runs.environment import Seat, Software
from harness.stopping import request_stop, withdraw_stop
from harness.store import Failure, Result, Store
from harness.work.job import End, Job, RunJob
from harness.work.report import REPORT, Report, perform

#: The files of a teacher's work folder that its students need.
_MODEL = ("best", "trained.json")


@dataclass(frozen=True)
class RunFiles:
    """Contents of files by path below a results folder, in the order of writing; files in `gone` were removed.

    `lines` are to be appended to files that only grow.
    """

    files: Mapping[str, bytes]
    gone: tuple[str, ...] = ()
    lines: Mapping[str, bytes] = field(default_factory=dict)


def outgoing(job: RunJob) -> RunFiles:
    """The files a run resumes from: its working folder and result, if there are any, and its teachers' models."""
    store = job.store
    files = _files(store.work(job.id))
    for teacher in job.run.experiment.teachers:
        folder = store.work(teacher.fingerprint)
        files += [path for path in _files(folder) if path.relative_to(folder).parts[0] in _MODEL]
    finished = store.find(job.inventory.profile.name, job.spec, job.id)
    if finished is not None:
        files.append(store.path(finished))
    return RunFiles({path.relative_to(store.root).as_posix(): path.read_bytes() for path in files})


def unpack(sent: RunFiles, store: Store) -> None:
    """Write and remove the files that were sent below a results folder."""
    for name, content in sent.lines.items():
        path = store.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as stream:
            stream.write(content)
    for name, content in sent.files.items():
        write_bytes(store.root / name, content)
    for name in sent.gone:
        (store.root / name).unlink(missing_ok=True)


class Changes:
    """What is new below a results folder since the last look."""

    def __init__(self, store: Store) -> None:
        self._root = store.root
        self._seen = self._state()
        self._sent = dict[str, int]()

    def take(self) -> RunFiles | None:
        """The files that are new, changed or gone since the last call; None if there are none.

        To be called while no file is being written.
        """
        before, self._seen = self._seen, self._state()
        changed = sorted((stamp, name) for name, stamp in self._seen.items() if before.get(name) != stamp)
        gone = tuple(name for name in before if name not in self._seen)
        if not changed and not gone:
            return None
        grown = [name for _, name in changed if name.endswith(REPORT)]
        files = {name: (self._root / name).read_bytes() for _, name in changed if name not in grown}
        return RunFiles(files, gone, {name: self._added(name) for name in grown})

    def _added(self, name: str) -> bytes:
        content = (self._root / name).read_bytes()[self._sent.get(name, 0) :]
        self._sent[name] = self._sent.get(name, 0) + len(content)
        return content

    def _state(self) -> dict[str, tuple[int, int]]:
        """The time of writing in nanoseconds and the inode number of each file, by path."""
        stamps = {path: path.stat() for path in _files(self._root)}
        return {
            path.relative_to(self._root).as_posix(): (stamp.st_mtime_ns, stamp.st_ino)
            for path, stamp in stamps.items()
            if path.relative_to(self._root).parts[0] != ".locks"
        }


def receive(sent: RunFiles, store: Store) -> RunFiles:
    """Write the files of working folders that were sent; return the others, which `deliver` needs when the run ends."""
    working = {name: content for name, content in sent.files.items() if name.startswith(".work/")}
    unpack(replace(sent, files=working), store)
    return RunFiles({name: content for name, content in sent.files.items() if name not in working})


def deliver(end: End, rest: RunFiles, store: Store) -> End:
    """Store the end of a run that was carried out elsewhere: arrays, log, and then its result or failure."""
    log = next((content.decode(errors="replace") for name, content in rest.files.items() if name.endswith(".log")), "")
    if isinstance(end, Failure):
        store.save_failure(end, log)
    elif isinstance(end, Result):
        for name, content in rest.files.items():
            if name.endswith(".npz") and not (store.root / name).is_file():
                write_bytes(store.root / name, content)
        store.save_log(end, log)
        return store.save(end)
    return end


def _files(folder: Path) -> list[Path]:
    """The files below a folder, without those that are only half written."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not _temporary(path.relative_to(folder)))


def _temporary(path: Path) -> bool:
    return any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)


#: Largest fraction of a run's time spent reading files for the driver, and least seconds between two readings.
READING, PAUSE_S = 0.05, 1.0


def serve(
    job: Job, seat: Seat, software: Software, report: Report, files: RunFiles | None, stop_flag: Any
) -> Iterator[RunFiles]:
    """Perform the job in a thread and yield files for the driver; the first is empty and shows that the job started.

    `software` is the driver's. `files` is what the job continues from; None where this node sees the results folder.
    Once the `stop_flag` (a handle of the actor) is set, the job saves and stops. Raises UserError where the software
    here is not the driver's.
    """
    if difference := software.difference(Software.here()):
        raise UserError(f"the node {socket.gethostname()} has other software than the driver: {difference}")
    sender = _Sender()
    with _stops_at(stop_flag):
        yield RunFiles({})
        threading.Thread(target=_perform, args=(job, seat, report, files, sender), daemon=True).start()
        while (sent := sender.sent.get()) is not None:
            if isinstance(sent, BaseException):
                raise sent
            yield sent
            sender.under_way = False


def _perform(job: Job, seat: Seat, report: Report, files: RunFiles | None, sender: _Sender) -> None:
    """Perform the job in the shared results folder, or in a temporary one with the files sent."""
    try:
        if files is None:
            perform(job, seat, report)
        else:
            with tempfile.TemporaryDirectory(prefix="harness-run-") as folder:
                own = replace(job, store=Store(Path(folder)))
                unpack(files, own.store)
                sender.changes = Changes(own.store)
                perform(own, seat, Report.of(own, report.path.stem), sender.listen)
                sender.send_files()
        sender.sent.put(None)
    except BaseException as error:  # the main thread raises it
        sender.sent.put(error)


class _Sender:
    """Sends changed files to the driver when the job reports something, unless earlier ones are still being sent."""

    def __init__(self) -> None:
        #: files to send; the last item is None or an error
        self.sent: SimpleQueue[RunFiles | BaseException | None] = SimpleQueue()
        self.changes: Changes | None = None
        self.under_way = False
        self._next = 0.0

    def listen(self, event: Event) -> None:
        if time.monotonic() >= self._next and not self.under_way:
            self.send_files()

    def send_files(self) -> None:
        before = time.monotonic()
        files = self.changes.take() if self.changes else None
        after = time.monotonic()
        self._next = after + max(PAUSE_S, (after - before) / READING)
        if files is not None:
            self.under_way = True
            self.sent.put(files)


@contextmanager
def _stops_at(stop_flag: Any) -> Iterator[None]:
    """Ask this process to stop once the flag is set. No thread waits: one in `ray.get` would give back the cores."""
    withdraw_stop()
    waiting = stop_flag.wait.remote()

    def stop(future: Future[None]) -> None:
        if not future.cancelled() and future.exception() is None:
            request_stop()

    waiting.future().add_done_callback(stop)
    try:
        yield
    finally:
        ray.cancel(waiting)
