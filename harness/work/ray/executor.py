"""Runs as plain tasks of a Ray cluster: sent, followed, and sent again where their worker died."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import PlugInError, UserError, first_line
from harness.planning.events import Event, Listener
from harness.runs.environment import Allocation, Software
from harness.work.base import Executor, ExecutorOptions
from harness.work.crew import Crew, Death, Out, Report
from harness.work.failures import SMALLER, sending
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.queue import RETRY_S, Queue
from harness.work.ray import Bell

# Ray reads these when it is imported. It prints about dead workers and nodes; this executor reports them itself.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Raylet is terminated|marked dead|A worker died")
try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from harness.work.ray.cluster import Cluster, Head, inspect, joined, worker_environment
    from harness.work.ray.node import Parcel, deliver, outgoing, receive, serve
except ImportError as error:
    raise UserError(f"--executor ray: {error}; install it with `pip install 'sentence-harness[ray]'`") from error

#: Seconds until files written on another node are visible here.
FILES_S = 30.0


class Ray(Executor):
    """Sends each job to a Ray cluster, again if its worker or node dies; the job then resumes from what it has saved.

    Without a shared folder, files of runs travel with their tasks, and this process writes the results.
    """

    settings = {
        "address": "HOST:PORT of the cluster's head (default: RAY_ADDRESS, a cluster running here, or a new one)",
        "shared-folder": "no: nodes cannot access the results folder and send results back (default: yes)",
        "send-code": "yes: send this project's code to nodes where it is not installed (default: no)",
        "cpus": "cores of each run (default: 1)",
        "gpus": "fraction of a GPU for each run (default: from its expected memory)",
    }

    def __init__(self, options: ExecutorOptions) -> None:
        super().__init__(options)
        self.shared = self.switch("shared-folder", "yes")
        self.sends_code = self.switch("send-code", "no")
        self.cpus = self.setting("cpus", "1", _positive, "a positive whole number")
        self.gpus = self.setting("gpus", "", _part, "a number above 0 and up to 1")
        self.cluster: Cluster | None = None

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Join the cluster, compare its nodes with this machine, and carry out the jobs.

        Raises UserError before anything runs where the cluster is not there or a node differs.
        """
        with joined(self.options.settings.get("address"), send_code=self.sends_code):
            with self._seen_by_nodes(jobs) as folders:
                self.cluster = inspect(folders, Software.here(), Allocation("cpu", self.cpus).threads)
            self._check_room(self.cluster)
            return super().execute(jobs, listen)

    def check(self, job: Job) -> None:
        """Refuse a job that needs a GPU if the cluster has none, and a run to redo without a shared results folder."""
        if not self.shared and isinstance(job, RunJob) and job.run.redo:
            raise UserError("--redo works only in a shared results folder; remove --no-shared-folder")
        if self._card_mb is None:
            job.check("cpu")

    def work(self, queue: Queue, listen: Listener) -> None:
        """Keep the cluster busy, and pass on events, until every job has ended.

        Raises UserError where the cluster has lost its head.
        """
        assert self.cluster is not None
        _Tasks(queue, listen, self, self.cluster).work()

    @property
    def _card_mb(self) -> float | None:
        """Memory of a GPU that runs can count on, in MB; None where runs use the CPU."""
        return None if self.cluster is None or self.options.device == "cpu" else self.cluster.card_mb

    def part_of_gpu(self, gpu_memory_mb: int) -> float:
        """The part of a GPU for a job, in hundredths; 0 where it uses none."""
        if self._card_mb is None or not gpu_memory_mb:
            return 0.0
        return self.gpus or min(1.0, math.ceil(100 * gpu_memory_mb / self._card_mb) / 100)

    def _check_room(self, cluster: Cluster) -> None:
        if self.cpus > cluster.cpus:
            raise UserError(f"--executor-option cpus={self.cpus}: the largest node has {cluster.cpus:g}; give fewer")
        if self.options.device == "cuda" and cluster.card_mb is None:
            raise UserError("--device cuda: no node of the Ray cluster has a GPU; add one, or use --device cpu")

    @contextmanager
    def _seen_by_nodes(self, jobs: Sequence[Job]) -> Iterator[list[Path]]:
        """Paths that every node must see: the data, and a new file in the results folder where that is shared."""
        roots = sorted({job.inventory.root for job in jobs if job.inventory.root is not None})
        probes = [job.store.root / f".seen-{uuid.uuid4().hex}" for job in jobs[:1] if self.shared]
        for probe in probes:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
        try:
            yield [*roots, *probes]
        finally:
            for probe in probes:
                probe.unlink()


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _part(text: str) -> float | None:
    if text and not 0 < float(text) <= 1:
        raise ValueError
    return float(text) if text else None


