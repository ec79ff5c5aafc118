"""Following jobs in SLURM while a command waits for them: their events, their ends, those that died."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from dataclasses import dataclass

from harness.errors import UserError
from harness.planning.events import Event, Listener
from harness.store import Result, Store
from harness.store.folder import Submission, forget_submission
from harness.work.end_file import read_end
from harness.work.event_file import EventReader
from harness.work.job import Again, End, Job, Prepared
from harness.work.preparation import Preparation
from harness.work.queue import Queue
from harness.work.run_job import RunJob
from harness.work.slurm_commands import NOT_ITS_FAULT, SlurmState, cancel, last_state, states
from harness.work.slurm_task import events_path

log = logging.getLogger(__name__)

#: Seconds between two questions to SLURM, which serves everybody, and between two looks at files of jobs at work.
ASK_S, LOOK_S = 10.0, 1.0
#: Jobs in SLURM that may die under a run before it counts as failed.
DEATHS = 3
#: Answers of SLURM in which a job must have ended, before it counts as dead without a result: files take their time.
ABSENT = 2


@dataclass(eq=False)
class _Out:
    """A job in SLURM that this command waits for. `told`: its end was passed on."""

    job: Job
    note: Submission
    events: EventReader
    state: SlurmState
    told: bool = False
    absent: int = 0


class SlurmWatch:
    """Follows the jobs of a queue until they end."""

    def __init__(
        self,
        queue: Queue,
        listen: Listener,
        store: Store,
        notes: dict[str, Submission],
        again: Callable[[Job], Submission],
    ) -> None:
        """`notes` are those on the jobs that are in SLURM; `again` submits one more."""
        self.queue, self.listen, self.store, self.notes, self.again = queue, listen, store, notes, again
        self._out: dict[str, _Out] = {}
        self._deaths: dict[str, int] = {}
        self._asked = float("-inf")
        self._stopped = False

    def look(self) -> None:
        """Take jobs that can start, pass on events, and report ends."""
        while (job := self.queue.take()) is not None:
            self._follow(job)
        fresh = time.monotonic() - self._asked >= ASK_S
        if fresh:
            self._ask()
        for out in list(self._out.values()):
            if out.state.waits:
                continue
            self._pass_on(out)
            if out.told or out.state.ended:
                self._end(out, fresh)

    def stop(self) -> None:
        """Take back the jobs that wait; ask those at work to save and end."""
        if self._stopped:
            return
        self._stopped = True
        self._ask()
        working = {name for name, out in self._out.items() if not out.state.waits}
        cancel((self.notes[name].id for name in working), signal="INT")
        self._take_back(self.notes.keys() - working)
        for name, out in list(self._out.items()):
            if name not in working:
                self._put_back(out, Again.STOPPED)

    def cancel(self) -> None:
        """End everything that is in SLURM, at once."""
        self._take_back(set(self.notes))

    def _take_back(self, names: Set[str]) -> None:
        """Cancel jobs in SLURM."""
        cancel(self.notes[name].id for name in names)
        for name in names:
            forget_submission(self.store, name, self.notes.pop(name).id)

    def _follow(self, job: Job) -> None:
        """Wait for a job where SLURM has it, else look for its end elsewhere, or submit it."""
        note = self.notes.get(job.id)
        if note is None:
            end = self._elsewhere(job)
            if end is not None:
                self.queue.end(job, end)
                return
            try:
                note = self.notes[job.id] = self.again(job)
            except UserError as error:
                self.queue.end(job, job.fail(error, self.listen))
                return
        self._out[job.id] = _Out(job, note, EventReader(events_path(job.store, job.id)), SlurmState("PENDING"))

    def _elsewhere(self, job: Job) -> End | Again | None:
        """How a job ended that is not in SLURM; None where it did not."""
        if isinstance(job, Preparation) and job.id not in self._deaths:  # made earlier: no run needs it in SLURM
            self.listen(Event("prepared", job.key))
            return Prepared(job.id)
        if isinstance(job, RunJob) and (found := job.finished()):
            self.listen(Event("done", job.key, result=found))
            return found
        with job.store.lock(job.id) as free:
            return None if free else Again.HELD

    def _ask(self) -> None:
        """Ask SLURM where all jobs are; where it does not answer, nothing has changed."""
        self._asked = time.monotonic()
        try:
            found = states()
        except UserError as error:
            log.warning("%s; still waiting", error)
            return
        for out in self._out.values():
            out.state = found.get(out.note.id, SlurmState("UNKNOWN"))

    def _pass_on(self, out: _Out) -> None:
        for event in out.events:
            self.listen(event)
            out.told |= event.run == out.job.key and event.kind in ("done", "failed", "prepared")

    def _end(self, out: _Out, fresh: bool) -> None:
        """Report the end of a job that is over, once its files tell."""
        found = read_end(out.job.store, out.job.id, out.note.id)
        if isinstance(found, Again):
            self._put_back(out, found)
        elif isinstance(found, str):
            self._close(out, out.job.fail(f"{found} (log: {out.note.log})", self.listen))
        elif found is not None:
            self._pass_on(out)
            if not out.told:  # a file of another node that is not seen yet
                self.listen(_last_event(out.job, found))
            self._close(out, found)
        elif out.state.ended and fresh:
            out.absent += 1
            if out.absent >= ABSENT:
                self._mourn(out)

    def _mourn(self, out: _Out) -> None:
        """Submit a job again that SLURM ended without a fault of its own; another failed."""
        name, state = out.job.id, last_state(out.note.id) or out.state.state
        self._deaths[name] = self._deaths.get(name, 0) + 1
        if isinstance(out.job, RunJob) and (found := out.job.finished()):
            self._close(out, found)
        elif self.queue.stopping:
            self._put_back(out, Again.STOPPED)
        elif state in NOT_ITS_FAULT and self._deaths[name] < DEATHS:
            log.warning("%s: SLURM ended the job %s (%s); submitting it again", out.job.key, out.note.id, state)
            self._put_back(out, Again.LOST)
        else:
            self._close(out, out.job.fail(death(out.note, state), self.listen))

    def _put_back(self, out: _Out, again: Again) -> None:
        """Put a job back into the queue; those that need it, which would find nothing, are submitted again after it."""
        self._forget(out)
        self.queue.end(out.job, again)
        lost = {out.job.id}
        for job in self.queue.waiting:
            if job.needs & lost:
                lost.add(job.id)
        self._take_back(lost & self.notes.keys())

    def _close(self, out: _Out, end: End) -> None:
        self._forget(out)
        events_path(out.job.store, out.job.id).unlink(missing_ok=True)
        self.queue.end(out.job, end)

    def _forget(self, out: _Out) -> None:
        del self._out[out.job.id]
        self.notes.pop(out.job.id, None)
        forget_submission(self.store, out.job.id, out.note.id)


def death(note: Submission, state: str) -> str:
    """A description of a job that ended without a result."""
    return f"the SLURM job {note.id} ended without a result ({state or 'unknown state'}); log: {note.log}"


def _last_event(job: Job, end: End) -> Event:
    if isinstance(end, Result):
        return Event("done", job.key, result=end)
    return Event("prepared" if isinstance(end, Prepared) else "failed", job.key, error=end.error)
