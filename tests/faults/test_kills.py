"""kill -9 at file operations of every stage of a grid: nothing finished is lost, and all scores are
as before.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from shutil import copytree

import pytest
import slurm_standin
from executor_jobs import scores
from faults_tools import hashes, outcome, short_run
from killing import (
    HEAD,
    LOST,
    Series,
    Undisturbed,
    assert_as_before,
    ended,
    exit_code,
    index,
    short,
    started,
    undisturbed,
)

import harness
from harness.store import Store
from harness.store.tunings import FIRST_TRIALS, read_tunings
from harness.work.forkserver import start

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="sessions and audit hooks are tested on Linux"
)

WORKER, DRIVER, BOTH = ("worker",), ("driver",), ("worker", "driver")
OF_RUNS = ("checkpoint", "best model", "scores of a suite")
IN_SLURM = ("--wait", "--device", "cpu")
LONG = {
    "serial": Series("serial", 22, (WORKER,)),
    "local": Series("local", 24, (WORKER, DRIVER, BOTH)),
    "ray": Series("ray", 11, (WORKER, DRIVER)),
    "head of ray": Series("ray", 4, (HEAD,), stages=OF_RUNS),
    "slurm": Series("slurm", 11, (WORKER,), IN_SLURM),
    "notice of slurm": Series("slurm", 3, (("NOTICE",),), IN_SLURM, OF_RUNS),
    "preemption": Series("slurm", 4, (("PREEMPTED",),), IN_SLURM, OF_RUNS),
    "time-out": Series("slurm", 4, (("TIMEOUT",),), IN_SLURM, OF_RUNS),
}
NEEDS = {"ray": "ray", "slurm": "submitit"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "grid")


#: stages of a short run of one method that reads no images, but for those of caches: test_writes
#: cuts their files short
SHORT_STAGES = ("log", "checkpoint", "best model", "scores of a suite", "result")


@pytest.mark.parametrize(
    "stages",
    [("best model",), pytest.param(SHORT_STAGES, marks=pytest.mark.faults)],
    ids=["one", "all"],
)
def test_a_short_run_that_was_killed_at_any_stage_ends_as_if_nothing_had_happened(
    stages: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    traced = start(short, str(tmp_path / "whole"), {"trace": str(trace)}, "simcse", environment={})
    assert exit_code(traced) == 0
    wanted, operations = (
        scores(tmp_path / "whole" / "results"),
        Counter(trace.read_text().splitlines()),
    )
    series = Series("serial", len(stages), (WORKER,), stages=stages)
    kills = {
        tmp_path / str(number): kill for number, kill in enumerate(series.kills(operations, seed=0))
    }
    assert {kill.stage for kill in kills.values()} == {*stages}

    def killed(folder: Path) -> ForkServerProcess:
        copytree(tmp_path / "whole" / "cache", folder / "cache")
        fault = {**kills[folder]._asdict(), "count": str(folder.with_suffix(".count"))}
        return start(short, str(folder), fault, "simcse", environment={})

    begun = {folder: killed(folder) for folder in kills}
    codes = {folder: exit_code(child) for folder, child in begun.items()}
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "whole" / "cache"))
    for folder, kill in kills.items():
        assert codes[folder] == -signal.SIGKILL or kill.delay
        before = hashes(folder / "results")
        short_run("simcse", folder / "results")
        assert_as_before(folder / "results", before, wanted)


def test_a_search_that_was_killed_in_a_chosen_trial_goes_on_with_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    search = {
        "tune": "simcse:temperature=0.02..0.5",
        "trials": 6,
        "sampler": "tpe",
        "set": {"steps": 2},
    }
    searching, trace, count = partial(short, **search), tmp_path / "trace", tmp_path / "count"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    traced = start(searching, str(whole), {"trace": str(trace)}, None, environment={})
    assert exit_code(traced) == 0
    operations = Counter(trace.read_text().splitlines())
    at, times = next(
        (line, times) for line, times in operations.items() if "best" in line and times == 6
    )
    fault = {"at": at, "nth": times, "who": ["worker"], "delay": 0, "count": str(count)}
    assert exit_code(start(searching, str(parts), fault, None, environment={})) == -signal.SIGKILL
    stores = [Store(folder / "results") for folder in (whole, parts)]
    assert len(stores[1].load()[0]) == FIRST_TRIALS == 5
    monkeypatch.setenv("HARNESS_CACHE", str(whole / "cache"))
    short_run(None, parts / "results", **search)
    assert scores(parts / "results") == scores(whole / "results")
    first, second = (read_tunings(store) for store in stores)
    assert first == second


@pytest.mark.faults
@pytest.mark.parametrize("at", ["open", "rename"])
def test_an_index_whose_writer_was_killed_is_made_again(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_run("none", tmp_path / "results", settings=None)
    wanted = outcome(harness.results(tmp_path / "results"))
    trace, count = tmp_path / "trace", tmp_path / "count"
    assert exit_code(start(index, str(tmp_path), {"trace": str(trace)}, environment={})) == 0
    (line,) = {
        line for line in trace.read_text().splitlines() if ".cache/" in line and line.startswith(at)
    }
    for path in (tmp_path / "results" / ".cache").iterdir():
        path.unlink()
    fault = {"at": line, "nth": 1, "who": ["worker"], "delay": 0, "count": str(count)}
    assert exit_code(start(index, str(tmp_path), fault, environment={})) == -signal.SIGKILL
    monkeypatch.setattr("harness.store.index.WORTH_FILES", 1)
    assert outcome(harness.results(tmp_path / "results")) == wanted
    assert [path.suffix for path in (tmp_path / "results" / ".cache").glob("index-*")] == [".bin"]


@pytest.mark.faults
@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, series in LONG.items() for number in range(series.count)],
)
def test_a_grid_that_was_killed_ends_as_if_nothing_had_happened(
    name: str, number: int, whole: Undisturbed, tmp_path: Path
) -> None:
    series, env = LONG[name], {}
    if series.executor in NEEDS:
        pytest.importorskip(NEEDS[series.executor])
    if series.executor == "slurm":
        env = slurm_standin.install(tmp_path / "slurm")
    kill = [*series.kills(whole.operations, seed=list(LONG).index(name))][number]
    options = ("--executor", series.executor, *series.options)
    # another executor goes on from what a cluster left
    again = ("--executor", "serial") if kill.who == HEAD and number % 2 else options
    grid, count = tmp_path / "grid", tmp_path / "count"
    if not kill.at.partition(" ")[2].startswith("cache/"):
        copytree(whole.folder / "cache", grid / "cache")
    code, said = ended(
        started(grid, *options, fault={**kill._asdict(), "count": str(count)}, env=env)
    )
    assert count.is_file(), f"it was never killed: {said}"
    assert kill.who != HEAD or (code, said.splitlines()[-1].startswith(LOST)) == (2, True), said
    before, restarted = hashes(grid / "results"), time.time()
    code, said = ended(started(grid, *again, env=env))
    assert code == 0, said
    assert not [
        path for path in (grid / "results").rglob("*.tmp") if path.stat().st_mtime < restarted
    ]
    assert_as_before(grid / "results", before, whole.scores)
