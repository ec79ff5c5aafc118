"""Runs on this machine: one after another, or several at once in processes of their own.

Two commands on one results folder share the work: a run is done by whoever holds its lock, the
other takes the next one and comes back.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from typing import Any

from harness.errors import UserError
from harness.execution.inventory import Inventory
from harness.execution.plan import PlannedRun
from harness.execution.worker import Context, Event, Report, log_file, run_one
from harness.store import Failure, Result, Spec, Store

#: Seconds between two looks at runs that another process holds.
PATIENCE_S = 0.5


@dataclass
class Outcome:
    """Results of the runs of a plan, those done elsewhere meanwhile among them, and failures."""

    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def execute(runs: Sequence[PlannedRun], inventory: Inventory, context: Context, jobs: int, report: Report) -> Outcome:
    """Do all runs, `jobs` at a time; a failure is recorded and the others go on."""
    if jobs == 1:
        return _one_by_one(runs, inventory, context, report)
    return _Pool(runs, inventory, context, jobs, report).drain()


def attempt(run: PlannedRun, inventory: Inventory, context: Context, report: Report) -> Result | Failure | None:
    """Do one run under its lock; None when another process holds it."""
    store = Store(context.store)
    with store.lock(run.fingerprint) as mine:
        if not mine:
            return None
        try:
            found = store.find(inventory.profile.name, Spec.of(run.resolved.spec), run.fingerprint)
            if found and all(found.evaluated(suite, inventory.protocol(suite)) for suite in run.todo):
                report(Event("done", run.key, result=found))
                return found
            return run_one(run, inventory, context, report)
        except Exception as error:
            return failed(run, inventory, store, report, error)


def failed(run: PlannedRun, inventory: Inventory, store: Store, report: Report, error: Exception | str) -> Failure:
    """Record a failure and report it."""
    kind = "" if isinstance(error, UserError | str) else f"{type(error).__name__}: "
    failure = Failure(
        spec=Spec.of(run.resolved.spec),
        profile=inventory.profile.name,
        fingerprint=run.fingerprint,
        error=f"{kind}{error}",
        traceback="".join(traceback.format_exception(error)) if isinstance(error, Exception) else "",
        when=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    log = log_file(store, run)
    store.save_failure(failure, log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "")
    report(Event("failed", run.key, text=failure.error))
    return failure


def _one_by_one(runs: Sequence[PlannedRun], inventory: Inventory, context: Context, report: Report) -> Outcome:
    outcome, waiting, held = Outcome(), deque(runs), 0
    while waiting:
        run = waiting.popleft()
        ended = attempt(run, inventory, context, report)
        held = held + 1 if ended is None else 0
        if ended is None:
            waiting.append(run)
            if held >= len(waiting):
                time.sleep(PATIENCE_S)
        _sort(ended, outcome)
    return outcome


def _sort(ended: Result | Failure | None, outcome: Outcome) -> None:
    if isinstance(ended, Result):
        outcome.results.append(ended)
    elif isinstance(ended, Failure):
        outcome.failures.append(ended)


@dataclass
class _Worker:
    process: Any
    channel: Connection
    run: PlannedRun | None = None


class _Pool:
    """Worker processes that are given one run at a time. One that dies costs its run, not the others."""

    def __init__(
        self, runs: Sequence[PlannedRun], inventory: Inventory, context: Context, jobs: int, report: Report
    ) -> None:
        self.waiting, self.inventory, self.context, self.report = deque(runs), inventory, context, report
        self.outcome = Outcome()
        self.held = 0
        self.workers = [self._hire() for _ in range(min(jobs, len(runs)))]

    def drain(self) -> Outcome:
        try:
            while self._assign():
                ready = wait([w.channel for w in self.workers if w.run] or [], timeout=PATIENCE_S)
                for worker in list(self.workers):
                    if worker.channel in ready:
                        self._hear(worker)
        finally:
            for worker in self.workers:
                worker.process.terminate()
                worker.process.join()
        return self.outcome

    def _hire(self) -> _Worker:
        spawn = multiprocessing.get_context("spawn")
        mine, theirs = spawn.Pipe()
        process = spawn.Process(target=_serve, args=(theirs, self.inventory, self.context), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, mine)

    def _assign(self) -> bool:
        """Give each idle worker a run; False when all is done."""
        for worker in self.workers:
            run = self._next() if worker.run is None and self.held < len(self.waiting) else None
            if run is not None:
                self.waiting.remove(run)
                worker.run = run
                worker.channel.send(run)
        busy = any(worker.run for worker in self.workers)
        if not busy and self.waiting:
            time.sleep(PATIENCE_S)
        self.held = 0 if not busy else self.held
        return busy or bool(self.waiting)

    def _next(self) -> PlannedRun | None:
        """The first waiting run whose teachers are not still to be trained here."""
        ahead = [*self.waiting, *(worker.run for worker in self.workers if worker.run)]
        pending = {run.fingerprint for run in ahead}
        return next((run for run in self.waiting if not run.needs & pending), None)

    def _hear(self, worker: _Worker) -> None:
        try:
            message = worker.channel.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if isinstance(message, Event):
            self.report(message)
            return
        run, worker.run = worker.run, None
        if message is None and run is not None:
            self.waiting.append(run)
            self.held += 1
        else:
            self.held = 0
        _sort(message, self.outcome)

    def _bury(self, worker: _Worker) -> None:
        """A worker died: its run failed, and a new worker takes its place."""
        worker.process.join()
        if worker.run is not None:
            why = f"its process ended with code {worker.process.exitcode}; a negative code is a signal (-9: killed)"
            store = Store(self.context.store)
            self.outcome.failures.append(failed(worker.run, self.inventory, store, self.report, why))
        self.workers[self.workers.index(worker)] = self._hire()


def _serve(channel: Connection, inventory: Inventory, context: Context) -> None:
    """A worker's life: a run in, its events and its end out, until the channel closes.

    An interrupt is the parent's to handle; without a parent the worker stops where it is, as if killed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def send(message: Any) -> None:
        try:
            channel.send(message)
        except OSError:
            os._exit(1)

    while True:
        try:
            run = channel.recv()
        except EOFError:
            return
        send(attempt(run, inventory, context, send))
