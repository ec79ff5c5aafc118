"""The process of a job in SLURM: its signals, what it checks before it starts, what it leaves for
those that wait.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slurm_standin
from executor_jobs import errand, jobs, notes

from harness.events import Event
from harness.runs.execution import Seat, Software
from harness.stopping import stop_requested, withdraw_stop
from harness.store import Result, Store
from harness.store.folder import Submission, read_submission, write_submission
from harness.work.job import Again, Job, Prepared
from harness.work.report import Report

pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
from submitit.core.submission import process_job
from submitit.core.utils import DelayedSubmission

from harness.work.slurm import task as slurm_task
from harness.work.slurm.task import SlurmTask

HANDLED = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGCONT)
STEPS = {"steps": 8, "eval_every": 4}


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """This process is that of the job 7 in SLURM, until the test is over."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    about = {
        "SUBMITIT_EXECUTOR": "slurm",
        "SLURM_JOB_ID": "7",
        "SLURM_PROCID": "0",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in {**about, **slurm_standin.install(tmp_path / "slurm")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_task, "FILES_S", 0.0)
    yield
    withdraw_stop()
    for number, handler in before.items():
        signal.signal(number, handler)


def report(job: Job, number: str = "7") -> Report:
    return Report.of(job, number)


def task(job: Job, software: Software | None = None, **needs: Report) -> SlurmTask:
    return SlurmTask(job, Seat("cpu", 1), software or Software.here(), tuple(needs.items()))


def submitted(folder: Path, job: Job, minutes: int = 60, timeouts: int = 1) -> Path:
    """Leave a job where its process looks for it; note that it was submitted."""
    folder.mkdir()
    delayed = DelayedSubmission(task(job))
    delayed.set_timeout(minutes, timeouts)
    delayed.dump(folder / "7_submitted.pkl")
    write_submission(
        job.store,
        job.id,
        Submission(system="SLURM", id="7", key=job.key, folder=folder, log=folder),
    )
    return folder


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let this process get signals once its job reports something, and the job wait for them to be
    handled.
    """
    write = Report.write

    def at(kind: str, *numbers: int, step: int = 0) -> None:
        def tell(written: Report, event: Event) -> None:
            write(written, event)
            if event.kind == kind and (event.progress is None or event.progress.step == step):
                for number in numbers:  # the thread of the job gets it, as the system may decide
                    signal.raise_signal(number)
                while numbers and not stop_requested():
                    time.sleep(0.01)

        monkeypatch.setattr(Report, "write", tell)

    return at


def requeued() -> bool:
    return (Path(os.environ["STANDIN_FOLDER"]) / "requeue-7").exists()


def test_a_preempted_run_is_queued_again_and_ends_as_if_nothing_had_been(
    tmp_path: Path, send: Callable[..., None]
) -> None:
    (job,) = jobs(tmp_path / "cut", "simcse", **STEPS)
    other = replace(job, store=Store(tmp_path / "whole"))
    whole = other.perform(Seat("cpu", 1), lambda event: None)
    folder = submitted(tmp_path / "jobs", job)
    send("progress", signal.SIGUSR2, step=3)
    with pytest.raises(SystemExit):
        process_job(folder)
    assert requeued()
    read, events = report(job), list[Event]()
    assert read.read(events.append) is None
    assert read_submission(job.store, job.id) is not None
    assert {event.kind for event in events} >= {"start", "progress"}
    send("never")
    process_job(folder)
    later = list[Event]()
    ends = read.read(later.append)
    assert isinstance(ends, Result)
    assert isinstance(whole, Result)
    assert ends.evaluations[0].scores == whole.evaluations[0].scores
    assert (ends.losses, ends.dev) == (whole.losses, whole.dev)
    assert next(event.progress.first for event in later if event.progress) >= 3
    assert later[-1].kind == "evaluated"
    assert read_submission(job.store, job.id) is None


def test_sigterm_lets_a_job_save_and_wait_for_what_slurm_does(
    tmp_path: Path, send: Callable[..., None]
) -> None:
    folder = submitted(tmp_path / "jobs", errand(tmp_path, "job", stops=1))
    main = threading.main_thread().ident or 0

    def preempt() -> None:
        while "stopped" not in notes(tmp_path, "job"):
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGUSR2)

    after = threading.Thread(target=preempt)
    after.start()
    send("prepare", signal.SIGTERM)
    with pytest.raises(SystemExit):
        process_job(folder)
    after.join()
    assert requeued()


def test_a_job_that_meets_its_time_limit_too_often_fails(
    tmp_path: Path, send: Callable[..., None]
) -> None:
    job = errand(tmp_path, "job", stops=2)
    folder = submitted(tmp_path / "jobs", job, minutes=0, timeouts=1)
    send("prepare", signal.SIGUSR2)
    with pytest.raises(SystemExit):
        process_job(folder)
    assert requeued()
    process_job(folder)
    failed = report(job).read()
    assert isinstance(failed, Prepared)
    assert failed.error.startswith("saved, but could not be queued again: ")
    assert "timed-out too many times" in failed.error


def test_a_job_that_is_queued_again_is_performed_unless_it_has_ended(tmp_path: Path) -> None:
    job = errand(tmp_path, "job", fails=True)
    made = task(job)
    first = made()
    again = made.checkpoint().function
    assert pickle.loads(pickle.dumps(again))() == first
    assert notes(tmp_path, "job") == ["cpu 1", "failed: no such luck"]
    unstarted = errand(tmp_path, "unstarted")
    assert task(unstarted).checkpoint().function() == Prepared(unstarted.id)


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (Prepared("x"), None),
        (Prepared("x", "boom"), "teacher failed, which is needed here: boom"),
        (
            Prepared("x", "a failed, which is needed here: boom"),
            "a failed, which is needed here: boom",
        ),
        (
            Again.STOPPED,
            f"teacher failed, which is needed here: it has not ended: {Again.STOPPED.value} (SLURM 6)",
        ),
        (KeyError(1), "teacher failed, which is needed here: KeyError: 1"),
        (None, "teacher failed, which is needed here: it was killed before it ended (SLURM 6)"),
    ],
)
def test_a_job_looks_for_what_it_needs_before_it_starts(
    tmp_path: Path, end: Any, why: str | None
) -> None:
    teacher = report(errand(tmp_path, "teacher"), "6")
    if end:
        teacher.write_end(end)
    task(errand(tmp_path, "job"), teacher=teacher)()
    assert notes(tmp_path, "job") == [f"failed: {why}" if why else "cpu 1"]


def test_a_job_fails_where_the_software_is_not_that_of_the_command(tmp_path: Path) -> None:
    here = Software.here()
    task(errand(tmp_path, "job"), replace(here, packages={**here.packages, "torch": "0"}))()
    (note,) = notes(tmp_path, "job")
    assert re.match(
        "failed: the software of .* differs from that of the command that submitted the job: torch is ",
        note,
    )


def test_a_job_waits_for_the_process_that_has_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = errand(tmp_path, "job")
    with ExitStack() as held:
        monkeypatch.setattr(slurm_task, "sleep", lambda seconds: held.close())
        assert held.enter_context(job.store.lock(job.id))
        assert task(job)() == Prepared(job.id)
        monkeypatch.setattr(slurm_task, "PATIENCE_S", 0.0)
        assert held.enter_context(job.store.lock(job.id))
        assert task(job)() is Again.HELD
