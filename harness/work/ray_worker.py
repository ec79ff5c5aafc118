"""The work of a Ray worker: one job, whose messages it yields as they arrive."""

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
from harness.store import Failure, Result, Store
from harness.work.job import Again, End, Job, Prepared
from harness.work.parcels import Changes, Parcel, unpack
from harness.work.software import Software

#: Reading the files that are sent to the driver may take this part of a run's time; at least so many seconds apart.
READING, PAUSE_S = 0.05, 1.0


@dataclass(frozen=True)
class Started:
    """The first message of a job: it left Ray's queue, and is on this host."""

    host: str


Letter = Started | Event | Parcel | End | Again


@dataclass(frozen=True)
class Errand:
    """A job as it is sent out. `software` is the driver's; `shared` says whether the results folder is seen there."""

    job: Job
    allocation: Allocation
    software: Software
    shared: bool


def serve(errand: Errand, parcel: Parcel | None, bell: Any) -> Iterator[Letter]:
    """Perform the job in a thread and yield its messages, the last of which is its end.

    Once the `bell` (a handle of the actor) is rung, the job saves and stops. Raises UserError where the software here
    is not the driver's.
    """
    if difference := errand.software.difference(Software.here()):
        raise UserError(f"the node {socket.gethostname()} has other software than the driver: {difference}")
    messages: SimpleQueue[Letter | BaseException] = SimpleQueue()
    sender = _Sender(messages)
    with _stops_at(bell):
        yield Started(socket.gethostname())
        threading.Thread(target=_perform, args=(errand, parcel, sender), daemon=True).start()
        while True:
            message = messages.get()
            if isinstance(message, BaseException):
                raise message
            yield message
            if isinstance(message, Parcel):
                sender.delivered()
            if isinstance(message, Result | Failure | Prepared | Again):
                return


def _perform(errand: Errand, parcel: Parcel | None, sender: _Sender) -> None:
    """Perform the job on the shared results folder, or in one of its own."""
    try:
        if errand.shared:
            sender.messages.put(errand.job.perform(errand.allocation, sender.messages.put))
            return
        with tempfile.TemporaryDirectory(prefix="harness-run-") as folder:
            store = Store(Path(folder))
            unpack(parcel or Parcel({}), store)
            sender.changes = Changes(store)
            end = replace(errand.job, store=store).perform(errand.allocation, sender.send)
            sender.last(end)
    except BaseException as error:  # the main thread raises it
        sender.messages.put(error)


class _Sender:
    """Sends events to the driver, and with them changed files, unless earlier files are still being sent."""

    def __init__(self, messages: SimpleQueue[Letter | BaseException]) -> None:
        self.messages = messages
        self.changes: Changes | None = None
        self._next = 0.0
        self._under_way = threading.Event()

    def send(self, event: Event) -> None:
        """Send an event; before it files, if it is time."""
        if time.monotonic() >= self._next and not self._under_way.is_set():
            self._send_files()
        self.messages.put(event)

    def last(self, end: End | Again) -> None:
        """Send all files that the driver does not have yet, and the end."""
        self._send_files()
        self.messages.put(end)

    def delivered(self) -> None:
        """Note that the last files have arrived."""
        self._under_way.clear()

    def _send_files(self) -> None:
        before = time.monotonic()
        parcel = self.changes.take() if self.changes else None
        after = time.monotonic()
        self._next = after + max(PAUSE_S, (after - before) / READING)
        if parcel is not None:
            self._under_way.set()
            self.messages.put(parcel)


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
