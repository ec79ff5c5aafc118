"""The work of a Ray worker: one job, which reports into the results folder, or sends files for it.

Files of runs travel between the results folder and a machine that does not see it: to the node, the
checkpoint, best model and teachers; back, these when they change, the job's report, and finally the
result.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue
from typing import Any

import ray

from harness.errors import UserError
from harness.files import read_regular, remove, write_bytes
from harness.runs.execution import Seat, Software
from harness.stopping import request_stop, withdraw_stop
from harness.store import Failure, Result, Store
from harness.work.job import End, Job, RunJob
from harness.work.report import Report, perform

#: The files of a teacher's work folder that its students need.
_MODEL = ("best", "trained.json")
#: Largest fraction of a run's time spent reading files for the driver, and least seconds between
#: two readings.
READING = 0.05
PAUSE_S = 1.0


@dataclass(frozen=True)
class RunFiles:
    """Contents of files by path below a results folder, in the order of writing; files in `gone`
    were removed.
    """

    files: Mapping[str, bytes]
    gone: tuple[str, ...] = ()


def pack_run(job: RunJob) -> RunFiles:
    """The files a run resumes from: its working folder and result, if there are any, and its
    teachers' models.
    """
    store = job.store
    files = _list_whole_files(store.work(job.id))
    for teacher in job.run.experiment.teachers:
        folder = store.work(teacher.fingerprint)
        files += [
            path
            for path in _list_whole_files(folder)
            if path.relative_to(folder).parts[0] in _MODEL
        ]
    finished = store.find(job.inventory.profile.name, job.spec, job.id)
    if finished is not None:
        files.append(store.path(finished))
    return RunFiles(
        {path.relative_to(store.root).as_posix(): read_regular(path, store.root) for path in files}
    )


def unpack(sent: RunFiles, store: Store) -> None:
    """Write and remove the files that were sent below a results folder."""
    for name, content in sent.files.items():
        write_bytes(store.root / name, content, store.root)
    for name in sent.gone:
        remove(store.root / name, store.root)


#: files to send to the driver; the last item is None or an error
Outbox = Queue[RunFiles | BaseException | None]


class Changes:
    """What is new below a results folder since the last look."""

    def __init__(self, store: Store) -> None:
        self._root = store.root
        self._seen = self._read_stamps()
        self._next = 0.0

    def take(self) -> RunFiles | None:
        """The files that are new, changed or gone since the last call; None if there are none.

        To be called while no file is being written.
        """
        before = self._seen
        self._seen = self._read_stamps()
        changed = sorted(
            (stamp, name) for name, stamp in self._seen.items() if before.get(name) != stamp
        )
        gone = tuple(name for name in before if name not in self._seen)
        if not changed and not gone:
            return None
        contents = {name: read_regular(self._root / name, self._root) for _, name in changed}
        return RunFiles(contents, gone)

    def send(self, outbox: Outbox) -> None:
        """Send what `take` finds."""
        before = time.monotonic()
        files = self.take()
        after = time.monotonic()
        self._next = after + max(PAUSE_S, (after - before) / READING)
        if files is not None:
            outbox.put(files)

    def send_at_times(self, outbox: Outbox) -> None:
        """Send what is new, unless that was done just now, or earlier files are still on their way."""
        if time.monotonic() >= self._next and not outbox.unfinished_tasks:
            self.send(outbox)

    def _read_stamps(self) -> dict[str, tuple[int, int]]:
        """The time of writing in nanoseconds and the inode number of each file, by path."""
        stamps = {path: path.stat() for path in _list_whole_files(self._root)}
        return {
            path.relative_to(self._root).as_posix(): (stamp.st_mtime_ns, stamp.st_ino)
            for path, stamp in stamps.items()
            if path.relative_to(self._root).parts[0] != ".locks"
        }


def receive(sent: RunFiles, store: Store) -> RunFiles:
    """Write the files of working folders that were sent; return the others, which `store_end` needs
    when the run ends.
    """
    working = {name: content for name, content in sent.files.items() if name.startswith(".work/")}
    unpack(replace(sent, files=working), store)
    return RunFiles({name: content for name, content in sent.files.items() if name not in working})


def store_end(end: End, rest: RunFiles, store: Store) -> End:
    """Store the end of a run that was carried out elsewhere: arrays, log, and then its result or
    failure.
    """
    log = next(
        (
            content.decode(errors="replace")
            for name, content in rest.files.items()
            if name.endswith(".log")
        ),
        "",
    )
    if isinstance(end, Failure):
        store.save_failure(end, log)
    elif isinstance(end, Result):
        for name, content in rest.files.items():
            if name.endswith(".npz") and not (store.root / name).is_file():
                write_bytes(store.root / name, content, store.root)
        store.save_log(end, log)
        return store.save(end)
    return end


def _list_whole_files(folder: Path) -> list[Path]:
    """The files below a folder, without those that are only half written."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not _is_temporary(path.relative_to(folder))
    )


def _is_temporary(path: Path) -> bool:
    return any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)


def serve(
    job: Job, seat: Seat, software: Software, report: Report, files: RunFiles | None, stop_flag: Any
) -> Iterator[RunFiles]:
    """Perform the job in a thread and yield files for the driver; the first is empty and shows that
    the job started.

    `software` is the driver's. `files` is what the job continues from; None where this node sees
    the results folder. Once the `stop_flag` (a handle of an `asyncio.Event`) is set, the job saves
    and stops. Raises UserError where the software here is not the driver's.
    """
    if difference := software.difference(Software.here()):
        raise UserError(
            f"the node {socket.gethostname()} has other software than the driver: {difference}"
        )
    outbox = Outbox()
    with _stop_at_flag(stop_flag):
        yield RunFiles({})
        threading.Thread(
            target=_perform_in_thread, args=(job, seat, report, files, outbox), daemon=True
        ).start()
        while (sent := outbox.get()) is not None:
            if isinstance(sent, BaseException):
                raise sent
            yield sent
            outbox.task_done()


def _perform_in_thread(
    job: Job, seat: Seat, report: Report, files: RunFiles | None, outbox: Outbox
) -> None:
    """Perform the job in the shared results folder, or in a temporary one with the files sent."""
    try:
        if files is None:
            perform(job, seat, report)
        else:
            with tempfile.TemporaryDirectory(prefix="harness-run-") as folder:
                own = replace(job, store=Store(Path(folder)))
                unpack(files, own.store)
                changes = Changes(own.store)
                perform(
                    own,
                    seat,
                    Report.of(own, report.path.stem),
                    lambda event: changes.send_at_times(outbox),
                )
                changes.send(outbox)
        outbox.put(None)
    except BaseException as error:  # the main thread raises it
        outbox.put(error)


@contextmanager
def _stop_at_flag(stop_flag: Any) -> Iterator[None]:
    """Ask this process to stop once the flag is set. No thread waits: one in `ray.get` would give
    back the cores.
    """
    withdraw_stop()
    waiting = stop_flag.wait.remote()

    def stop(future: Future[bool]) -> None:
        if not future.cancelled() and future.exception() is None:
            request_stop()

    waiting.future().add_done_callback(stop)
    try:
        yield
    finally:
        ray.cancel(waiting)
