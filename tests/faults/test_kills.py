"""kill -9 at file operations of every stage of a grid: nothing finished is lost, and all scores are as before."""

from __future__ import annotations

import logging
import signal
import sys
from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest
from faults_tools import short_run
from killing import STAGES, Kill, chosen, endured, hashes, in_a_process, index, scores, short, undisturbed

log = logging.getLogger(__name__)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions and audit hooks are tested on Linux")

WORKER, DRIVER, BOTH = ("worker",), ("driver",), ("worker", "driver")
#: executor -> the kills, who is killed by turns, further options
LONG = {
    "serial": (22, (WORKER,), ()),
    "local": (24, (WORKER, DRIVER, BOTH), ()),
    "ray": (8, (WORKER, DRIVER), ()),
    "slurm": (8, (WORKER,), ("--wait", "--device", "cpu")),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counter[str], dict[str, object]]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "grid")


#: stages of a short run of one method that reads no images
SHORT_STAGES = set(STAGES) - {"features"}


def test_a_short_run_that_was_killed_at_any_stage_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, problems = tmp_path / "trace", []
    assert in_a_process(short, str(tmp_path / "whole"), {"trace": str(trace)}, "simcse") == 0
    wanted, operations = scores(tmp_path / "whole" / "results"), Counter(trace.read_text().splitlines())
    kills = list(chosen(operations, len(SHORT_STAGES), (WORKER,), seed=0))
    assert {kill.stage for kill in kills} == SHORT_STAGES
    for number, kill in enumerate(kills):
        folder, count = tmp_path / str(number), tmp_path / f"{number}.count"
        if " cache/" not in kill.at:
            copytree(tmp_path / "whole" / "cache", folder / "cache")
        code = in_a_process(short, str(folder), {**kill._asdict(), "count": str(count)}, "simcse")
        assert code == -signal.SIGKILL or kill.delay
        before = hashes(folder / "results")
        monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
        short_run("simcse", folder / "results")
        after = hashes(folder / "results")
        problems += [f"{kill}: {path}" for path in before if path.endswith(".json") and after.get(path) != before[path]]
        problems += [] if scores(folder / "results") == wanted else [f"{kill}: the scores differ"]
    assert problems == []


@pytest.mark.parametrize("at", ["open", "rename"])
def test_an_index_whose_writer_was_killed_is_made_again(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_run("none", tmp_path / "results", settings=None)
    wanted = scores(tmp_path / "results")
    trace, count = tmp_path / "trace", tmp_path / "count"
    assert in_a_process(index, str(tmp_path), {"trace": str(trace)}) == 0
    (line,) = {line for line in trace.read_text().splitlines() if ".cache/" in line and line.startswith(at)}
    for path in (tmp_path / "results" / ".cache").iterdir():
        path.unlink()
    fault = {"at": line, "nth": 1, "who": ["worker"], "delay": 0, "count": str(count)}
    assert in_a_process(index, str(tmp_path), fault) == -signal.SIGKILL
    monkeypatch.setattr("harness.store.index.WORTH_FILES", 1)
    assert scores(tmp_path / "results") == wanted
    assert [path.suffix for path in (tmp_path / "results" / ".cache").glob("index-*")] == [".bin"]


@pytest.mark.faults
def test_the_operations_of_a_grid_cover_every_stage(reference: tuple[Counter[str], dict[str, object]]) -> None:
    assert {Kill(line, 1, (), 0).stage for line in reference[0]} >= set(STAGES)


@pytest.mark.faults
@pytest.mark.parametrize("executor", LONG)
def test_a_grid_that_was_killed_ends_as_if_nothing_had_happened(
    executor: str, reference: tuple[Counter[str], dict[str, object]], tmp_path: Path
) -> None:
    count, sides, options = LONG[executor]
    if executor in ("ray", "slurm"):
        pytest.importorskip({"ray": "ray", "slurm": "submitit"}[executor])
    env = {}
    if executor == "slurm":
        from slurm_standin import install

        env = install(tmp_path / "slurm")
    operations, wanted = reference
    problems = []
    for number, kill in enumerate(chosen(operations, count, sides, seed=number_of(executor))):
        problem = endured(tmp_path / str(number), kill, wanted, "--executor", executor, *options, env=env)
        log.info("%s, %s: %s: %s", executor, kill.stage, kill, problem or "as before")
        problems += [problem] if problem else []
    assert problems == []


def number_of(executor: str) -> int:
    return list(LONG).index(executor)
