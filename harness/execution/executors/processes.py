"""Several runs at a time, each in a worker process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from harness.execution.events import Event, Listener
from harness.execution.executors.base import Executor
from harness.execution.executors.job import Again, End, Job
from harness.execution.executors.queue import RETRY_S, Queue
from harness.execution.resources import Allocation
from harness.processors import cores, passive_threads


class Processes(Executor):
    """Keeps `options.jobs` worker processes busy. One that dies costs the run it had, not the others."""

    def work(self, queue: Queue, listen: Listener) -> None:
        """Assign jobs to idle workers and pass on their events until every job has ended."""
        workers = [
            _Worker.start(self.share) for _ in range(cores() if self.options.jobs == "auto" else self.options.jobs)
        ]
        try:
            while queue:
                for worker in workers:
                    worker.assign(queue)
                ready = wait([worker.channel for worker in workers], timeout=RETRY_S)
                workers = [worker.receive(queue, listen) if worker.channel in ready else worker for worker in workers]
        finally:
            for worker in workers:
                worker.process.terminate()
                worker.process.join()


@dataclass
class _Worker:
    """A worker process, the channel to it and the job it has."""

    process: SpawnProcess
    channel: Connection
    allocation: Allocation
    job: Job | None = None

    @classmethod
    def start(cls, allocation: Allocation) -> _Worker:
        passive_threads()
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, allocation), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, allocation)

    def assign(self, queue: Queue) -> None:
        """Send the next job to an idle worker."""
        if self.job is None:
            self.job = queue.take()
            if self.job is not None:
                with suppress(OSError):  # of a dead process; `receive` finds its channel closed
                    self.channel.send(self.job)

    def receive(self, queue: Queue, listen: Listener) -> _Worker:
        """Handle one message; return this worker, or a new one where the process died."""
        try:
            message: Event | End | Again = self.channel.recv()
        except (EOFError, OSError):
            return self._replaced(queue, listen)
        if isinstance(message, Event):
            listen(message)
        elif self.job is not None:
            queue.end(self.job, message)
            self.job = None
        return self

    def _replaced(self, queue: Queue, listen: Listener) -> _Worker:
        self.process.join()
        if self.job is not None:
            why = f"its process ended with code {self.process.exitcode}; a negative code is a signal (-9: killed)"
            queue.end(self.job, self.job.fail(why, listen))
        return _Worker.start(self.allocation)


def _serve(channel: Connection, allocation: Allocation) -> None:
    """Perform one job after the other and send events and ends, until the channel closes.

    The parent handles interrupts. A worker without a parent stops at once, as if killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def send(message: Event | End | Again) -> None:
        try:
            channel.send(message)
        except OSError:
            os._exit(1)

    while True:
        try:
            job: Job = channel.recv()
        except EOFError:
            return
        send(job.perform(allocation, send))
