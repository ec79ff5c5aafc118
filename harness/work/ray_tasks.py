"""The tasks of a driver in a Ray cluster: sent, followed, and sent again where their worker died."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.errors import PlugInError, UserError, first_line
from harness.planning.events import Event, Listener
from harness.runs.resources import Allocation
from harness.work.bell import Bell
from harness.work.faults import sending
from harness.work.job import Again, Job, Prepared
from harness.work.parcels import Parcel, deliver, outgoing, receive
from harness.work.queue import Queue
from harness.work.ray_cluster import worker_environment
from harness.work.ray_worker import Errand, Letter, Started, serve
from harness.work.run_job import RunJob
from harness.work.software import Software
from harness.work.time_limit import GRACE_S, TimeLimitError

log = logging.getLogger(__name__)

#: Workers that may die under a job before it counts as failed: it may be what kills them.
DEATHS = 3


@dataclass(eq=False)
class _Task:
    """A job that was sent out. `held` has its lock where the results folder is not shared."""

    job: Job
    messages: Any
    held: ExitStack
    host: str = ""
    started: float = math.inf
    rest: Parcel = field(default_factory=lambda: Parcel({}))


class Tasks:
    """Jobs in the cluster."""

    def __init__(
        self,
        queue: Queue,
        listen: Listener,
        cpus: int,
        part_of_gpu: Callable[[int], float],
        memory: float,
        *,
        shared: bool,
    ) -> None:
        """`part_of_gpu` gives the part that a job with so many MB of GPU memory gets; `memory` is all of a node's."""
        self.queue, self.listen, self.shared = queue, listen, shared
        self._cpus, self._part_of_gpu, self._memory = cpus, part_of_gpu, memory
        plain: dict[str, Any] = {
            "max_retries": 0,
            "num_returns": "streaming",
            "_generator_backpressure_num_objects": 1,
        }
        # a process that used a GPU ends with its task, and its memory is free
        self._serve = {False: ray.remote(**plain)(serve), True: ray.remote(max_calls=1, **plain)(serve)}
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        # as many may wait for it as there are runs
        self._bell = ray.remote(num_cpus=0, max_concurrency=100_000)(Bell).options(scheduling_strategy=here).remote()
        self._software = Software.here()
        self._tasks: dict[Any, _Task] = {}
        self._deaths: dict[str, int] = {}
        #: jobs that were out of memory beside others on a GPU
        self._alone: set[str] = set()
        self._rung = False

    def send(self, limit: int) -> None:
        """Send out jobs that can start, until `limit` of them are out."""
        while len(self._tasks) < limit and (job := self.queue.take()) is not None:
            if self.shared:
                self._send(job, ExitStack(), None)
            elif isinstance(job, RunJob):
                self._send_with_files(job)
            else:  # a cache of another machine would be of no use: each makes its own when a run needs it
                self.listen(Event("prepared", job.key))
                self.queue.end(job, Prepared(job.id))

    def attend(self, timeout: float) -> bool:
        """Wait for messages and handle one of each job; say whether a job ended."""
        if not self._tasks:
            time.sleep(timeout if self.queue else 0)
            return False
        before, waited = len(self._tasks), list(self._tasks)
        ready, _ = ray.wait(waited, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = ray.wait(waited, num_returns=len(waited), timeout=0)
        for messages in ready:
            self._receive(self._tasks[messages])
        for task in list(self._tasks.values()):
            self._end_if_late(task)
        return len(self._tasks) < before

    def stop(self) -> None:
        """Ask jobs at work to save and stop; take back those that wait in Ray's queue."""
        if not self._rung:
            self._rung = True
            self._bell.ring.remote()
        for task in [task for task in self._tasks.values() if not task.host]:
            ray.cancel(task.messages)
            self._put_back(task, Again.STOPPED)

    def cancel(self) -> None:
        """End what is still out, at once."""
        for task in self._tasks.values():
            ray.cancel(task.messages, force=True)
            task.held.close()
        ray.kill(self._bell)

    def _send_with_files(self, job: RunJob) -> None:
        """Send a run under its lock, which this process holds for it, with what it continues from."""
        held = ExitStack()
        if held.enter_context(job.store.lock(job.id)):
            self._send(job, held, ray.put(outgoing(job)))
        else:
            held.close()
            self.queue.end(job, Again.HELD)

    def _send(self, job: Job, held: ExitStack, parcel: Any) -> None:
        need = self.queue.resources(job)
        part = self._part_of_gpu(need.gpu_memory_mb)
        if part and job.id in self._alone:
            part = 1.0
        allocation = Allocation("cuda" if part else "cpu", self._cpus, gpu_share=part or 1.0)
        task = self._serve[part > 0].options(
            name=job.key,
            num_cpus=self._cpus,
            num_gpus=part,
            memory=int(min(need.memory_mb * 1e6, self._memory)),
            runtime_env={"env_vars": worker_environment(allocation.threads, on_gpu=part > 0)},
        )
        try:
            with sending():
                messages = task.remote(Errand(job, allocation, self._software, self.shared), parcel, self._bell)
        except PlugInError as error:
            held.close()
            self.queue.end(job, job.fail(error, self.listen))
            return
        self._tasks[messages] = _Task(job, messages, held)

    def _receive(self, task: _Task) -> None:
        try:
            message: Letter = ray.get(next(task.messages))
        except StopIteration:
            self._mourn(task, "it ended without an error message")
        except ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", error)
            text = str(cause) if isinstance(cause, UserError) else f"{type(cause).__name__}: {first_line(cause)}"
            self._close(task)
            self.queue.end(task.job, task.job.fail(text, self.listen))
        except ray.exceptions.RayError as error:
            self._mourn(task, first_line(error).partition(". ")[0])
        else:
            self._handle(task, message)

    def _handle(self, task: _Task, message: Letter) -> None:
        job = task.job
        if isinstance(message, Started):
            task.host, task.started = message.host, time.monotonic()
        elif isinstance(message, Event):
            self.listen(message)
        elif isinstance(message, Parcel):
            task.rest = receive(message, job.store)
        elif isinstance(message, Again):
            if message is Again.MEMORY:
                self._alone.add(job.id)
            self._put_back(task, message)
        else:
            end = message if self.shared else deliver(message, task.rest, job.store)
            self._close(task)
            self.queue.end(job, end)

    def _mourn(self, task: _Task, why: str) -> None:
        """Send a job out again whose worker or node died, unless too many did under it."""
        job = task.job
        deaths = self._deaths[job.id] = self._deaths.get(job.id, 0) + 1
        if deaths < DEATHS:
            where = f" on {task.host}" if task.host else ""
            log.warning("%s: the worker%s died (%s); another one resumes from the last checkpoint", job.key, where, why)
            self._put_back(task, Again.LOST)
        else:
            self._close(task)
            self.queue.end(job, job.fail(f"{deaths} workers died while running it; the last one: {why}", self.listen))

    def _end_if_late(self, task: _Task) -> None:
        """End a task that hangs after its limit and does not react."""
        limit = task.job.limit_s
        if limit is not None and time.monotonic() - task.started > limit + GRACE_S:
            ray.cancel(task.messages, force=True)
            self._close(task)
            self.queue.end(task.job, task.job.fail(TimeLimitError(limit), self.listen))

    def _put_back(self, task: _Task, again: Again) -> None:
        self._close(task)
        self.queue.end(task.job, again)

    def _close(self, task: _Task) -> None:
        del self._tasks[task.messages]
        task.held.close()
