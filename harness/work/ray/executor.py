"""Runs as plain tasks of a Ray cluster."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.errors import UserError
from harness.planning.events import Listener
from harness.runs.environment import Allocation
from harness.work.base import Executor, ExecutorOptions
from harness.work.job import End, Job, RunJob
from harness.work.queue import Queue
from harness.work.software import Software

# Ray reads these when it is imported. It prints about dead workers and nodes; this executor reports them itself.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Raylet is terminated|marked dead|A worker died")
try:
    from harness.work.ray.cluster import Cluster, Head, inspect, joined
    from harness.work.ray.tasks import Tasks
except ImportError as error:
    raise UserError(f"--executor ray: {error}; install it with `pip install 'sentence-harness[ray]'`") from error


class Ray(Executor):
    """Sends each job to a Ray cluster; where its worker or node dies, again: it continues from what it saved.

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
        """Refuse a job that needs a GPU where the cluster has none, and one that would replace a result from afar."""
        if not self.shared and isinstance(job, RunJob) and job.run.redo:
            raise UserError("--redo works only in a shared results folder; remove --no-shared-folder")
        if self._card_mb is None:
            job.check("cpu")

    def work(self, queue: Queue, listen: Listener) -> None:
        """Keep the cluster busy, and pass on events, until every job has ended.

        Raises UserError where the cluster has lost its head.
        """
        assert self.cluster is not None
        cluster, head, jobs = self.cluster, Head(), self.options.jobs

        def room() -> int:
            if not head.answers():
                return 0
            return cluster.slots(self.cpus) if jobs == "auto" else jobs

        Tasks(queue, listen, self.cpus, self._part_of_gpu, cluster.memory, room, shared=self.shared).work()

    @property
    def _card_mb(self) -> float | None:
        """Memory of a GPU that runs can count on, in MB; None where runs use the CPU."""
        return None if self.cluster is None or self.options.device == "cpu" else self.cluster.card_mb

    def _part_of_gpu(self, gpu_memory_mb: int) -> float:
        """The part of a GPU for a job, in hundredths; 0 where it uses none."""
        if self._card_mb is None or not gpu_memory_mb:
            return 0.0
        return self.gpus or min(1.0, math.ceil(100 * gpu_memory_mb / self._card_mb) / 100)

    def _check_room(self, cluster: Cluster) -> None:
        largest = max(node.cpus for node in cluster.nodes)
        if self.cpus > largest:
            raise UserError(f"--executor-option cpus={self.cpus}: the largest node has {largest:g}; give fewer")
        if self.options.device == "cuda" and cluster.card_mb is None:
            raise UserError("--device cuda: no node of the Ray cluster has a GPU; add one, or use --device cpu")

    @contextmanager
    def _seen_by_nodes(self, jobs: Sequence[Job]) -> Iterator[list[Path]]:
        """Paths that every node must see: the data, and a new file in the results folder where that is shared."""
        found = sorted({job.inventory.root for job in jobs if job.inventory.root is not None})
        probes = [job.store.root / f".seen-{uuid.uuid4().hex}" for job in jobs[:1] if self.shared]
        for probe in probes:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
        try:
            yield [*found, *probes]
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
