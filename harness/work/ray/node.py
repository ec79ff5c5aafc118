"""The work of a Ray worker: one job, which reports into the results folder, or into parcels for it."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray

from harness.errors import UserError
from harness.planning.events import Event
from harness.runs.resources import Allocation
from harness.stopping import request_stop, withdraw_stop
from harness.store import Store
from harness.work.job import Job
from harness.work.ray.parcels import Changes, Parcel, unpack
from harness.work.reports import Report, perform
from harness.work.software import Software

#: Reading the files that are sent to the driver may take this part of a run's time; at least so many seconds apart.
READING, PAUSE_S = 0.05, 1.0


@dataclass(frozen=True)
class Errand:
    """A job as it is sent out, with the number of its report.

    `software` is the driver's; `shared` says whether the node sees the results folder.
    """

    job: Job
    allocation: Allocation
    number: str
    software: Software
    shared: bool


def serve(errand: Errand, parcel: Parcel | None, bell: Any) -> Iterator[Parcel]:
    """Perform the job in a thread and yield files for the driver: first none, which says that the job has started.

    Once the `bell` (a handle of the actor) is rung, the job saves and stops. Raises UserError where the software here
    is not the driver's.
    """
    if difference := errand.software.difference(Software.here()):
        raise UserError(f"the node {socket.gethostname()} has other software than the driver: {difference}")
    parcels: SimpleQueue[Parcel | BaseException | None] = SimpleQueue()
    sender = _Sender(parcels)
    with _stops_at(bell):
        yield Parcel({})
        threading.Thread(target=_perform, args=(errand, parcel, sender), daemon=True).start()
        while (sent := parcels.get()) is not None:
            if isinstance(sent, BaseException):
                raise sent
            yield sent
            sender.delivered()


def _perform(errand: Errand, parcel: Parcel | None, sender: _Sender) -> None:
    """Perform the job on the shared results folder, or in one of its own."""
    job = errand.job
    try:
        if errand.shared:
            perform(job, errand.allocation, Report.of(job.store, job.id, errand.number))
        else:
            with tempfile.TemporaryDirectory(prefix="harness-run-") as folder:
                store = Store(Path(folder))
                unpack(parcel or Parcel({}), store)
                sender.changes = Changes(store)
                report = Report.of(store, job.id, errand.number)
                perform(replace(job, store=store), errand.allocation, report, sender.hear)
                sender.send_files()
        sender.parcels.put(None)
    except BaseException as error:  # the main thread raises it
        sender.parcels.put(error)


class _Sender:
    """Sends changed files to the driver when the job reports something, unless earlier ones are still being sent."""

    def __init__(self, parcels: SimpleQueue[Parcel | BaseException | None]) -> None:
        self.parcels = parcels
        self.changes: Changes | None = None
        self._next = 0.0
        self._under_way = threading.Event()

    def hear(self, event: Event) -> None:
        """Send files, if it is time."""
        if time.monotonic() >= self._next and not self._under_way.is_set():
            self.send_files()

    def delivered(self) -> None:
        """Note that the last files have arrived."""
        self._under_way.clear()

    def send_files(self) -> None:
        """Send all that the driver does not have yet."""
        before = time.monotonic()
        parcel = self.changes.take() if self.changes else None
        after = time.monotonic()
        self._next = after + max(PAUSE_S, (after - before) / READING)
        if parcel is not None:
            self._under_way.set()
            self.parcels.put(parcel)


@contextmanager
def _stops_at(bell: Any) -> Iterator[None]:
    """Ask this process to stop once the bell is rung. No thread waits: one in `ray.get` would give back the cores."""
    withdraw_stop()
    rung = bell.heard.remote()

    def stop(future: Future[None]) -> None:
        if not future.cancelled() and future.exception() is None:
            request_stop()

    rung.future().add_done_callback(stop)
    try:
        yield
    finally:
        ray.cancel(rung)