@dataclass(eq=False, kw_only=True)
class _Task(Out):
    """A job that was sent out. `held` holds its lock if the results folder is not shared; `over`: when it ended."""

    messages: Any
    held: ExitStack
    over: float = math.inf
    rest: dict[str, bytes] = field(default_factory=dict)


class _Tasks(Crew[_Task]):
    """Jobs in the cluster."""

    def __init__(self, queue: Queue, listen: Listener, driver: Ray, cluster: Cluster) -> None:
        super().__init__(queue, listen)
        self.driver, self.cluster, self.head = driver, cluster, Head()
        plain: dict[str, Any] = {
            "max_retries": 0,
            "num_returns": "streaming",
            "_generator_backpressure_num_objects": 1,
        }
        # a process that used a GPU ends with its task, which frees its memory
        self._serve = {False: ray.remote(**plain)(serve), True: ray.remote(max_calls=1, **plain)(serve)}
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        # all runs may wait for it at the same time
        self._bell = ray.remote(num_cpus=0, max_concurrency=100_000)(Bell).options(scheduling_strategy=here).remote()
        self._software = Software.here()
        self._ready: list[Any] = []

    def start(self) -> None:
        room = self._room() if self.head.answers() else 0
        while len(self.out) < room and (job := self.queue.take()) is not None:
            if self.driver.shared:
                self._send(job, ExitStack(), None)
            elif isinstance(job, RunJob):
                self._send_with_files(job)
            else:  # machines share no cache: each computes its own inputs when a run needs them
                self.listen(Event("prepared", job.key))
                self.queue.end(job, Prepared(job.id))

    def _room(self) -> int:
        jobs = self.driver.options.jobs
        return self.cluster.slots(self.driver.cpus) if jobs == "auto" else jobs

    def _send_with_files(self, job: RunJob) -> None:
        """Send a run with the files that it resumes from, while this process holds its lock."""
        held = ExitStack()
        if held.enter_context(job.store.lock(job.id)):
            self._send(job, held, ray.put(outgoing(job)))
        else:
            held.close()
            self.queue.end(job, Again.HELD)

    def _send(self, job: Job, held: ExitStack, parcel: Any) -> None:
        need = self.queue.resources(job)
        part = self.driver.part_of_gpu(need.gpu_memory_mb)
        if part and job in self.queue.alone:
            part = 1.0
        allocation = Allocation("cuda" if part else "cpu", self.driver.cpus, gpu_share=part or 1.0)
        task = self._serve[part > 0].options(
            name=job.key,
            num_cpus=self.driver.cpus,
            num_gpus=part,
            memory=int(min(need.memory_mb * 1e6, self.cluster.memory)),
            runtime_env={"env_vars": worker_environment(allocation.threads, on_gpu=part > 0)},
        )
        report = Report.of(job, uuid.uuid4().hex)
        try:
            with sending():
                messages = task.remote(job, allocation, self._software, report, parcel, self._bell)
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
        """Receive a parcel that a task has sent; return why it ended, if it did without a report."""
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
            more = f"; {SMALLER}" if isinstance(error, ray.exceptions.OutOfMemoryError) else ""
            return Death(first_line(error).partition(". ")[0] + more, again=True)
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
        return end if self.driver.shared else deliver(end, Parcel(out.rest), out.job.store)

    def cancel(self) -> None:
        for task in self.out.values():
            ray.cancel(task.messages, force=True)
            task.held.close()
        ray.kill(self._bell)
