"""The long form on Ray, `make cluster`: a grid of 24 runs, a node killed and one added; GPUs;
workers that die.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import executor_jobs
import pytest
from executor_jobs import Errand, Told, errand, ignore, performed, plan, scores, stubs
from ray_nodes import NODE, cluster, ray

from harness.events import Event
from harness.runs.execution import Device, Execution
from harness.store import Result, Store
from harness.work.base import DEATHS, execute
from harness.work.job import Prepared
from harness.work.jobs import list_jobs
from harness.work.queue import Queue
from harness.work.ray.cluster import Cluster
from harness.work.ray.executor import Ray

pytestmark = pytest.mark.cluster

#: long enough that three runs train at once on two cores, and that a killed node has not ended its
#: run
STEPS: dict[str, Any] = {"steps": 150, "eval_every": 10}
SEEDS = tuple(range(6))


class Murderer(Told):
    """Kills a node once three runs train, and then adds one."""

    def __init__(self, nodes: Any) -> None:
        super().__init__()
        self.nodes, self.done, self.killed = nodes, 0, False

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self.done += event.kind == "done"
        if event.kind in ("suite", "failed"):
            self.steps.pop(event.run, None)
        if (
            not self.killed
            and self.done >= 3
            and sum(step > 10 for step in self.steps.values()) == 3
        ):
            self.killed = True
            self.say("kill -9 of one of three nodes, on each of which a run trains")
            self.nodes.remove_node(next(iter(self.nodes.worker_nodes)), allow_graceful=False)
            self.nodes.add_node(**NODE, num_cpus=1, wait=False)
            self.say("a new node is added")


@pytest.mark.parametrize("shared", ["yes", "no"])
def test_a_grid_survives_the_death_of_a_node(
    shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = list_jobs(plan(tmp_path / "ray", "simcse", "mcse", seeds=SEEDS, **STEPS))
    with cluster(0) as nodes:
        for _ in range(3):
            nodes.add_node(**NODE, num_cpus=1)
        murderer = Murderer(nodes)
        how = Execution(jobs="auto", device="cpu", executor_options={"shared-folder": shared})
        ends = Ray(how).execute(made, murderer)
    assert murderer.killed
    results = [end for end in ends if isinstance(end, Result)]
    murderer.say(f"{len(results)} results of {len({end.fingerprint for end in results})} trainings")
    store = Store(tmp_path / "ray")
    assert (
        len(results)
        == len(store.files())
        == len({end.fingerprint for end in results})
        == 2 * len(SEEDS)
    )
    assert not store.failures()
    logs = "\n".join(path.read_text() for path in store.root.rglob("seed-*.log"))
    lines = Counter(line.partition("  ")[2] for line in logs.splitlines())
    assert lines[f"training starts: {STEPS['steps']} steps"] == 2 * len(SEEDS), (
        "no run is trained twice"
    )
    resumed = [line for line in lines if line.startswith("training resumes at step")]
    murderer.say(f"of the node that was killed: {', '.join(resumed)}")
    assert sum(lines[line] for line in resumed) == 1, "the run of the killed node continues"
    local = plan(tmp_path / "local", "simcse", "mcse", seeds=SEEDS, **STEPS)
    execute(local, ignore, Execution(jobs=2, device="cpu", executor="local"))
    on_ray, expected = scores(tmp_path / "ray"), scores(tmp_path / "local")
    murderer.say(
        f"{sum(on_ray[key] == expected[key] for key in expected)} of {len(expected)} bit-equal to local ones"
    )
    assert on_ray == expected


def performed_by_ray(jobs: list[Errand], part_of_gpu: float = 0.0) -> list[str]:
    """Let tasks with a part of a GPU each perform jobs; return what they failed with."""
    ray.cloudpickle.register_pickle_by_value(executor_jobs)
    queue, settings = Queue(jobs), {"gpus": str(part_of_gpu)} if part_of_gpu else {}
    device: Device = "cuda" if part_of_gpu else "cpu"
    driver = Ray(Execution(jobs=len(jobs), device=device, executor_options=settings))
    driver.cluster = Cluster(cpus=4, memory=8e9, card_mb=80_000)
    driver.work(queue, ignore)
    return [end.error for end in queue.ends if isinstance(end, Prepared) and end.error]


def test_runs_share_a_gpu_by_fractions_in_processes_that_end_with_them(tmp_path: Path) -> None:
    with cluster(4, num_gpus=1):
        # Ray believes in a GPU that is not there
        assert performed_by_ray(stubs(tmp_path, 4, memory_mb=20_000, seconds=1.0), 0.5) == []
        notes = performed(tmp_path)
        assert {(note["card"], note["share"]) for note in notes} == {("0", 0.5)}
        assert len({note["pid"] for note in notes}) == 4, (
            "memory of a GPU is free once its run has ended"
        )
        assert performed_by_ray(stubs(tmp_path / "without", 1)) == []
    assert [note["card"] for note in performed(tmp_path / "without")] == [""]


def test_a_run_under_which_workers_keep_dying_fails_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with cluster(2):
        (error,) = performed_by_ray(
            [errand(tmp_path, "deadly", killed=True), *stubs(tmp_path, 2, seconds=1.0)]
        )
    assert error.startswith(f"{DEATHS} processes died while running it; the last one: ")
    assert len(performed(tmp_path)) == 2
    assert caplog.text.count("another one resumes from the last checkpoint") == DEATHS - 1
