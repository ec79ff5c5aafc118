"""A run that takes longer than it may, and runs under which processes die."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from executor_jobs import jobs
from faults_tools import outcome, short_run
from plugin_packages import Install

from harness.errors import UserError
from harness.runs.execution import Seat, Software
from harness.stopping import stop_requested
from harness.store import Failure
from harness.work import failures
from harness.work.failures import parse_time_limit
from harness.work.job import RunJob


class Alarm:
    """A timer whose time is over when a test says so."""

    over: Callable[[], None]

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        Alarm.over = then

    def start(self) -> None: ...

    cancel = start


def hang() -> None:
    """What a job meets that does not react to its limit."""
    Alarm.over()
    signal.raise_signal(signal.SIGALRM)


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "Timer", Alarm)


SLOW = """
from harness_methods.simcse import SimCSE

class Slow(SimCSE):
    name = "slow"

    def loss_terms(self, batch, encode):
        meanwhile()
        return super().loss_terms(batch, encode)

def meanwhile(): pass
"""


@pytest.mark.long
def test_a_slow_run_saves_and_resumes_and_one_that_hangs_is_interrupted(
    install: Install, tmp_path: Path
) -> None:
    install("slow_methods", SLOW, {"methods": {"slow": "Slow"}})
    import slow_methods  # type: ignore[import-not-found]

    whole, quick = short_run("slow", tmp_path / "whole"), slow_methods.meanwhile
    slow_methods.meanwhile = lambda: Alarm.over()
    (failure,) = short_run("slow", tmp_path / "late", run_timeout="4h").failures
    assert failure.error.startswith("stopped after --run-timeout, 4 h")
    assert not stop_requested(), "the request was for one run"
    assert list((tmp_path / "late").glob(".work/*/checkpoint-*.pt"))
    slow_methods.meanwhile = hang
    (failure,) = short_run("slow", tmp_path / "late", run_timeout="4h").failures
    assert "slow_methods.py, line" in failure.error
    slow_methods.meanwhile = quick
    assert outcome(short_run("slow", tmp_path / "late")) == outcome(whole)
    (log,) = (tmp_path / "late").rglob("slow/*/*/*.log")
    text = log.read_text()
    assert 0 < text.index("training starts: ") < text.index("training resumes at step"), (
        "lines are lost"
    )


ENDLESS = """
from harness.toy.corpora import ToySentences

class Endless(ToySentences):
    def hash_rows(self):
        return "of endless texts"

    def load(self, root):
        from test_time_limit import hang
        hang()
"""


def test_a_preparation_that_hangs_costs_the_runs_that_need_it(
    install: Install, profile: Callable[[str], str], tmp_path: Path
) -> None:
    install("endless_texts", ENDLESS, {"corpora": {"endless": "Endless"}})
    tables = '[corpora.endless]\nkind = "endless"\nsize = 64\nseed = 3\n'
    tables += '[settings.endless]\ndescription = "of others"\ncorpora = ["endless"]\n'
    (failure,) = short_run(
        "simcse",
        tmp_path / "results",
        profile=profile(tables),
        settings="endless",
        run_timeout="4h",
    ).failures
    assert failure.error.startswith(
        "tokens of endless for toy-bert failed, which is needed here: stopped after --run"
    )


def test_times_are_read_and_what_is_none_is_refused() -> None:
    assert [parse_time_limit(text) for text in ("90s", "1h30m", "2d", "1.5h")] == [
        90,
        5400,
        172800,
        5400,
    ]
    for time in ("", "30", "m", "30 m", "-5m", "0s", 0, -1, float("nan")):
        with pytest.raises(UserError, match="--run-timeout"):
            parse_time_limit(time)


def test_a_job_in_slurm_gives_a_run_up_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed; its executor was not tested")
    from harness.work.slurm import task as slurm_task

    released = threading.Event()
    monkeypatch.setattr(slurm_task, "GRACE_S", 0.2)
    monkeypatch.setattr(RunJob, "carry_out", lambda job, seat: released.wait(60))
    (job,) = jobs(tmp_path, "simcse")
    handled = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    task = slurm_task.SlurmTask(replace(job, limit_s=0.3), Seat("cpu", 1), Software.here(), ())
    try:
        end = task()
    finally:
        released.set()
        task._thread.join()  # it goes back to the working folder of now
        for number, handler in handled.items():
            signal.signal(number, handler)
    assert isinstance(end, Failure)
    assert end.error.startswith("stopped after --run-timeout, 0.3 s")
    assert job.store.failures() == [end]
