"""Jobs on a small Ray cluster, where a stopped driver continues; files of runs on their way to a
node and home.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import executor_jobs
import pytest
from executor_jobs import TAUGHT, Errand, errand, ignore, jobs, notes, plan, scores
from faults_tools import contents
from ray_nodes import NODE, cluster, ray

from harness.events import Event
from harness.runs.execution import Execution, Seat
from harness.stopping import Interrupted
from harness.store import Failure, Result, Store
from harness.work.base import execute
from harness.work.job import Prepared, RunJob
from harness.work.jobs import list_jobs
from harness.work.ray.cluster import make_worker_environment
from harness.work.ray.executor import Ray
from harness.work.ray.node import Changes, pack_run, receive, store_end, unpack


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with cluster(0) as made:
        made.add_node(**NODE, num_cpus=1)
        yield made


def on_ray() -> Ray:
    return Ray(Execution(jobs="auto", device="cpu"))


@pytest.mark.cluster
def test_a_stopped_driver_leaves_checkpoints_from_which_the_next_continues(
    nodes: Any, tmp_path: Path
) -> None:
    """The death of a node is in tests/clusters."""

    def stop(event: Event) -> None:
        if event.progress and event.progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    made = list_jobs(plan(tmp_path / "ray", "simcse", steps=60, eval_every=10))
    with pytest.raises(Interrupted):
        on_ray().execute(made, stop)
    assert any((tmp_path / "ray").rglob("checkpoint-*.pt"))
    resumed: list[int] = []

    def note(event: Event) -> None:
        if event.progress:
            resumed.append(event.progress.first)

    on_ray().execute(made, note)
    assert resumed[0] >= 5, (
        "it goes on after the step in which it was stopped, not after the last checkpoint"
    )
    assert not any((tmp_path / "ray").rglob("checkpoint-*.pt"))
    here = plan(tmp_path / "here", "simcse", steps=60, eval_every=10)
    execute(here, ignore, Execution(device="cpu", executor="serial"))
    assert scores(tmp_path / "ray") == scores(tmp_path / "here")


@dataclass(frozen=True, eq=False)
class Telling(Errand):
    """Fails with its threads and the environment that it has on the worker."""

    def carry_out(self, seat: Seat) -> Prepared:
        names = (
            "OMP_NUM_THREADS",
            "OMP_WAIT_POLICY",
            "CUDA_VISIBLE_DEVICES",
            "HARNESS_CACHE",
            "OTHER",
        )
        raise RuntimeError([seat.threads, *(os.environ.get(name) for name in names)])


def test_a_task_on_the_cpu_sees_no_gpu_and_has_the_drivers_threads_and_folders(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", "no variable of ours")
    # workers cannot import this file
    for module in (executor_jobs, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    on_ray().execute([errand(tmp_path, "telling", made=Telling)], ignore)
    told = [1, "1", "passive", "", os.environ["HARNESS_CACHE"], None]
    assert notes(tmp_path, "telling") == [f"failed: {told}"]
    assert "CUDA_VISIBLE_DEVICES" not in make_worker_environment(3, on_gpu=True), (
        "Ray sets it to the GPU of the task"
    )
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "secret" not in make_worker_environment(3, on_gpu=True).values(), "Ray logs them"


def test_only_what_changed_is_sent_and_half_written_files_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / ".work" / "a").mkdir(parents=True)
    (tmp_path / ".work" / "a" / "old").write_text("1")
    changes = Changes(store)
    assert changes.take() is None
    for name in ("checkpoint.pt", ".checkpoint.pt.tmp"):
        (tmp_path / ".work" / "a" / name).write_text("2")
    (tmp_path / ".work" / "a" / "old").unlink()
    (tmp_path / ".locks").mkdir()
    (tmp_path / ".locks" / "a.lock").touch()
    sent = changes.take()
    assert (dict(sent.files), sent.removed) == ({".work/a/checkpoint.pt": b"2"}, (".work/a/old",))
    assert changes.take() is None
    (tmp_path / ".work" / "a" / "checkpoint.pt").write_text("3")
    again = changes.take()
    assert dict(again.files) == {".work/a/checkpoint.pt": b"3"}


def away(job: RunJob, folder: Path, home: Store) -> Result | Failure:
    """Perform a run in another folder as a worker does, and deliver what it sends."""
    other = Store(folder)
    unpack(pack_run(job), other)
    changes = Changes(other)
    end = replace(job, store=other).perform(Seat("cpu", 1), ignore)
    sent = changes.take()
    assert sent is not None
    delivered = store_end(end, receive(sent, home), home)
    assert isinstance(delivered, Result | Failure)
    return delivered


def test_what_ends_elsewhere_is_stored_as_if_it_had_run_here_and_students_get_the_model(
    tmp_path: Path,
) -> None:
    home = Store(tmp_path / "home")
    teacher, student = jobs(home.root, TAUGHT)
    end = away(teacher, tmp_path / "away", home)
    assert isinstance(end, Result)
    assert home.find(teacher.inventory.profile.name, teacher.spec, teacher.id) == end
    assert "done" in home.log(end)
    sent = pack_run(student)
    model = home.work(teacher.id).relative_to(home.root).as_posix()
    assert contents(home.root / ".work") == contents(tmp_path / "away" / ".work")
    assert {f"{model}/trained.json", f"{model}/best/model.safetensors"} <= set(sent.files)
    # suites that are added later are evaluated on the trained model, and merged with the result
    assert {f"{model}/trained.json", home.path(end).relative_to(home.root).as_posix()} <= set(
        pack_run(teacher).files
    )
    (failing,) = jobs(home.root, "simcse", learning_rate=1e30)
    failure = away(failing, tmp_path / "again", home)
    assert home.failures() == [failure]
    (log,) = (home.root / "failed").glob("*.log")
    assert "stopped by" in log.read_text()
