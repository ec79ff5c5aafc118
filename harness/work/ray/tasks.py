"""The tasks of a driver in a Ray cluster: sent, followed, and sent again where their worker died."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from harness.errors import PlugInError, UserError, first_line
from harness.planning.events import Event, Listener
from harness.runs.environment import Allocation
from harness.work.crew import Crew, Death, Out
from harness.work.failures import sending
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.queue import RETRY_S, Queue
from harness.work.ray.bell import Bell
from harness.work.ray.cluster import worker_environment
from harness.work.ray.node import Errand, Parcel, deliver, outgoing, receive, serve
from harness.work.reports import Report
from harness.work.software import Software

#: Seconds until files of another node are seen here.
FILES_S = 30.0


@dataclass(eq=False, kw_only=True)
class _Task(Out):
    """A job that was sent out. `held` has its lock where the results folder is not shared; `over`: when it ended."""

    messages: Any
    held: ExitStack
    over: float = math.inf
    rest: dict[str, bytes] = field(default_factory=dict)


class Tasks(Crew[_Task]):
    """Jobs in the cluster."""

    def __init__(
        self,
        queue: Queue,
        listen: Listener,
        cpus: int,
        part_of_gpu: Callable[[int], float],
        memory: float,
        room: Callable[[], int],
        *,
        shared: bool,
    ) -> None:
        """`part_of_gpu` gives the part that a job with so many MB of GPU memory gets; `memory` is all of a node's.

        `room` gives the number of jobs at a time.
        """
        super().__init__(queue, listen)
        self.room, self.shared = room, shared
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
        self._ready: list[Any] = []

    def start(self) -> None:
        room = self.room()
        while len(self.out) < room and (job := self.queue.take()) is not None:
            if self.shared:
                self._send(job, ExitStack(), None)
            elif isinstance(job, RunJob):
                self._send_with_files(job)
            else:  # a cache of another machine would be of no use: each makes its own when a run needs it
                self.listen(Event("prepared", job.key))
                self.queue.end(job, Prepared(job.id))

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
        if part and job in self.queue.alone:
            part = 1.0
        allocation = Allocation("cuda" if part else "cpu", self._cpus, gpu_share=part or 1.0)
        task = self._serve[part > 0].options(
            name=job.key,
            num_cpus=self._cpus,
            num_gpus=part,
            memory=int(min(need.memory_mb * 1e6, self._memory)),
            runtime_env={"env_vars": worker_environment(allocation.threads, on_gpu=part > 0)},
        )
        report = Report.of(job.store, job.id, uuid.uuid4().hex)
        errand = Errand(job, allocation, report.number, self._software, self.shared)
        try:
            with sending():
                messages = task.remote(errand, parcel, self._bell)
        except PlugInError as error:
            held.close()
            self.queue.end(job, job.fail(error, self.listen))
            return
        self.out[job] = _Task(job, report, messages=messages, held=held)

    def wait(self) -> None:
        self._ready = []
        waited = [task.messages for task in self.out.values() if task.over == math.inf]
        if not waited:
            time.sleep(RETRY_S)
            return
        self._ready, _ = ray.wait(waited, num_returns=1, timeout=RETRY_S)
        if self._ready:
            self._ready, _ = ray.wait(waited, num_returns=len(waited), timeout=0)

    def death(self, out: _Task) -> Death | None:
        """Receive what a task has sent, or why it ended."""
        if time.monotonic() > out.over + FILES_S:
            return Death("it ended without a report", again=True)
        if out.messages not in self._ready:
            return None
        try:
            parcel: Parcel = ray.get(next(out.messages))
        except StopIteration:
            out.over = time.monotonic()
            return None
        except ray.exceptions.RayTaskError as error:
            why = getattr(error, "cause", error)
            return Death(str(why) if isinstance(why, UserError) else f"{type(why).__name__}: {first_line(why)}")
        except ray.exceptions.RayError as error:
            return Death(first_line(error).partition(". ")[0], again=True)
        out.started = min(out.started, time.monotonic())
        out.rest |= receive(parcel, out.job.store).files
        return None

    def stop(self) -> None:
        """Ask jobs at work to save and stop; take back those that wait in Ray's queue."""
        self._bell.ring.remote()
        for task in [task for task in self.out.values() if task.started == math.inf]:
            ray.cancel(task.messages)
            self.close(task, Again.STOPPED)

    def kill(self, out: _Task) -> None:
        ray.cancel(out.messages, force=True)

    def release(self, out: _Task) -> None:
        out.report.remove()
        out.held.close()

    def delivered(self, out: _Task, end: End) -> End:
        """The end of a job, stored here where the node does not see the folder."""
        return end if self.shared else deliver(end, Parcel(out.rest), out.job.store)

    def cancel(self) -> None:
        for task in self.out.values():
            ray.cancel(task.messages, force=True)
            task.held.close()
        ray.kill(self._bell)
