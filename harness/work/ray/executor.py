"""Runs as plain tasks of a Ray cluster: sent, followed, and sent again where their worker died."""

from __future__ import annotations

import asyncio
import math
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness.errors import PlugInError, UserError, first_line
from harness.events import Listener
from harness.runs.execution import Execution, Seat, Software
from harness.work.base import Death, Executor, StartedJob
from harness.work.failures import SMALLER, raise_pickling_errors
from harness.work.job import Again, End, Job, Prepared, RunJob
from harness.work.queue import RETRY_S, Queue
from harness.work.report import Report

# Ray reads these when it is imported. It prints about dead workers and nodes; this executor reports
# them itself.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Raylet is terminated|marked dead|A worker died")
try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from harness.work.ray.cluster import Cluster, inspect, join_cluster, make_worker_environment
    from harness.work.ray.node import RunFiles, pack_run, receive, serve, store_end
except ImportError as error:
    raise UserError(
        f"--executor ray: {error}; install it with `pip install 'sentence-harness[ray]'`"
    ) from error

#: Seconds until files written on another node are visible here.
FILES_S = 30.0


class Ray(Executor):
    """Sends each job to a Ray cluster, again if its worker or node dies; the job then resumes from
    what it has saved.

    Without a shared folder, files of runs travel with their tasks, and this process writes the
    results.
    """

    settings = {
        "address": "HOST:PORT of the cluster's head (default: RAY_ADDRESS, a cluster running here, or a new one)",
        "shared-folder": "no: nodes cannot access the results folder and send results back (default: yes)",
        "send-code": "yes: send this project's code to nodes where it is not installed (default: no)",
        "cpus": "cores of each run (default: 1)",
        "gpus": "fraction of a GPU for each run (default: from its expected memory)",
    }

    def __init__(self, options: Execution) -> None:
        super().__init__(options)
        self.shared = self.switch("shared-folder", "yes")
        self.sends_code = self.switch("send-code", "no")
        self.cpus = self.setting("cpus", "1", _parse_cores, "a positive whole number")
        self.gpus = self.setting("gpus", "", _parse_gpu_part, "a number above 0 and up to 1")
        self.cluster: Cluster | None = None
        #: locks of runs whose files travel, when tasks ended, and what they sent besides their work
        #: folders
        self._locks: dict[Job, ExitStack] = {}
        self._over: dict[Job, float] = {}
        self._rest: dict[Job, dict[str, bytes]] = {}
        self._ready: list[Any] = []

    def execute(self, jobs: Sequence[Job], listen: Listener) -> list[End]:
        """Join the cluster, compare its nodes with this machine, and carry out the jobs.

        Raises UserError before anything runs where the cluster is not there or a node differs.
        """
        with join_cluster(self.asked.get("address"), send_code=self.sends_code):
            with self._make_probes(jobs) as folders:
                self.cluster = inspect(folders, Software.here(), Seat("cpu", self.cpus).threads)
            self._check_room(self.cluster)
            return super().execute(jobs, listen)

    def check(self, job: Job) -> None:
        """Refuse a job that needs a GPU if the cluster has none."""
        if self._card_mb is None:
            job.check("cpu")

    def work(self, queue: Queue, listen: Listener) -> None:
        """Keep the cluster busy, and pass on events, until every job has ended.

        Raises UserError where the cluster has lost its head.
        """
        self._software = Software.here()
        options: dict[str, Any] = {
            "max_retries": 0,
            "num_returns": "streaming",
            "_generator_backpressure_num_objects": 1,
        }
        # a process that used a GPU ends with its task, which frees its memory
        self._serve_on_gpu = ray.remote(max_calls=1, **options)(serve)
        self._serve_on_cores = ray.remote(**options)(serve)
        # a process that holds the event; all runs may wait for it at the same time
        flag = ray.remote(num_cpus=0, max_concurrency=100_000)(asyncio.Event)
        this_node = ray.get_runtime_context().get_node_id()
        on_this_node = NodeAffinitySchedulingStrategy(this_node, soft=True)
        self._stop_flag = flag.options(scheduling_strategy=on_this_node).remote()
        super().work(queue, listen)

    @property
    def _card_mb(self) -> float | None:
        """Memory of a GPU that runs can count on, in MB; None where runs use the CPU."""
        if self.cluster is None or self.options.device == "cpu":
            return None
        return self.cluster.card_mb

    def compute_gpu_part(self, gpu_memory_mb: int) -> float:
        """The part of a GPU for a job, in hundredths; 0 where it uses none."""
        if self._card_mb is None or not gpu_memory_mb:
            return 0.0
        return self.gpus or min(1.0, math.ceil(100 * gpu_memory_mb / self._card_mb) / 100)

    def _check_room(self, cluster: Cluster) -> None:
        if self.cpus > cluster.cpus:
            raise UserError(
                f"--executor-option cpus={self.cpus}: the largest node has {cluster.cpus:g}; give fewer"
            )

        if self.options.device == "cuda" and cluster.card_mb is None:
            raise UserError(
                "--device cuda: no node of the Ray cluster has a GPU; add one, or use --device cpu"
            )

    @contextmanager
    def _make_probes(self, jobs: Sequence[Job]) -> Iterator[list[Path]]:
        """Paths that every node must see: the data, and a new file in the results folder where that
        is shared.
        """
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

    def start(self) -> None:
        slots = self._count_slots()
        while len(self.out) < slots and (job := self.queue.take()) is not None:
            if self.shared:
                self._send(job, ExitStack(), None)
            elif isinstance(job, RunJob):
                self._send_with_files(job)
            else:  # machines share no cache: each computes its own inputs when a run needs them
                self.queue.end(job, Prepared(job.id))

    def _count_slots(self) -> int:
        """The number of jobs that may be out; none while the head does not answer."""
        assert self.cluster is not None
        if not self.cluster.check_head():
            return 0
        if self.jobs == "auto":
            return self.cluster.count_slots(self.cpus)
        return self.jobs

    def _send_with_files(self, job: RunJob) -> None:
        """Send a run with the files that it resumes from, while this process holds its lock."""
        lock = ExitStack()
        if lock.enter_context(job.store.lock(job.id)):
            self._send(job, lock, ray.put(pack_run(job)))
        else:
            lock.close()
            self.queue.end(job, Again.HELD)

    def _send(self, job: Job, lock: ExitStack, files: Any) -> None:
        assert self.cluster is not None
        needs = self.queue.estimate_resources(job)
        gpu_part = self.compute_gpu_part(needs.gpu_memory_mb)
        if gpu_part and job in self.queue.alone:
            gpu_part = 1.0

        if gpu_part:
            seat = Seat("cuda", self.cpus, gpu_share=gpu_part)
            serve_job = self._serve_on_gpu
        else:
            seat = Seat("cpu", self.cpus)
            serve_job = self._serve_on_cores

        environment = make_worker_environment(seat.threads, on_gpu=gpu_part > 0)
        task = serve_job.options(
            name=job.key,
            num_cpus=self.cpus,
            num_gpus=gpu_part,
            memory=int(min(needs.memory_mb * 1e6, self.cluster.memory)),
            runtime_env={"env_vars": environment},
        )
        report = Report.of(job, uuid.uuid4().hex)
        try:
            with raise_pickling_errors():
                messages = task.remote(job, seat, self._software, report, files, self._stop_flag)
        except PlugInError as error:
            lock.close()
            self.queue.end(job, job.fail(error))
            return

        self.out[job] = StartedJob(job, report, messages)
        self._locks[job] = lock
        self._rest[job] = {}

    def wait(self) -> None:
        self._ready = []
        handles = [started.handle for job, started in self.out.items() if job not in self._over]
        if not handles:
            time.sleep(RETRY_S)
            return

        self._ready, _ = ray.wait(handles, num_returns=1, timeout=RETRY_S)
        if self._ready:
            self._ready, _ = ray.wait(handles, num_returns=len(handles), timeout=0)

    def death(self, started: StartedJob) -> Death | None:
        """Receive the files that a task has sent; return why it ended, if it did without a report."""
        job = started.job
        if time.monotonic() > self._over.get(job, math.inf) + FILES_S:
            return Death("it ended without a report", again=True)
        if started.handle not in self._ready:
            return None

        try:
            files: RunFiles = ray.get(next(started.handle))
        except StopIteration:
            self._over[job] = time.monotonic()
            return None
        except ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", error)
            if isinstance(cause, UserError):
                return Death(str(cause))
            return Death(f"{type(cause).__name__}: {first_line(cause)}")
        except ray.exceptions.RayError as error:
            reason = first_line(error).partition(". ")[0]
            if isinstance(error, ray.exceptions.OutOfMemoryError):
                reason += f"; {SMALLER}"
            return Death(reason, again=True)

        started.started = min(started.started, time.monotonic())
        self._rest[job] |= receive(files, job.store).files
        return None

    def stop(self) -> None:
        """Ask jobs at work to save and stop; take back those that wait in Ray's queue."""
        self._stop_flag.set.remote()
        waiting = [started for started in self.out.values() if started.started == math.inf]
        for started in waiting:
            ray.cancel(started.handle)
            self.close(started, Again.STOPPED)

    def kill(self, started: StartedJob) -> None:
        ray.cancel(started.handle, force=True)

    def release(self, started: StartedJob) -> None:
        super().release(started)
        self._locks.pop(started.job).close()
        self._over.pop(started.job, None)
        self._rest.pop(started.job)

    def close(self, started: StartedJob, end: End | Again) -> None:
        """Report the end of a job, which is stored here first where the node does not see the
        folder.
        """
        if not self.shared and not isinstance(end, Again):
            end = store_end(end, RunFiles(self._rest[started.job]), started.job.store)
        super().close(started, end)

    def cancel(self) -> None:
        for started in self.out.values():
            ray.cancel(started.handle, force=True)
            self._locks[started.job].close()
        ray.kill(self._stop_flag)


def _parse_cores(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _parse_gpu_part(text: str) -> float | None:
    if not text:
        return None
    part = float(text)
    if not 0 < part <= 1:
        raise ValueError
    return part
