"""The long form on SLURM, `make cluster`: a real slurmctld preempts a run, ends its time, and loses a job."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from executor_jobs import Told, ignore, jobs, plan, scores
from slurm_nodes import preempt, real_slurm

from harness.planning.events import Event
from harness.store import Failure, Result, Store
from harness.store.folder import submission
from harness.work.base import ExecutorOptions, execute, whereabouts
from harness.work.jobs import jobs_of

pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
from harness.work.slurm import executor as slurm_executor
from harness.work.slurm.executor import Slurm

pytestmark = pytest.mark.cluster

STEPS: dict[str, Any] = {"steps": 60, "eval_every": 20}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(slurm_executor, "ASK_S", 1.0)


def slurm(**settings: str) -> Slurm:
    return Slurm(ExecutorOptions("auto", "cpu", {"memory": "600M", **settings}))


def test_a_submitted_grid_is_preempted_and_complete(tmp_path: Path) -> None:
    class Preempting(Told):
        preempted = False

        def __call__(self, event: Event) -> None:
            super().__call__(event)
            if not self.preempted and event.progress and event.progress.step > 10:
                self.preempted = True
                self.say("somebody else wants the node")
                preempt()

    with real_slurm():
        made = jobs_of(plan(tmp_path / "slurm", "simcse", "mcse", seeds=(0, 1), **STEPS))
        told = Preempting()
        assert slurm().execute(made, told) == []
        for state, place in whereabouts(Store(tmp_path / "slurm")).values():
            told.say(f"{state:8} {place}")
        ends = slurm().execute(made, told)
    assert sum(isinstance(end, Result) for end in ends) == 4, ends
    assert told.preempted
    assert told.resumed
    local = plan(tmp_path / "here", "simcse", "mcse", seeds=(0, 1), **STEPS)
    execute(local, ignore, executor="serial", device="cpu")
    found, expected = scores(tmp_path / "slurm"), scores(tmp_path / "here")
    told.say(f"{sum(found[key] == expected[key] for key in expected)} of {len(expected)} bit-equal to local ones")
    assert found == expected


def test_a_time_limit_and_a_cancelled_job(tmp_path: Path) -> None:
    with real_slurm():
        (long,) = jobs(tmp_path, "simcse", steps=1500, eval_every=500)
        (other,) = jobs(tmp_path, "simcse", seeds=(1,), steps=1500, eval_every=500)

        class Cancelling(Told):
            def __call__(self, event: Event) -> None:
                super().__call__(event)
                note = submission(other.store, other.id)
                if event.run == other.key and event.progress and note:
                    self.say(f"scancel {note.id}")
                    subprocess.run(["scancel", note.id], check=True)

        told = Cancelling()
        ends = slurm(time="1", notice="20", wait="yes").execute([long, other], told)
    (failure,) = (end for end in ends if isinstance(end, Failure))
    assert failure.spec.seed == 1
    assert " ended without a result (CANCELLED); log: " in failure.error
    assert sum(isinstance(end, Result) for end in ends) == 1
    assert long.key in told.resumed, "its time was over before it was"
