"""The long form on SLURM, `make cluster`: a real slurmctld preempts a run, ends its time, and loses
a job.

SLURM has one node, this machine: munged, slurmctld and slurmd in a folder of their own.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from executor_jobs import Told, ignore, jobs, plan, scores

from harness.events import Event
from harness.runs.execution import Execution
from harness.store import Failure, Result, Store
from harness.store.folder import read_submission
from harness.work.base import execute, find_submitted_states
from harness.work.jobs import list_jobs

pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
from harness.work.slurm import executor as slurm_executor
from harness.work.slurm.executor import Slurm

pytestmark = pytest.mark.cluster

STEPS: dict[str, Any] = {"steps": 60, "eval_every": 20}
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue")
#: Seconds until the node must be there.
READY_S = 30
#: Two partitions, of which one takes the node from the other: TERM, then five seconds, then the
#: queue.
CONFIG = """
ClusterName=harness
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node1 NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000
PartitionName=low Nodes=node1 Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=5
PartitionName=high Nodes=node1 MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


@contextmanager
def real_slurm() -> Iterator[None]:
    """Start SLURM; its commands speak with it. Skips the test where that is not possible."""
    path = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    if absent := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
        pytest.skip(f"{', '.join(absent)} not installed; SLURM itself was not tested")
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)
            )
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", path)
        patch.setenv("SLURM_CONF", str(_configured(folder)))
        key, log = folder / "munge.key", (folder / "log").open("ab")
        stack.enter_context(log)
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        own = [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
        for command in (
            [
                "munged",
                "--foreground",
                "--force",
                f"--key-file={key}",
                f"--socket={folder}/munge.socket",
                *own,
            ],
            ["slurmctld", "-D"],
            ["slurmd", "-D", "-N", "node1"],
        ):
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(0.5)
        limit = time.monotonic() + READY_S
        while _said("sinfo", "--noheader", "--nodes=node1", "--format=%T") != ["idle"]:
            if time.monotonic() > limit:
                last = (folder / "log").read_text(errors="replace").splitlines()[-3:]
                pytest.skip(f"SLURM does not start here, and was not tested: {' / '.join(last)}")
            time.sleep(0.5)
        stack.callback(_clear)
        stack.enter_context(_without_pauses())
        yield


def _configured(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    path = folder / "slurm.conf"
    path.write_text(
        CONFIG.format(host=socket.gethostname(), user=getpass.getuser(), folder=folder, ports=ports)
    )
    return path


@contextmanager
def _without_pauses() -> Iterator[None]:
    """Let jobs that were queued again start at once, instead of after two minutes."""
    over = threading.Event()

    def release() -> None:
        while not over.wait(1.0):
            for line in _said(
                "squeue", "--noheader", "--array", "--states=PENDING", "--format=%i %r"
            ):
                number, _, reason = line.partition(" ")
                if reason == "BeginTime":
                    _said("scontrol", "update", f"JobId={number}", "StartTime=now")

    thread = threading.Thread(target=release)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _clear() -> None:
    """Cancel what is left, and wait until its processes have ended."""
    _said("scancel", f"--user={getpass.getuser()}")
    limit = time.monotonic() + READY_S
    while _said("squeue", "--noheader", "--format=%i") and time.monotonic() < limit:
        time.sleep(0.5)


def _said(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.split("\n")[:-1]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(slurm_executor, "ASK_S", 1.0)


def slurm(**settings: str) -> Slurm:
    return Slurm(
        Execution(jobs="auto", device="cpu", executor_options={"memory": "600M", **settings})
    )


def test_a_submitted_grid_is_preempted_and_complete(tmp_path: Path) -> None:
    class Preempting(Told):
        preempted = False

        def __call__(self, event: Event) -> None:
            super().__call__(event)
            if not self.preempted and event.progress and event.progress.step > 10:
                self.preempted = True
                self.say("somebody else wants the node for a moment")
                _said(
                    "sbatch",
                    "--partition=high",
                    "--exclusive",
                    "--output=/dev/null",
                    "--wrap=sleep 1",
                )

    with real_slurm():
        made = list_jobs(plan(tmp_path / "slurm", "simcse", "mcse", seeds=(0, 1), **STEPS))
        told = Preempting()
        assert slurm().execute(made, told) == []
        for state, where in find_submitted_states(Store(tmp_path / "slurm")).values():
            told.say(f"{state:8} {where}")
        ends = slurm().execute(made, told)
    assert sum(isinstance(end, Result) for end in ends) == 4, ends
    assert told.preempted
    assert told.resumed
    local = plan(tmp_path / "here", "simcse", "mcse", seeds=(0, 1), **STEPS)
    execute(local, ignore, Execution(executor="serial", device="cpu"))
    on_slurm, expected = scores(tmp_path / "slurm"), scores(tmp_path / "here")
    told.say(
        f"{sum(on_slurm[key] == expected[key] for key in expected)} of {len(expected)} bit-equal to local ones"
    )
    assert on_slurm == expected


def test_a_time_limit_and_a_cancelled_job(tmp_path: Path) -> None:
    with real_slurm():
        (long,) = jobs(tmp_path, "simcse", steps=1500, eval_every=500)
        (other,) = jobs(tmp_path, "simcse", seeds=(1,), steps=1500, eval_every=500)

        class Cancelling(Told):
            def __call__(self, event: Event) -> None:
                super().__call__(event)
                note = read_submission(other.store, other.id)
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
