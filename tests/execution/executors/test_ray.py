"""Jobs on a Ray cluster of two nodes: one is killed, results are sent home, a driver is stopped and continues."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from executor_jobs import ignore, jobs, plan
from ray_nodes import NODE, cluster

from harness.execution.events import Event, Listener
from harness.execution.executors.base import ExecutorOptions, execute
from harness.execution.executors.jobs import jobs_of
from harness.execution.executors.ray import Ray
from harness.execution.executors.run_job import RunJob
from harness.execution.resources import Allocation
from harness.stopping import Interrupted
from harness.store import Result, Store

#: Enough to be killed between two checkpoints.
STEPS: dict[str, Any] = {"steps": 40, "eval_every": 10}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with cluster(1) as found:
        yield found


def on_ray(**settings: str) -> Ray:
    return Ray(ExecutorOptions("auto", "cpu", settings))


def scores(results: Path) -> dict[str, object]:
    """What each finished run was measured to have, by key; times are left out."""
    found = {}
    for result in Store(results).load()[0]:
        scored = [(one.suite, one.scores, one.parts) for one in result.evaluations]
        found[result.spec.key] = (result.fingerprint, scored, result.dev, result.losses)
    return found


def test_a_killed_node_costs_no_run_and_results_come_home_bit_for_bit(nodes: Any, tmp_path: Path) -> None:
    other = nodes.add_node(**NODE, num_cpus=1)
    at_work: set[str] = set()

    def kill(event: Event) -> None:
        if event.progress and event.progress.step >= 15:
            at_work.add(event.run)
            if len(at_work) == 2 and other in nodes.worker_nodes:
                nodes.remove_node(other, allow_graceful=False)

    made = plan(tmp_path / "ray", "simcse", seeds=(0, 1, 2), **STEPS)
    ends = on_ray(**{"shared-folder": "no"}).execute(jobs_of(made), kill)
    assert other not in nodes.worker_nodes
    assert sum(isinstance(end, Result) for end in ends) == 3, ends
    logs = "".join(path.read_text() for path in (tmp_path / "ray").rglob("seed-*.log"))
    assert logs.count("training resumes at step 10 of 40") == 1, "the run of the killed node continues"
    assert not Store(tmp_path / "ray").failures()
    execute(plan(tmp_path / "here", "simcse", seeds=(0, 1, 2), **STEPS), ignore, device="cpu", executor="serial")
    assert scores(tmp_path / "ray") == scores(tmp_path / "here")


def test_a_stopped_driver_leaves_checkpoints_from_which_the_next_continues(nodes: Any, tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.progress and event.progress.step == 15:
            os.kill(os.getpid(), signal.SIGINT)

    made = jobs_of(plan(tmp_path / "ray", "simcse", seeds=(0, 1), **STEPS))
    with pytest.raises(Interrupted):
        on_ray().execute(made, stop)
    (checkpoint,) = (tmp_path / "ray").rglob("checkpoint.pt")
    resumed: list[int] = []

    def note(event: Event) -> None:
        if event.progress and event.run.endswith("seed-0"):
            resumed.append(event.progress.first)

    on_ray().execute(made, note)
    assert resumed[0] >= 15, "it goes on after the step in which it was stopped, not after the last checkpoint"
    assert not checkpoint.exists()
    execute(plan(tmp_path / "here", "simcse", seeds=(0, 1), **STEPS), ignore, device="cpu", executor="serial")
    assert scores(tmp_path / "ray") == scores(tmp_path / "here")


@dataclass(frozen=True, eq=False)
class Telling(RunJob):
    """Reports the environment that it has on the worker."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> Result:
        names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "CUDA_VISIBLE_DEVICES", "HARNESS_CACHE")
        listen(Event("start", self.key, device=repr([os.environ.get(name) for name in names])))
        raise RuntimeError(f"{allocation.threads} threads")


def test_a_task_on_the_cpu_sees_no_gpu_and_has_the_drivers_threads_and_folders(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    (job,) = jobs(tmp_path, "none")
    events: list[Event] = []
    (end,) = on_ray().execute([Telling(job.inventory, job.store, job.needs, job.run)], events.append)
    assert events[0].device == repr(["3", "passive", "", os.environ["HARNESS_CACHE"]])
    assert not isinstance(end, Result)
    assert end.error == "RuntimeError: 3 threads"
    assert Store(tmp_path).failures() == [end]
