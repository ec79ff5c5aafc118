"""The long form on SLURM, `make cluster`: a real slurmctld preempts a run, ends its time, and loses a job."""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from executor_jobs import ignore, jobs, plan
from slurm_nodes import preempt, real_slurm

from harness.planning.events import Event
from harness.store import Failure, Result, Store
from harness.store.folder import submission
from harness.work.base import ExecutorOptions, execute
from harness.work.jobs import jobs_of
from harness.work.slurm.commands import whereabouts

pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
from harness.work.slurm import executor as slurm_executor
from harness.work.slurm.executor import Slurm

pytestmark = pytest.mark.cluster
log = logging.getLogger("cluster")

STEPS: dict[str, Any] = {"steps": 60, "eval_every": 20}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(slurm_executor, "ASK_S", 1.0)


def slurm(**settings: str) -> Slurm:
    return Slurm(ExecutorOptions("auto", "cpu", {"memory": "600M", **settings}))


class Told:
    """A listener that says what happens, and how far each run is."""

    def __init__(self) -> None:
        self.started, self.steps, self.resumed = time.monotonic(), dict[str, int](), dict[str, int]()

    def __call__(self, event: Event) -> None:
        if event.kind in ("start", "done", "failed", "prepared"):
            self.say(f"{event.kind:8} {event.run}{event.error and ': '}{event.error}")
        if event.progress:
            self.steps[event.run] = event.progress.step
            if event.progress.first and event.run not in self.resumed:
                self.resumed[event.run] = event.progress.first
                self.say(f"resumes  {event.run} at step {event.progress.first}")

    def say(self, text: str) -> None:
        log.info("%6.1f s  %s", time.monotonic() - self.started, text)


def results_of(folder: Path) -> dict[str, object]:
    """What each finished run was measured to have, by key; times are left out."""
    found = Store(folder).load()[0]
    return {one.spec.key: (one.fingerprint, one.evaluations[0].scores, one.dev, one.losses) for one in found}


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
        for place in whereabouts(Store(tmp_path / "slurm")).values():
            told.say(f"{place.state:8} {place.text}")
        ends = slurm().execute(made, told)
    assert sum(isinstance(end, Result) for end in ends) == 4, ends
    assert told.preempted
    assert told.resumed
    local = plan(tmp_path / "here", "simcse", "mcse", seeds=(0, 1), **STEPS)
    execute(local, ignore, executor="serial", device="cpu")
    found, expected = results_of(tmp_path / "slurm"), results_of(tmp_path / "here")
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
