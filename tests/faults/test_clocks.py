"""Clocks that go backwards, machines that sleep, and three commands at once."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import mark_others_long
from executor_jobs import scores
from faults_tools import outcome, short_run
from killing import HANGS_S, started

import harness

pytestmark = pytest.mark.usefixtures("small_toy_tests")


@pytest.mark.parametrize(
    "back",
    mark_others_long([3_600, 86_400], [86_400]),
    ids=["an hour at each look", "a day at each look"],
)
def test_a_clock_that_goes_backwards_changes_no_result(
    back: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number depends on it, and a run that was interrupted resumes."""
    wanted = outcome(short_run("simcse", tmp_path / "as usual"))
    looks = itertools.count(0, -back)
    monkeypatch.setattr(time, "time", lambda: 1.8e9 + next(looks))
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * time.time()))
    assert outcome(short_run("simcse", tmp_path / "backwards")) == wanted
    assert outcome(harness.results(tmp_path / "backwards")) == wanted


@pytest.mark.parametrize(
    "again",
    mark_others_long(["simcse", "simcse,mcse"], ["simcse,mcse"]),
    ids=["asked again", "with more runs"],
)
def test_a_clock_that_was_set_back_a_day_between_commands_changes_nothing(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of the folder are then from the future; what is done stays done, and the index sees
    what is new.
    """
    monkeypatch.setattr("harness.store.index.WORTH_FILES", 1)
    wanted = outcome(short_run(again, tmp_path / "as usual"))
    short_run("simcse", tmp_path / "results")
    harness.results(tmp_path / "results")
    for path in (tmp_path / "results").rglob("*"):
        os.utime(path, (time.time() + 86_400, time.time() + 86_400))
    done = {path: path.read_bytes() for path in (tmp_path / "results").rglob("seed-*.json")}
    short_run(again, tmp_path / "results")
    assert {path: path.read_bytes() for path in done} == done
    assert outcome(harness.results(tmp_path / "results")) == wanted


def of_session(leader: int) -> Iterator[int]:
    """The processes of a session."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    yield int(entry.name)
            except ProcessLookupError:
                continue


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
@pytest.mark.parametrize("executor", ["serial", "local"])
def test_a_machine_that_sleeps_goes_on(executor: str, tmp_path: Path) -> None:
    """All processes of a grid are stopped ten times, a second each; whatever waits for whom, it
    goes on.
    """
    with started(tmp_path / "slept", "--executor", executor) as process:
        for _ in range(10):
            time.sleep(1.5)
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for each in of_session(process.pid):
                    os.kill(each, number)
                time.sleep(number == signal.SIGSTOP)
        said = process.communicate(timeout=HANGS_S)[0]
    assert process.returncode == 0, said
    with started(tmp_path / "awake", "--executor", executor) as other:
        said = other.communicate(timeout=HANGS_S)[0]
    assert other.returncode == 0, said
    assert scores(tmp_path / "slept" / "results") == scores(tmp_path / "awake" / "results")


@pytest.mark.faults
def test_three_commands_on_one_folder_train_each_run_once(tmp_path: Path) -> None:
    running = [started(tmp_path, "--executor", "serial", "--seeds", "3") for _ in range(3)]
    outputs = [process.communicate(timeout=HANGS_S)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs
    starts = [
        line for output in outputs for line in output.splitlines() if line.endswith("  starts")
    ]
    assert len(starts) == len(set(starts)) == 6
    assert len(harness.results(tmp_path / "results").runs) == 6
