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
    """Contents of files by path below a results folder, in the order of writing; files in `removed`
    were removed.
    """

    files: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


def pack_run(job: RunJob) -> RunFiles:
    """The files a run resumes from: its working folder and result, if there are any, and its
    teachers' models.
    """
    store = job.store
    paths = _list_whole_files(store.work(job.id))
    for teacher in job.run.experiment.teachers:
        folder = store.work(teacher.fingerprint)
        for path in _list_whole_files(folder):
            if path.relative_to(folder).parts[0] in _MODEL:
                paths.append(path)

    result = store.find(job.inventory.profile.name, job.spec, job.id)
    if result is not None:
        paths.append(store.path(result))

    contents = {}
    for path in paths:
        contents[path.relative_to(store.root).as_posix()] = read_regular(path, store.root)
    return RunFiles(contents)


def unpack(sent: RunFiles, store: Store) -> None:
    """Write and remove the files that were sent below a results folder."""
    for name, content in sent.files.items():
        write_bytes(store.root / name, content, store.root)
    for name in sent.removed:
        remove(store.root / name, store.root)


#: files to send to the driver; the last item is None or an error
Outbox = Queue[RunFiles | BaseException | None]


class Changes:
    """What is new below a results folder since the last look."""

    def __init__(self, store: Store) -> None:
        self._root = store.root
        self._stamps = self._read_stamps()
        self._next = 0.0

    def take(self) -> RunFiles | None:
        """The files that are new, changed or gone since the last call; None if there are none.

        To be called while no file is being written.
        """
        previous = self._stamps
        self._stamps = self._read_stamps()
        changed = [name for name, stamp in self._stamps.items() if previous.get(name) != stamp]
        removed = tuple(name for name in previous if name not in self._stamps)
        if not changed and not removed:
            return None

        # in the order of writing
        changed.sort(key=lambda name: (self._stamps[name], name))
        contents = {name: read_regular(self._root / name, self._root) for name in changed}
        return RunFiles(contents, removed)

    def send(self, outbox: Outbox) -> None:
        """Send what `take` finds."""
        start = time.monotonic()
        files = self.take()
        end = time.monotonic()
        self._next = end + max(PAUSE_S, (end - start) / READING)
        if files is not None:
            outbox.put(files)

    def send_at_times(self, outbox: Outbox) -> None:
        """Send what is new, unless that was done just now, or earlier files are still on their way."""
        if time.monotonic() >= self._next and not outbox.unfinished_tasks:
            self.send(outbox)

    def _read_stamps(self) -> dict[str, tuple[int, int]]:
        """The time of writing in nanoseconds and the inode number of each file, by path."""
        stamps = {}
        for path in _list_whole_files(self._root):
            name = path.relative_to(self._root)
            if name.parts[0] != ".locks":
                status = path.stat()
                stamps[name.as_posix()] = (status.st_mtime_ns, status.st_ino)
        return stamps


def receive(sent: RunFiles, store: Store) -> RunFiles:
    """Write the files of working folders that were sent; return the others, which `store_end` needs
    when the run ends.
    """
    in_work = dict[str, bytes]()
    beside = dict[str, bytes]()
    for name, content in sent.files.items():
        files = in_work if name.startswith(".work/") else beside
        files[name] = content
    unpack(replace(sent, files=in_work), store)
    return RunFiles(beside)


def store_end(end: End, rest: RunFiles, store: Store) -> End:
    """Store the end of a run that was carried out elsewhere: arrays, log, and then its result or
    failure.
    """
    logs = [content for name, content in rest.files.items() if name.endswith(".log")]
    log = logs[0].decode(errors="replace") if logs else ""
    if isinstance(end, Failure):
        store.save_failure(end, log)
    if not isinstance(end, Result):
        return end

    for name, content in rest.files.items():
        path = store.root / name
        if name.endswith(".npz") and not path.is_file():
            write_bytes(path, content, store.root)

    store.save_log(end, log)
    return store.save(end)


def _list_whole_files(folder: Path) -> list[Path]:
    """The files below a folder, without those that are only half written."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in paths if not _is_temporary(path.relative_to(folder)))


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
    difference = software.difference(Software.here())
    if difference:
        raise UserError(
            f"the node {socket.gethostname()} has other software than the driver: {difference}"
        )

    outbox = Outbox()
    arguments = (job, seat, report, files, outbox)
    with _stop_at_flag(stop_flag):
        yield RunFiles({})
        threading.Thread(target=_perform_in_thread, args=arguments, daemon=True).start()
        while (item := outbox.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
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
                own_job = replace(job, store=Store(Path(folder)))
                own_report = Report.of(own_job, report.path.stem)
                unpack(files, own_job.store)
                changes = Changes(own_job.store)
                perform(own_job, seat, own_report, lambda event: changes.send_at_times(outbox))
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
