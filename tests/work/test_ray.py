"""Jobs on a small Ray cluster: a node is killed and one added, results come home, a stopped driver continues."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from executor_jobs import ignore, jobs, plan
from ray_nodes import NODE, cluster, ray, scores

from harness.planning.events import Event, Listener
from harness.runs.environment import Allocation
from harness.stopping import Interrupted
from harness.store import Result, Store
from harness.work.base import ExecutorOptions, execute
from harness.work.job import RunJob
from harness.work.jobs import jobs_of
from harness.work.ray.executor import Ray

#: Enough to be killed between two checkpoints.
STEPS: dict[str, Any] = {"steps": 60, "eval_every": 10}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with cluster(0) as found:
        found.add_node(**NODE, num_cpus=1)
        yield found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the same runs give in this process."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        execute(plan(folder, "simcse", seeds=(0, 1), **STEPS), ignore, device="cpu", executor="serial")
    return scores(folder)


def on_ray(**settings: str) -> Ray:
    return Ray(ExecutorOptions("auto", "cpu", settings))


@pytest.mark.cluster
def test_a_killed_node_costs_no_run_and_results_come_home_bit_for_bit(
    nodes: Any, expected: dict[str, object], tmp_path: Path
) -> None:
    (doomed,) = nodes.worker_nodes
    made = plan(tmp_path / "ray", "simcse", seeds=(0, 1), **STEPS)
    first, _ = (job.key for job in jobs_of(made) if isinstance(job, RunJob))

    def kill(event: Event) -> None:
        home = any((tmp_path / "ray").glob(".work/*/checkpoint-*.pt"))
        if event.run == first and event.progress and home and doomed in nodes.worker_nodes:
            nodes.remove_node(doomed, allow_graceful=False)
            nodes.add_node(**NODE, num_cpus=1, wait=False)

    ends = on_ray(**{"shared-folder": "no"}).execute(jobs_of(made), kill)
    assert doomed not in nodes.worker_nodes
    assert sum(isinstance(end, Result) for end in ends) == 2, ends
    logs = "".join(path.read_text() for path in (tmp_path / "ray").rglob("seed-*.log"))
    assert logs.count("training resumes at step") == 1, f"the run of the killed node continues, and no other: {logs}"
    assert not Store(tmp_path / "ray").failures()
    assert scores(tmp_path / "ray") == expected


@pytest.mark.cluster
def test_a_stopped_driver_leaves_checkpoints_from_which_the_next_continues(
    nodes: Any, expected: dict[str, object], tmp_path: Path
) -> None:
    def stop(event: Event) -> None:
        if event.progress and event.progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    made = jobs_of(plan(tmp_path / "ray", "simcse", **STEPS))
    with pytest.raises(Interrupted):
        on_ray().execute(made, stop)
    assert any((tmp_path / "ray").rglob("checkpoint-*.pt"))
    resumed: list[int] = []

    def note(event: Event) -> None:
        if event.progress:
            resumed.append(event.progress.first)

    on_ray().execute(made, note)
    assert resumed[0] >= 5, "it goes on after the step in which it was stopped, not after the last checkpoint"
    assert not any((tmp_path / "ray").rglob("checkpoint-*.pt"))
    found = scores(tmp_path / "ray")
    assert len(found) == 1
    assert found.items() <= expected.items()


@dataclass(frozen=True, eq=False)
class Telling(RunJob):
    """Reports the environment that it has on the worker."""

    def carry_out(self, allocation: Allocation, listen: Listener) -> Result:
        names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "CUDA_VISIBLE_DEVICES", "HARNESS_CACHE")
        listen(Event("start", self.key, device=repr([os.environ.get(name) for name in names])))
        raise RuntimeError(f"{allocation.threads} threads")


def test_a_task_on_the_cpu_sees_no_gpu_and_has_the_drivers_threads_and_folders(nodes: Any, tmp_path: Path) -> None:
    # workers cannot import this file
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    (job,) = jobs(tmp_path, "none")
    events: list[Event] = []
    (end,) = on_ray().execute([Telling(job.inventory, job.store, job.needs, job.run)], events.append)
    assert not isinstance(end, Result)
    assert end.error.startswith("RuntimeError: 1 threads ("), end.traceback
    assert events[0].device == repr(["1", "passive", "", os.environ["HARNESS_CACHE"]])
    assert Store(tmp_path).failures() == [end]
